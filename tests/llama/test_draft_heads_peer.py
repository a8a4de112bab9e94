"""Draft layers propose what llama-server's draft-mtp, draft-eagle3 and draft-dflash propose for the same files."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path

import pytest

from app.engine.fixed import FixedDrafting
from app.engine.types import DraftParams
from tests.bench.draft_kinds import KINDS
from tests.bench.peer import LlamaServer
from tests.llama.test_draft_heads import PROMPT, answer, drafter_of, load
from tests.llama.tiny_heads import TINY

PEER = Path(os.environ.get("TANDEM_TEST_PEER", Path.home() / ".cache" / "tandem-peer" / "bin" / "llama-server"))
pytestmark = [
    pytest.mark.native,
    pytest.mark.peer,
    pytest.mark.skipif(not PEER.is_file(), reason="TANDEM_TEST_PEER names no llama-server"),
]
N_MAX, N_TOKENS = 4, 60
_CANDIDATE = re.compile(r"draft candidate +0, pos +\d+: +(\d+)")


@pytest.mark.parametrize("name", KINDS)
def test_the_same_tokens_are_proposed_and_accepted(tmp_path: Path, name: str) -> None:
    kind, write, write_draft = KINDS[name]
    target = write(tmp_path / "target.gguf", TINY)
    draft = write_draft(tmp_path / "draft.gguf", TINY) if write_draft is not None else None
    pair = load(target, draft, mtp=draft is None)
    tokens, steps = answer(pair, FixedDrafting(drafter_of(pair), DraftParams(N_MAX, 0, 0.0)), PROMPT, N_TOKENS)
    pair.close()
    log = tmp_path / "server.log"
    extra: list[object] = ["--spec-type", kind, "--spec-draft-n-max", N_MAX, "--spec-draft-p-min", 0]
    extra += ["-ctk", "f32", "-ctv", "f32", "-ctkd", "f32", "-ctvd", "f32", "-lv", 10, "--log-file", log]
    extra += ["-md", draft] if draft is not None else []
    with LlamaServer(PEER, target, 1, 1024, extra) as server:
        body = LlamaServer.greedy(PROMPT, N_TOKENS) | {"ignore_eos": True, "return_tokens": True}
        url, header = f"http://127.0.0.1:{server.address[1]}/completion", {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), header), timeout=60) as got:
            reply = json.load(got)

    assert reply["tokens"] == tokens
    theirs = [int(token) for token in _CANDIDATE.findall(log.read_text(errors="replace"))]
    ours = [token for step in steps for token in step.draft.tokens]
    assert len(theirs) >= len(ours) > 100
    # The peer evaluates in batches of other sizes, which round differently; these models amplify it.
    n_same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    assert n_same >= 0.8 * len(ours)
    assert ours[:N_MAX] == theirs[:N_MAX]
    assert abs(reply["timings"]["draft_n_accepted"] - sum(step.n_accepted for step in steps)) <= 1
