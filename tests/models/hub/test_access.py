"""Who may have what: the errors the real client raises against the loopback hub, and where a token goes."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from huggingface_hub import HfApi, hf_hub_download, list_models, model_info
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tests.models.hub.content import HubRepo
from tests.models.hub.loopback import LoopbackHub

MODEL = bytes(range(256)) * 400
NAME = "owner/tiny-GGUF"
FILES = {"tiny-Q4_0.gguf": MODEL, "config.json": b"{}"}


@pytest.fixture
def repo(hub: LoopbackHub) -> HubRepo:
    return hub.add(NAME, FILES)


def test_what_is_not_there(repo: HubRepo) -> None:
    for ask in (lambda: model_info("owner/none"), lambda: hf_hub_download("owner/none", "x.gguf")):
        with pytest.raises(RepositoryNotFoundError, match="Invalid username or password") as repo_error:
            ask()
        assert repo_error.value.response.status_code == 401
    with pytest.raises(RevisionNotFoundError, match="Invalid rev id: older"):
        model_info(NAME, revision="older")
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download(NAME, "config.json", revision="older")
    with pytest.raises(EntryNotFoundError) as entry_error:
        hf_hub_download(NAME, "none.gguf")
    assert isinstance(entry_error.value, HfHubHTTPError)
    assert entry_error.value.response.headers["x-repo-commit"] == repo.commit


def test_with_a_token_a_missing_repository_is_a_404(hub: LoopbackHub, repo: HubRepo) -> None:
    hub.tokens.add("hf_good")

    with pytest.raises(RepositoryNotFoundError) as error:
        model_info("owner/none", token="hf_good")
    assert error.value.response.status_code == 404
    assert HfApi(token="hf_good").whoami()["name"] == "tester"


def test_a_wrong_token_is_refused_even_for_public_files(repo: HubRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_bad")

    for ask in (lambda: model_info(NAME), lambda: hf_hub_download(NAME, "config.json"), lambda: HfApi().whoami()):
        with pytest.raises(HfHubHTTPError) as error:
            ask()
        assert not isinstance(error.value, RepositoryNotFoundError)
        assert error.value.response.status_code == 401
    assert model_info(NAME, token=False).sha == repo.commit


def test_a_gated_repository_shows_its_files_and_keeps_their_content(hub: LoopbackHub) -> None:
    repo = hub.add(NAME, FILES, gated="manual")
    hub.tokens |= {"hf_stranger", "hf_friend"}
    repo.granted.add("hf_friend")

    assert model_info(NAME, files_metadata=True).gated == "manual"
    with pytest.raises(GatedRepoError, match="You must have access to it and be authenticated") as nobody:
        hf_hub_download(NAME, "tiny-Q4_0.gguf")
    assert nobody.value.response.status_code == 401
    with pytest.raises(GatedRepoError, match=r"not in the authorized list\. Visit") as stranger:
        hf_hub_download(NAME, "config.json", token="hf_stranger")
    assert stranger.value.response.status_code == 403
    with pytest.raises(GatedRepoError):
        HfApi().auth_check(NAME, token="hf_stranger")
    HfApi().auth_check(NAME, token="hf_friend")
    assert Path(hf_hub_download(NAME, "tiny-Q4_0.gguf", token="hf_friend")).read_bytes() == MODEL


def test_a_private_repository_exists_only_for_its_friends(hub: LoopbackHub) -> None:
    repo = hub.add(NAME, FILES, private=True)
    hub.tokens |= {"hf_stranger", "hf_friend"}
    repo.granted.add("hf_friend")

    for token in (False, "hf_stranger"):
        with pytest.raises(RepositoryNotFoundError):
            model_info(NAME, token=token)
    assert model_info(NAME, token="hf_friend").private
    assert [m.id for m in list_models(token="hf_friend")] == [NAME]


def test_the_token_stays_with_the_hub(repo: HubRepo, hub: LoopbackHub) -> None:
    hub.tokens.add("hf_good")

    hf_hub_download(NAME, "tiny-Q4_0.gguf", token="hf_good")
    assert all(r.token == "hf_good" for r in hub.asked(origin="hub"))
    (sent,) = hub.asked(origin="cdn")
    assert "authorization" not in sent.headers
    assert hub.leaks == []

    refused = httpx2.get(hub.cdn_endpoint + sent.target, headers={"Authorization": "Bearer hf_good"})
    assert refused.status_code == 400
    assert [r.token for r in hub.leaks] == ["hf_good"]
