"""Why an MCP server is unusable: limits on what it sends, and the wording of the SDK's exceptions."""

from collections.abc import Callable, Iterator
from typing import Any

from app.core.errors import AppError
from app.core.paths import log_file
from app.core.printable import one_line, printable
from app.settings.mcp_file import McpServer

_MAX_BYTES, MAX_MESSAGE = 100 << 20, 16 << 20
"""Bytes that a server may send for one command, and in one message."""
_MAX_JUNK = 80
_SOURCE_BY_COMMAND = {
    **dict.fromkeys(("npx", "npm", "node"), "Install Node.js, which includes it: https://nodejs.org"),
    **dict.fromkeys(("uvx", "uv"), "Install uv, which includes it: https://docs.astral.sh/uv"),
    **dict.fromkeys(("docker",), "Install Docker, which includes it: https://docs.docker.com"),
}
"""How to install the commands of many servers."""
_STATUS_FIXES = {
    401: 'Put its key into headers in mcp.json: "Authorization": "Bearer KEY".',
    403: "Check the key in headers in mcp.json, and what it permits.",
    429: "Wait, and try again.",
}
_NETWORK_CAUSES = (
    (
        "SSLCertVerificationError",
        "has a certificate that is not trusted",
        "If you trust it, set the variable SSL_CERT_FILE to its file.",
    ),
    ("SSLError", "does not speak TLS", "Begin its url in mcp.json with http:// if it has no certificate."),
    ("gaierror", "has an unknown host name", "Check its url in mcp.json, and the network."),
    ("ConnectionRefusedError", "refuses connections", "Start it, or check the port of its url in mcp.json."),
    ("TimeoutError", "cannot be reached in time", "Check its url in mcp.json, and the network."),
    # Their texts may contain secrets of the URL.
    ("InvalidURL", "has a url that is not valid", "Correct it in mcp.json."),
    ("UnsupportedProtocol", "has a url that is not valid", "Correct it in mcp.json."),
)
"""Exceptions of the SDK's libraries, their meaning, and the fix."""
_CONNECTION_CLOSED, _WRONG_JSON = -32000, -32700
"""The SDK's codes for a server that is gone, and for an answer that it cannot read."""
_PATH_FIX = "Check the path of its url in mcp.json, and its type: http or sse."


class UnusableServerError(Exception):
    """A server cannot be used.

    Attributes:
        what: The reason, as the rest of a sentence that begins with the server's name.
        may_pass: Whether another attempt may help.
    """

    def __init__(self, what: str, fix: str = "", *, may_pass: bool = False) -> None:
        super().__init__(what)
        self.what, self.fix, self.may_pass = what, fix, may_pass


class Meter:
    """Counts what a server sends, and remembers what explains its end, without secrets.

    Attributes:
        flood: The exceeded limit, or 0.
        junk: The first text that was no message of the protocol, if any.
        refusal: The last answer of an HTTP server, if that was not MCP.
        line: The last line of a command's stderr, or the last line that names an error.
        stop: Ends what waits for the server.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.stop: Callable[[], object] = lambda: None
        self.total = self._line = self.flood = 0
        self.junk = self.line = ""
        self.refusal: UnusableServerError | None = None

    def count(self, data: bytes) -> None:
        """Count new bytes. Raises ConnectionError above the limit, which ends the connection."""
        self.total += len(data)
        end = data.rfind(b"\n")
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        for size, limit in ((self._line, MAX_MESSAGE), (self.total, _MAX_BYTES)):
            if size > limit:
                self.flood = limit
                # The SDK would read until the server ends.
                self.stop()
                raise ConnectionError("too many bytes")

    async def watch(self, message: Any) -> None:
        """Record what the SDK could not read."""
        if isinstance(message, Exception):
            given = next((one.get("input") for one in getattr(message, "errors", list)()), "")
            self.junk = self.junk or one_line(self._server.without_secrets(str(given)))[:_MAX_JUNK]


def missing_command(command: str) -> UnusableServerError:
    """Return the error for a missing command, with how to install it."""
    fix = _SOURCE_BY_COMMAND.get(command, "Install it, or correct its command in mcp.json.")
    fix = "Put the arguments of its command into args in mcp.json." if " " in command else fix
    return UnusableServerError(f'cannot start: there is no command "{one_line(command)}"', fix)


def refusal(response: Any) -> UnusableServerError | None:
    """Describe an HTTP answer that is not MCP."""
    status, kind = response.status_code, response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.has_redirect_location:
        address = printable(McpServer("", url=str(response.url.join(response.headers["location"]))).address)
        return UnusableServerError(
            f"redirects to {address}", "Write that address into url in mcp.json if you trust it."
        )
    if status >= 400:
        fix = "Its own log says why; start it again, or ask who runs it." if status >= 500 else _PATH_FIX
        reason = f"answered {status} {response.reason_phrase}".strip()
        return UnusableServerError(reason, _STATUS_FIXES.get(status, fix), may_pass=status >= 500)
    if status == 200 and kind not in ("application/json", "text/event-stream"):
        return UnusableServerError(f"answered with {one_line(kind) or 'nothing'}, which is not MCP", _PATH_FIX)
    return None


def failure(server: McpServer, error: BaseException, meter: Meter, *, has_begun: bool) -> tuple[AppError, bool]:
    """Return why a server is unusable, and whether another attempt may help; `has_begun` if it was connected."""
    cause = _cause(server, list(_flat(error)), meter, has_begun=has_begun)
    name = f"The MCP server {server.name}{f' at {server.address}' if server.url else ''}"
    return AppError(server.without_secrets(printable(f"{name} {cause.what}.")), cause.fix), cause.may_pass


def _cause(server: McpServer, errors: list[BaseException], meter: Meter, *, has_begun: bool) -> UnusableServerError:
    look = "" if server.url else f"Its messages are in the log: {log_file()}"
    said = f"; it wrote text that is no message of MCP: {meter.junk}" if meter.junk else ""
    said = f": {one_line(meter.line)}" if meter.line else said
    known = next((one for one in errors if isinstance(one, UnusableServerError)), None)
    if meter.flood:
        return UnusableServerError(f"sent more than {meter.flood >> 20} MB at once and was ended")
    if known is not None:
        return known if known.fix else UnusableServerError(f"{known.what}{said}", look)
    if meter.refusal is not None:
        return meter.refusal
    if server.url:
        for kind, what, fix in _NETWORK_CAUSES:
            if any(kind in (each.__name__ for each in type(one).mro()) for one in errors):
                return UnusableServerError(what, fix)
    codes = [one.code for one in errors if hasattr(one, "code")]
    if _WRONG_JSON in codes:
        return UnusableServerError("answered with wrong JSON", look)
    if server.url and not codes:
        what = f"cannot be reached: {reason(errors[0])}"
        return UnusableServerError(what, "Check its url in mcp.json.", may_pass=True)
    if _CONNECTION_CLOSED in codes:
        return UnusableServerError(f"ended before it answered{said}", look, may_pass=has_begun)
    what = "answered with an error" if codes else "does not follow MCP"
    what = "cannot start" if isinstance(errors[0], OSError) and not has_begun else what
    return UnusableServerError(f"{what}: {reason(errors[0])}", look)


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _flat(one)
    else:
        yield error
    if (before := error.__cause__ or error.__context__) is not None:
        yield from _flat(before)


def reason(error: BaseException) -> str:
    """Describe an exception; pydantic's exceptions list what was wrong."""
    for wrong in getattr(error, "errors", list)():
        return one_line(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")
    return one_line(getattr(error, "strerror", None) or str(error)) or type(error).__name__
