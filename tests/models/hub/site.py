"""What the hub and its CDN answer, as it was recorded of the real ones.

Small files come by a relative redirect to `resolve-cache`, LFS files by a redirect to the CDN, which is another origin
here too and calls the same content by another hash than the hub.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from urllib.parse import parse_qs, quote, unquote, urlencode

from tests.models.hub import api
from tests.models.hub.content import HubFile, HubRepo
from tests.models.hub.serving import QUOTA, Refusal, compressed, disposition, page, rate_limit, served
from tests.models.hub.wire import Answer, Request

REPO = r"(?P<repo>[^/]+(?:/[^/]+)?)"
ABOUT = re.compile(rf"/api/models/{REPO}/(?P<verb>revision|tree|paths-info|refs|auth-check)(?:/(?P<rest>.*))?")
INFO = re.compile(rf"/api/models/{REPO}")
RESOLVE = re.compile(rf"/{REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
CACHE = re.compile(rf"/api/resolve-cache/models/{REPO}/(?P<revision>[^/]+)/(?P<path>.+)")
NO_TOKEN = (
    "unauthenticated; Warning: You are sending unauthenticated requests to the HF Hub. Please set a HF_TOKEN to enable "
    "higher rate limits and faster downloads."
)
BAD_TOKEN = "Invalid credentials in Authorization header"
WHOAMI = {"type": "user", "id": "0" * 24, "name": "tester", "fullname": "Tester", "isPro": False, "orgs": []}


class Site:
    """The state of the hub, and its answer to every request.

    Attributes:
        endpoint: The hub's address, for HF_ENDPOINT.
        cdn_endpoint: The CDN's.
        repos: Every repository by its name.
        tokens: Every token the hub knows.
        moved: Old names of repositories, with the new ones.
        leaks: Requests to the CDN that brought an authorization header; there must be none.
        page_size: Entries on a page where the query does not say; None for the real hub's 1000 (50 with `expand`).
        xet: Whether the hub offers its chunk storage beside plain HTTP, as the real one does. It is an offer only:
            clients must have Xet switched off.
    """

    endpoint: str
    cdn_endpoint: str

    def __init__(self) -> None:
        self.repos: dict[str, HubRepo] = {}
        self.tokens: set[str] = set()
        self.moved: dict[str, str] = {}
        self.leaks: list[Request] = []
        self.page_size: int | None = None
        self.xet = True
        self._links: dict[str, HubFile] = {}
        self._live: set[str] = set()
        self._numbers = itertools.count(1)

    def expire_links(self) -> None:
        """Every CDN address handed out so far is refused from now on, as the real ones are after an hour."""
        self._live.clear()

    def file_of(self, request: Request) -> str | None:
        """The repository file a request is about."""
        if request.origin == "cdn":
            linked = self._linked(request)
            return linked.path if linked else None
        route = CACHE.fullmatch(request.raw_path) or RESOLVE.fullmatch(request.raw_path)
        return unquote(route["path"]) if route else None

    def _linked(self, request: Request) -> HubFile | None:
        file = self._links.get(request.query.get("Signature", [""])[0])
        return file if file is not None and request.raw_path.endswith(f"/{file.xet_hash}") else None

    def answer(self, request: Request) -> Answer:
        """The true answer, before any fault."""
        try:
            answer = self._from_hub(request) if request.origin == "hub" else self._from_cdn(request)
        except Refusal as refusal:
            answer = refusal.answer
        if request.origin == "hub":
            bucket, number = "resolvers" if "/resolve" in request.raw_path else "api", next(self._numbers)
            answer.headers |= rate_limit(bucket, max(1, QUOTA[bucket] - number), 300)
            if request.token is None:
                answer.headers["X-HF-Warning"] = NO_TOKEN
            answer.headers["X-Request-Id"] = f"Root=1-{number:08x}-{number:024x}"
        return answer

    def _from_cdn(self, request: Request) -> Answer:
        if "authorization" in request.headers:
            self.leaks.append(request)
            return Answer.text(400, "<Error><Code>InvalidArgument</Code></Error>", "application/xml")
        file = self._linked(request)
        if file is None or request.query["Signature"][0] not in self._live:
            return Answer.text(403, "<Error><Code>AccessDenied</Code></Error>", "application/xml")
        return served(request, file, file.xet_hash, {"Content-Type": "application/octet-stream"})

    def _from_hub(self, request: Request) -> Answer:
        raw = request.raw_path
        if raw == "/api/models":
            return self._list(request)
        if raw == "/api/whoami-v2":
            return self._whoami(request)
        if route := CACHE.fullmatch(raw):
            return self._small(request, *self._found(request, route))
        if route := ABOUT.fullmatch(raw):
            return self._about(request, route)
        if route := INFO.fullmatch(raw):
            repo = self._repo(request, route["repo"])
            return self._info(request, repo, repo.commit)
        if route := RESOLVE.fullmatch(raw):
            return self._resolved(request, *self._found(request, route))
        raise Refusal(404, "Sorry, we can't find the page you are looking for.")

    def _repo(self, request: Request, name: str, *, content: bool = False) -> HubRepo:
        """The repository, if this request may see it; with `content`, if it may have its files."""
        name, token, plain = unquote(name), request.token, "/resolve" in request.raw_path
        real = self.moved.get(name) or next((known for known in self.repos if known.lower() == name.lower()), name)
        repo = self.repos.get(real)
        locked = content and repo is not None and bool(repo.gated) and token not in repo.granted
        if token is not None and token not in self.tokens and not locked:
            raise Refusal(401, BAD_TOKEN, plain=plain)
        if repo is None or (repo.private and token not in repo.granted):
            if token is None:
                raise Refusal(401, "Invalid username or password.", plain=plain)
            raise Refusal(404, "Repository not found", "RepoNotFound", plain=plain)
        if locked:
            what = f"Access to model {real} is restricted"
            if token not in self.tokens:
                log_in = f"{what}. You must have access to it and be authenticated to access it. Please log in."
                raise Refusal(401, log_in, "GatedRepo", plain=plain)
            visit = f"{what} and you are not in the authorized list. Visit {self.endpoint}/{real} to ask for access."
            raise Refusal(403, visit, "GatedRepo", plain=plain)
        if real != name and not plain:
            moved = request.target.replace(quote(name), quote(real), 1)
            raise Refusal(307, f"Temporary Redirect. Redirecting to {moved}", plain=True, Location=moved)
        return repo

    def _commit(self, repo: HubRepo, revision: str, *, plain: bool = False) -> str:
        commit = repo.resolve(unquote(revision))
        if commit is None:
            raise Refusal(404, f"Invalid rev id: {unquote(revision)}", "RevisionNotFound", plain=plain)
        return commit

    def _found(self, request: Request, route: re.Match[str]) -> tuple[HubRepo, str, HubFile]:
        repo = self._repo(request, route["repo"], content=True)
        commit = self._commit(repo, route["revision"], plain=True)
        file = repo.commits[commit].get(unquote(route["path"]))
        if file is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", plain=True, X_Repo_Commit=commit)
        return repo, commit, file

    def _resolved(self, request: Request, repo: HubRepo, commit: str, file: HubFile) -> Answer:
        """Where the content is: for LFS files at the CDN, for others at the hub itself."""
        told = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{file.etag}"',
            "Accept-Ranges": "bytes",
            "Content-Disposition": disposition(file.path),
        }
        if not file.lfs:
            query = urlencode({request.path: "", "etag": f'"{file.etag}"'})
            place = f"/api/resolve-cache/models/{quote(repo.name)}/{commit}/{quote(file.path)}?{query}"
            answer = Answer.text(307, f"Temporary Redirect. Redirecting to {place}", Location=place)
            answer.headers |= told
            return answer
        signature = hashlib.sha256(f"link {next(self._numbers)}".encode()).hexdigest()
        self._links[signature] = file
        self._live.add(signature)
        folder = hashlib.sha1(repo.name.encode()).hexdigest()[:24]
        query = urlencode({"X-Xet-Cas-Uid": "public", "Expires": 4102444800, "Signature": signature})
        place = f"{self.cdn_endpoint}/xet-bridge-us/{folder}/{file.xet_hash}?{query}"
        answer = Answer.text(302, f"Found. Redirecting to {place}", Location=place, Cache_Control="no-store")
        answer.headers |= told | {"X-Linked-Size": str(file.size)}
        if self.xet:
            grant = f"{self.endpoint}/api/models/{quote(repo.name)}/xet-read-token/{commit}"
            rebuilt = f"{self.cdn_endpoint}/v1/reconstructions/{file.xet_hash}"
            link = f'<{grant}>; rel="xet-auth", <{rebuilt}>; rel="xet-reconstruction-info"'
            answer.headers |= {"X-Xet-Hash": file.xet_hash, "Link": link}
        return answer

    def _small(self, request: Request, repo: HubRepo, commit: str, file: HubFile) -> Answer:
        told = {"X-Repo-Commit": commit, "Content-Type": "text/plain; charset=utf-8"}
        return compressed(request, served(request, file, file.etag, told))

    def _whoami(self, request: Request) -> Answer:
        if request.token is None:
            raise Refusal(401, "Invalid username or password.")
        if request.token not in self.tokens:
            raise Refusal(401, BAD_TOKEN)
        token = {"displayName": "test", "role": "read"}
        return Answer.json(WHOAMI | {"auth": {"type": "access_token", "accessToken": token}})

    def _list(self, request: Request) -> Answer:
        if request.token is not None and request.token not in self.tokens:
            raise Refusal(401, BAD_TOKEN)
        seen = [repo for repo in self.repos.values() if not repo.private or request.token in repo.granted]
        repos, more = page(request, self.endpoint, api.chosen(seen, request.query), self.page_size or 1000)
        full, expand = request.asks("full"), _expand(request)
        return Answer.json([api.listed(repo, full=full, expand=expand) for repo in repos], more)

    def _info(self, request: Request, repo: HubRepo, commit: str) -> Answer:
        return Answer.json(api.info(repo, commit, blobs=request.asks("blobs"), expand=_expand(request)))

    def _about(self, request: Request, route: re.Match[str]) -> Answer:
        verb = route["verb"]
        repo = self._repo(request, route["repo"], content=verb == "auth-check")
        if verb == "auth-check":
            return Answer.text(200, "")
        if verb == "refs":
            heads = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": c} for n, c in repo.branches.items()]
            return Answer.json({"tags": [], "branches": heads, "converts": []})
        revision, _, folder = (route["rest"] or "").partition("/")
        commit = self._commit(repo, revision)
        if verb == "revision":
            return self._info(request, repo, commit)
        if verb == "paths-info":
            every = {i if isinstance(i, str) else i.path: i for i in repo.tree(commit, "", True) or []}
            paths = parse_qs(request.body.decode()).get("paths", [])
            return Answer.json([api.entry(every[path], commit, xet=self.xet) for path in paths if path in every])
        items = repo.tree(commit, unquote(folder), request.asks("recursive"))
        if items is None:
            raise Refusal(404, f"{unquote(folder)} does not exist", "EntryNotFound", X_Repo_Commit=commit)
        expand = request.asks("expand")
        part, more = page(request, self.endpoint, items, self.page_size or (50 if expand else 1000))
        return Answer.json([api.entry(item, commit, xet=self.xet, expand=expand) for item in part], more)


def _expand(request: Request) -> list[str]:
    return request.query.get("expand", []) + request.query.get("expand[]", [])
