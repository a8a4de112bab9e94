"""The JSON of the hub: a model's card, its listing, its files, in the shapes that huggingface.co has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.models.hub.content import HubFile, HubRepo

CREATED = "2024-01-02T03:04:05.000Z"
CHANGED = "2024-06-07T08:09:10.000Z"
LISTED = ("likes", "private", "downloads", "tags", "pipeline_tag", "library_name", "createdAt")
LISTED_IN_FULL = (*LISTED, "author", "sha", "lastModified", "gated", "disabled", "siblings")
TOLD = (*LISTED_IN_FULL, "cardData", "config", "gguf", "spaces", "usedStorage")


def _fake_id(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()[:24]


def tags(repo: HubRepo) -> list[str]:
    formats = ["gguf"] if any(path.endswith(".gguf") for path in repo.files) else []
    licence = [f"license:{repo.licence}"] if repo.licence else []
    return list(dict.fromkeys([*formats, *repo.tags, *licence]))


def gguf(repo: HubRepo, commit: str) -> Mapping[str, Any] | None:
    """What the hub tells of the GGUF header; one object, however many GGUF files there are."""
    if repo.gguf is not None:
        return repo.gguf
    sizes = [file.size for path, file in repo.commits[commit].items() if path.endswith(".gguf")]
    return {"total": max(sizes), "architecture": "llama", "context_length": 2048} if sizes else None


def sibling(file: HubFile, blobs: bool) -> dict[str, Any]:
    if not blobs:
        return {"rfilename": file.path}
    told: dict[str, Any] = {"rfilename": file.path, "blobId": file.oid, "size": file.size}
    if file.lfs:
        told["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
    return told


def _properties(repo: HubRepo, commit: str, blobs: bool, wanted: Iterable[str]) -> dict[str, Any]:
    files = repo.commits[commit]
    told: dict[str, Any] = {
        "author": repo.name.partition("/")[0] if "/" in repo.name else None,
        "cardData": {"license": repo.licence} if repo.licence else {},
        "config": {},
        "createdAt": CREATED,
        "disabled": False,
        "downloads": repo.downloads,
        "gated": "auto" if repo.gated is True else repo.gated,
        "gguf": gguf(repo, commit),
        "lastModified": CHANGED,
        "library_name": "gguf" if "gguf" in tags(repo) else None,
        "likes": repo.likes,
        "pipeline_tag": "text-generation",
        "private": repo.private,
        "sha": commit,
        "spaces": [],
        "tags": tags(repo),
    }
    if "siblings" in wanted:
        told["siblings"] = [sibling(file, blobs) for file in files.values()]
    if "usedStorage" in wanted:
        told["usedStorage"] = sum(file.size for file in files.values())
    return {name: told[name] for name in wanted if told.get(name) is not None}


def info(repo: HubRepo, commit: str, *, blobs: bool = False, expand: Iterable[str] = ()) -> dict[str, Any]:
    """`GET /api/models/{repo}`."""
    known = {"_id": _fake_id(repo.name), "id": repo.name}
    if expand:
        return known | _properties(repo, commit, blobs, tuple(expand))
    return known | {"modelId": repo.name} | _properties(repo, commit, blobs, TOLD)


def listed(repo: HubRepo, *, full: bool = False, expand: Iterable[str] = ()) -> dict[str, Any]:
    """One element of `GET /api/models`."""
    known = {"_id": _fake_id(repo.name), "id": repo.name}
    if expand:
        return known | _properties(repo, repo.commit, False, tuple(expand))
    wanted = LISTED_IN_FULL if full else LISTED
    return known | {"modelId": repo.name} | _properties(repo, repo.commit, False, wanted)


def entry(item: HubFile | str, commit: str, *, xet: bool, expand: bool = False) -> dict[str, Any]:
    """One element of a tree listing; a string is a folder."""
    told: dict[str, Any]
    if isinstance(item, str):
        told = {"type": "directory", "oid": hashlib.sha1(item.encode(errors="replace")).hexdigest(), "size": 0}
    else:
        told = {"type": "file", "oid": item.oid, "size": item.size}
        if item.lfs:
            told["lfs"] = {"oid": item.sha256, "size": item.size, "pointerSize": len(item.pointer)}
            if xet:
                told["xetHash"] = item.xet_hash
        if expand:
            told["securityFileStatus"] = {"status": "safe", "avScan": None, "pickleImportScan": None}
    if expand:
        told["lastCommit"] = {"id": commit, "title": "Upload", "date": CHANGED}
    return told | {"path": item if isinstance(item, str) else item.path}


def chosen(repos: Iterable[HubRepo], query: Mapping[str, list[str]]) -> list[HubRepo]:
    """The repositories `GET /api/models` lists for this query, in its order."""
    words = " ".join(query.get("search", [])).lower().split()
    needed = set(",".join(query.get("filter", [])).split(",")) - {""}
    author = query.get("author", [""])[0]
    gated = query.get("gated", [""])[0].lower()
    fitting = [
        repo
        for repo in repos
        if all(word in repo.name.lower() for word in words)
        and needed <= set(tags(repo))
        and author in ("", repo.name.partition("/")[0])
        and gated in ("", str(bool(repo.gated)).lower())
    ]
    by = query.get("sort", ["trendingScore"])[0]
    # everything is new and nothing trends here: these orders are the order of `add`, newest first
    return sorted(fitting, key=lambda repo: getattr(repo, by))[::-1] if by in ("downloads", "likes") else fitting[::-1]
