"""HTTP servers on the loopback that record requests, redirect them, or have a self-signed certificate."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import Response

_HOST = "127.0.0.1"


@contextmanager
def served(app: Any, certificate: Path | None = None, **options: Any) -> Iterator[str]:
    """Serve an ASGI application in a thread of this process; yield the URL."""
    listener = socket.create_server((_HOST, 0))
    config = uvicorn.Config(app, log_level="critical", ws="none", ssl_certfile=certificate, **options)
    runner = uvicorn.Server(config)
    thread = threading.Thread(target=runner.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://{_HOST}:{listener.getsockname()[1]}"
    finally:
        runner.should_exit = runner.force_exit = True
        thread.join()
        listener.close()


class Recorder:
    """Records the URL of the server and the headers of each request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []

    @contextmanager
    def server(
        self, moved_to: str | None = None, certificate: Path | None = None, status: int = 404, kind: str | None = None
    ) -> Iterator[str]:
        """Answer every request with a redirect, or with a status and a content type; yield the URL."""

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            self.requests.append((url, {name.decode(): value.decode() for name, value in scope["headers"]}))
            moved = {"Location": moved_to} if moved_to is not None else {}
            response = Response(status_code=status if moved_to is None else 307, headers=moved, media_type=kind)
            await response(scope, receive, send)

        with served(answer, certificate, lifespan="off") as url:
            yield url


def self_signed(folder: Path) -> Path:
    """Return a file with a key and a self-signed certificate of the loopback address."""
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
