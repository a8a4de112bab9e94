"""HTTP servers on the loopback that record requests, redirect them, or have a certificate of nobody."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

_HOST = "127.0.0.1"


class Recorder:
    """Records the URL of the server and the headers of each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []

    @contextmanager
    def server(
        self, moved_to: str | None = None, certificate: Path | None = None, status: int = 404, kind: str | None = None
    ) -> Iterator[str]:
        """Answer every request with a redirect, or with a status and a content type; yield the URL."""
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                requests.append((url, dict(self.headers)))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status if moved_to is None else 307)
                self.send_header("Content-Length", "0")
                if kind is not None:
                    self.send_header("Content-Type", kind)
                if moved_to is not None:
                    self.send_header("Location", moved_to)
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_request(self, code: object = "-", size: object = "-") -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """A client that refuses the certificate is expected."""

        runner = Server((_HOST, 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            runner.socket = context.wrap_socket(runner.socket, server_side=True)
        url = f"{'http' if certificate is None else 'https'}://{_HOST}:{runner.server_port}"
        thread = threading.Thread(target=runner.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield url
        finally:
            runner.shutdown()
            thread.join()
            runner.server_close()


def self_signed(folder: Path) -> Path:
    """Return a file with a key and a certificate of the loopback address that no authority has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _HOST)])
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(_HOST))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "self_signed.pem"
    file.write_bytes(private + signed.public_bytes(pem))
    return file
