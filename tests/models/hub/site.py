"""Answers of the hub and its CDN, as recorded of the real ones.

Files come by a redirect to the CDN, which is another origin here too.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from typing import Any
from urllib.parse import unquote, urlencode

from tests.models.hub.content import HubFile, HubRepo
from tests.models.hub.wire import Answer, Request

_REPO = r"(?P<repo>[^/]+/[^/]+)"
_INFO = re.compile(rf"/api/models/{_REPO}/revision/(?P<revision>.+)")
_RESOLVE = re.compile(rf"/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_RANGE = re.compile(r"bytes=(?P<first>\d+)-(?P<last>\d*)")
_WARNING = "unauthenticated; Warning: You are sending unauthenticated requests to the HF Hub."


class Refusal(Exception):  # noqa: N818
    """An error in place of an answer."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self.answer = Answer.json({"error": message}, headers, status)


class Site:
    """The state of the hub, and its answer to every request."""

    endpoint: str
    cdn_endpoint: str

    def __init__(self) -> None:
        self.repos: dict[str, HubRepo] = {}
        self.renamed: dict[str, str] = {}
        """New names of repositories by their old ones."""
        self.tokens: set[str] = set()
        self.leaks: list[Request] = []
        self._links: dict[str, HubFile] = {}
        self._numbers = itertools.count(1)

    def file_of(self, request: Request) -> str | None:
        """Return the repository file that a request is about."""
        if request.origin == "cdn":
            linked = self._links.get(request.raw_path)
            return linked.path if linked else None
        route = _RESOLVE.fullmatch(request.raw_path)
        return unquote(route["path"]) if route else None

    def answer(self, request: Request) -> Answer:
        """Return the true answer, before any fault."""
        try:
            answer = self._from_hub(request) if request.origin == "hub" else self._from_cdn(request)
        except Refusal as refusal:
            answer = refusal.answer
        if request.origin == "hub" and request.token is None:
            answer.headers["X-HF-Warning"] = _WARNING
        return answer

    def _from_cdn(self, request: Request) -> Answer:
        if "authorization" in request.headers:
            self.leaks.append(request)
        return _content(request, self._links[request.raw_path])

    def rename(self, old: str, new: str) -> None:
        """Give a repository another name; requests of the old one are forwarded."""
        self.repos[new] = self.repos.pop(old)
        self.repos[new].name = new
        self.renamed[old] = new

    def _from_hub(self, request: Request) -> Answer:
        for old, new in self.renamed.items():
            if f"/{old}/" in request.raw_path:
                place = request.raw_path.replace(f"/{old}/", f"/{new}/", 1)
                query = f"?{urlencode(request.query, doseq=True)}" if request.query else ""
                return Answer.text(307, f"Temporary Redirect. Redirecting to {place}", Location=place + query)
        if request.raw_path == "/api/models":
            return self._search(request)
        if route := _INFO.fullmatch(request.raw_path):
            repo = self._repo(request, route["repo"])
            return Answer.json(_info(repo, self._commit(repo, route["revision"])))
        if route := _RESOLVE.fullmatch(request.raw_path):
            repo = self._repo(request, route["repo"], content=True)
            commit = self._commit(repo, route["revision"])
            file = repo.commits[commit].get(unquote(route["path"]))
            if file is None:
                raise Refusal(404, "Entry not found", "EntryNotFound")
            return self._redirect(commit, file)
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _repo(self, request: Request, name: str, *, content: bool = False) -> HubRepo:
        """Return the repository, if this request may see it; with `content`, if it may have its files."""
        repo, token = self.repos.get(unquote(name)), request.token
        if token is not None and token not in self.tokens:
            raise Refusal(401, "Invalid credentials in Authorization header")
        if repo is None:
            raise Refusal(401, "Invalid username or password.")
        if content and repo.gated and token not in repo.granted:
            raise Refusal(401 if token is None else 403, f"Access to model {name} is restricted", "GatedRepo")
        return repo

    def _commit(self, repo: HubRepo, revision: str) -> str:
        commit = repo.resolve(unquote(revision))
        if commit is None:
            raise Refusal(404, f"Invalid rev id: {unquote(revision)}", "RevisionNotFound")
        return commit

    def _redirect(self, commit: str, file: HubFile) -> Answer:
        path = f"/xet-bridge-us/{next(self._numbers)}/{file.sha256}"
        self._links[path] = file
        place = f"{self.cdn_endpoint}{path}?{urlencode({'Signature': file.sha256})}"
        answer = Answer.text(302, f"Found. Redirecting to {place}", Location=place)
        answer.headers |= {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{file.sha256}"',
            "X-Linked-Size": str(file.size),
            "Accept-Ranges": "bytes",
        }
        return answer

    def _search(self, request: Request) -> Answer:
        words = " ".join(request.query.get("search", [])).lower().split()
        found = [repo for repo in self.repos.values() if all(word in repo.name.lower() for word in words)]
        found.sort(key=lambda repo: repo.downloads, reverse=True)
        return Answer.json([{"id": one.name, "downloads": one.downloads, "gguf": _gguf(one)} for one in found])


def _gguf(repo: HubRepo) -> Any:
    sizes = [file.size for path, file in repo.files.items() if path.endswith(".gguf")]
    return repo.gguf or {"total": max(sizes, default=0), "architecture": "llama", "context_length": 2048}


def _info(repo: HubRepo, commit: str) -> dict[str, Any]:
    """Return the JSON of `GET /api/models/{repo}/revision/{revision}?blobs=true`."""
    siblings = [
        {
            "rfilename": file.path,
            "blobId": hashlib.sha1(file.sha256.encode()).hexdigest(),
            "size": file.size,
            "lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 131},
        }
        for file in repo.commits[commit].values()
    ]
    card = {"license": repo.license} if repo.license else {}
    told = {"id": repo.name, "sha": commit, "cardData": card, "gated": repo.gated, "gguf": _gguf(repo)}
    return told | {"siblings": siblings}


def _content(request: Request, file: HubFile) -> Answer:
    """Return a file, or the range that is asked for."""
    headers = {"ETag": f'"{file.sha256}"', "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None:
        return Answer(200, headers, file.content, file.content)
    first, last = int(asked["first"]), min(int(asked["last"] or file.size - 1), file.size - 1)
    if first >= file.size:
        return Answer(416, {"Content-Range": f"bytes */{file.size}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{file.size}"
    return Answer(206, headers, file.content[first : last + 1], file.content, first)
