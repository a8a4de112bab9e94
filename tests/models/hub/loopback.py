"""A stand-in for huggingface.co and its CDN under uvicorn, on two loopback ports.

Its answers follow recordings of the real hub. A file is a redirect from the hub to the CDN.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.hanging import HANGS_S
from tests.models.hub.faults import Faults, as_json

_REPO = r"(?P<repo>[^/]+/[^/]+)"
_INFO = re.compile(rf"/api/models/{_REPO}/revision/(?P<revision>.+)")
_RESOLVE = re.compile(rf"/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_RANGE = re.compile(r"bytes=(?P<first>\d+)-(?P<last>\d*)")
_WARNING = "unauthenticated; Warning: You are sending unauthenticated requests to the HF Hub."
_PIECE_BYTES = 1 << 20


@dataclass
class HubFile:
    """A file of a repository."""

    path: str
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass
class HubRepo:
    """A model repository.

    Attributes:
        gated: False, "auto" or "manual": the files need the consent of their owner. The listing stays public.
        granted: Tokens with access to the files of a gated repository.
        gguf: The hub's facts from the GGUF header; invented for None.
        commits: Every commit with its files; the last one is main.
    """

    name: str
    gated: str | bool = False
    license: str | None = None
    downloads: int = 0
    gguf: Mapping[str, Any] | None = None
    granted: set[str] = field(default_factory=set)
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, HubFile]:
        return self.commits[self.resolve("main") or ""]

    @property
    def header(self) -> Any:
        sizes = [file.size for path, file in self.files.items() if path.endswith(".gguf")]
        return self.gguf or {"total": max(sizes, default=0), "architecture": "llama", "context_length": 2048}

    def change(self, files: Mapping[str, bytes]) -> None:
        """Commit these files to main; other files stay."""
        held = dict(self.files) if self.commits else {}
        held |= {path: HubFile(path, content) for path, content in files.items()}
        self.commits[hashlib.sha1(f"{self.name}#{len(self.commits)}".encode()).hexdigest()] = held

    def resolve(self, revision: str) -> str | None:
        """Return the commit of main or of a commit hash."""
        if revision == "main":
            return list(self.commits)[-1]
        return revision if revision in self.commits else None

    def info(self, commit: str) -> dict[str, Any]:
        """Return the JSON of `GET /api/models/{repo}/revision/{revision}?blobs=true`."""
        siblings = [
            {
                "rfilename": file.path,
                "blobId": hashlib.sha1(file.sha256.encode()).hexdigest(),
                "size": file.size,
                "lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 131},
            }
            for file in self.commits[commit].values()
        ]
        card = {"license": self.license} if self.license else {}
        facts = {"id": self.name, "sha": commit, "cardData": card, "gated": self.gated, "gguf": self.header}
        return facts | {"siblings": siblings}


class Exchange(Request):
    """A request and the delivery of its answer.

    Attributes:
        origin: Which port received the request: "hub" or "cdn".
        file: The repository file that the request is about, if any.
        content: The whole content of that file, if the CDN is asked.
        sent: Bytes of the answer's body that were sent.
        done: Whether the request is answered, or held back by a fault.
    """

    def __init__(self, origin: str, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self.origin = origin
        self.path: str = scope["path"]
        self.raw_path: str = scope["raw_path"].decode()
        self.file: str | None = None
        self.content = b""
        self.sent = 0
        self.done = False
        self._transport: asyncio.Transport = scope["state"]["transport"]

    @property
    def token(self) -> str | None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else None

    def is_for(self, path: str, origin: str) -> bool:
        """Return whether its path, or the file it is about, matches a glob; "*" stands for any origin."""
        return origin in ("*", self.origin) and any(fnmatchcase(name, path) for name in (self.path, self.file or ""))

    async def start(self, answer: Response) -> None:
        """Send the status line and the headers."""
        await self._send({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})

    async def send(self, answer: Response, skip: int = 0, count: int | None = None) -> None:
        """Send `count` bytes of the body (the rest for None) after the first `skip`."""
        part = answer.body[skip : None if count is None else skip + count] if self.method != "HEAD" else b""
        for at in range(0, len(part), _PIECE_BYTES):
            if self._transport.is_closing():
                return
            piece = bytes(part[at : at + _PIECE_BYTES])
            self.sent += len(piece)
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, answer: Response) -> None:
        """End the answer; if its length is not the declared one, close the connection."""
        if self.method != "HEAD" and str(self.sent) != answer.headers["Content-Length"]:
            await self.hang_up()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def hang_up(self, *, reset: bool = False) -> None:
        """Close the connection after the sent bytes (FIN) or immediately (RST)."""
        if reset:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class LoopbackHub:
    """A running hub with its CDN on a second port; a context manager.

    Attributes:
        renamed: New names of repositories by their old ones.
        leaks: Requests to the CDN that carried a token.
        requests: Everything asked so far, answered or not.
        errors: Errors of the stand-in itself; always empty.
    """

    def __init__(self) -> None:
        self.repos: dict[str, HubRepo] = {}
        self.renamed: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.leaks: list[Exchange] = []
        self.faults = Faults()
        self.requests: list[Exchange] = []
        self.errors: list[BaseException] = []
        self._links: dict[str, HubFile] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._server = _Server(self)
        self.endpoint, self.cdn_endpoint = (f"http://127.0.0.1:{port}" for port in self._server.ports)

    def __enter__(self) -> LoopbackHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.faults.release()
        self._server.stop(waits=False)

    def close(self) -> None:
        """Release every delayed answer and close both ports."""
        self.faults.release()
        self._server.stop(waits=True)

    def add(self, repo: str, files: Mapping[str, bytes], **options: Any) -> HubRepo:
        """Add a repository with these files; the options are those of `HubRepo`."""
        held = HubRepo(repo, **options)
        held.change(files)
        self.repos[repo] = held
        return held

    def rename(self, old: str, new: str) -> None:
        """Rename a repository; requests with the old name are forwarded."""
        self.repos[new] = self.repos.pop(old)
        self.repos[new].name = new
        self.renamed[old] = new

    def asked(self, path: str = "*", *, origin: str = "*") -> list[Exchange]:
        """Return the requests whose path or file matches this glob, after each is answered or held back."""
        with self._changed:
            settled = self._changed.wait_for(lambda: all(request.done for request in self.requests), HANGS_S)
            assert settled, f"unanswered: {[request.path for request in self.requests if not request.done]}"
            return [request for request in self.requests if request.is_for(path, origin)]

    def mark_done(self, request: Exchange) -> None:
        """Continue `asked`: the request is answered, or a fault holds it back."""
        with self._changed:
            request.done = True
            self._changed.notify_all()

    async def serve(self, request: Exchange) -> None:
        """Answer one request, with the fault that fits it."""
        with self._changed:
            self.requests.append(request)
        try:
            request.file = self._file(request)
            fault = self.faults.take(request)
            await fault.deliver(self, request, fault.alter(request, self._answer(request)))
        except Exception as error:
            self.errors.append(error)
            raise
        finally:
            self.mark_done(request)

    def _file(self, request: Exchange) -> str | None:
        if request.origin == "cdn":
            linked = self._links.get(request.raw_path)
            return linked.path if linked else None
        route = _RESOLVE.fullmatch(request.raw_path)
        return unquote(route["path"]) if route else None

    def _answer(self, request: Exchange) -> Response:
        """Return the true answer, before any fault."""
        if request.origin == "cdn":
            if "Authorization" in request.headers:
                self.leaks.append(request)
            return _content(request, self._links[request.raw_path])
        try:
            answer = self._hub_answer(request)
        except HTTPException as refusal:
            headers = {"X-Error-Message": refusal.detail, **(refusal.headers or {})}
            answer = as_json({"error": refusal.detail}, refusal.status_code, headers)
        if request.token is None:
            answer.headers["X-HF-Warning"] = _WARNING
        return answer

    def _hub_answer(self, request: Exchange) -> Response:
        for old, new in self.renamed.items():
            if f"/{old}/" in request.raw_path:
                place = request.raw_path.replace(f"/{old}/", f"/{new}/", 1)
                return RedirectResponse(f"{place}?{request.url.query}", 307)
        if request.raw_path == "/api/models":
            words = request.query_params.get("search", "").lower().split()
            found = [repo for repo in self.repos.values() if all(word in repo.name.lower() for word in words)]
            found.sort(key=lambda repo: repo.downloads, reverse=True)
            return as_json([{"id": repo.name, "downloads": repo.downloads, "gguf": repo.header} for repo in found])
        if route := _INFO.fullmatch(request.raw_path):
            repo = self._repo(request, route["repo"])
            return as_json(repo.info(_commit(repo, route["revision"])))
        if route := _RESOLVE.fullmatch(request.raw_path):
            repo = self._repo(request, route["repo"], content=True)
            commit = _commit(repo, route["revision"])
            file = repo.commits[commit].get(unquote(route["path"]))
            if file is None:
                raise HTTPException(404, "Entry not found", {"X-Error-Code": "EntryNotFound"})
            return self._redirect(commit, file)
        raise HTTPException(404, "Sorry, we can't find the page you are looking for.")

    def _repo(self, request: Exchange, name: str, *, content: bool = False) -> HubRepo:
        """Return the repository if this request may see it, or with `content` its files."""
        repo, token = self.repos.get(unquote(name)), request.token
        if token is not None and token not in self.tokens:
            raise HTTPException(401, "Invalid credentials in Authorization header")
        if repo is None:
            raise HTTPException(401, "Invalid username or password.")
        if content and repo.gated and token not in repo.granted:
            refused = f"Access to model {name} is restricted"
            raise HTTPException(401 if token is None else 403, refused, {"X-Error-Code": "GatedRepo"})
        return repo

    def _redirect(self, commit: str, file: HubFile) -> Response:
        path = f"/xet-bridge-us/{next(self._numbers)}/{file.sha256}"
        self._links[path] = file
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{file.sha256}"',
            "X-Linked-Size": str(file.size),
            "Accept-Ranges": "bytes",
        }
        return RedirectResponse(f"{self.cdn_endpoint}{path}?Signature={file.sha256}", 302, headers)


def _commit(repo: HubRepo, revision: str) -> str:
    commit = repo.resolve(unquote(revision))
    if commit is None:
        raise HTTPException(404, f"Invalid rev id: {unquote(revision)}", {"X-Error-Code": "RevisionNotFound"})
    return commit


def _content(request: Exchange, file: HubFile) -> Response:
    """Return a file, or the requested range."""
    request.content = file.content
    headers = {"ETag": f'"{file.sha256}"', "Accept-Ranges": "bytes"}
    asked = _RANGE.fullmatch(request.headers.get("Range", ""))
    if asked is None:
        return Response(file.content, headers=headers)
    first, last = int(asked["first"]), min(int(asked["last"] or file.size - 1), file.size - 1)
    if first >= file.size:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{file.size}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{file.size}"
    return Response(file.content[first : last + 1], 206, headers)


class _Protocol(H11Protocol):
    """Gives the application the transport, so that a fault can break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {"transport": transport}


class _Server(uvicorn.Server):
    """Serves a hub on two ports, in a daemon thread."""

    def __init__(self, hub: LoopbackHub) -> None:
        options: Any = {"lifespan": "off", "log_config": None, "access_log": False, "http": _Protocol, "ws": "none"}
        super().__init__(uvicorn.Config(self._route, interface="asgi3", timeout_keep_alive=3600, **options))
        self._hub = hub
        sockets = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(2)]
        self.ports = [one.getsockname()[1] for one in sockets]
        self._thread = threading.Thread(target=self.run, args=(sockets,), name="loopback hub", daemon=True)
        self._thread.start()

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = "hub" if scope["server"][1] == self.ports[0] else "cdn"
        await self._hub.serve(Exchange(origin, scope, receive, send))

    def stop(self, *, waits: bool) -> None:
        """Close the ports and every connection; optionally wait for the end of the thread."""
        self.should_exit = self.force_exit = True
        if waits:
            self._thread.join(HANGS_S)
