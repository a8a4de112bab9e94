"""Environment variables that break the client, doctor's report of them, and the cache folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.doctor_checks import downloads
from app.core.errors import HubError
from app.models.hub import ADDRESS, USUAL, check_environment, check_named, prepare_environment
from app.models.hub.cache import locked_content
from app.models.hub.client import repository
from tests.models.hub.client import PROXY_VARIABLES, TOKEN_VARIABLES
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET
from tests.tandem import run_process

OPT_OUTS = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable is set, and nothing was downloaded yet."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in (ADDRESS, "SSL_CERT_FILE", *PROXY_VARIABLES, *TOKEN_VARIABLES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    "address",
    ["notaurl", " https://huggingface.co ", "ftp://hub.example", "https://", "http://[::1", "https://hub.example?a=b"],
)
def test_an_invalid_address_is_reported_without_a_request(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, address)
    prepare_environment()

    with pytest.raises(HubError, match="HF_ENDPOINT is not a server address") as caught:
        repository("owner/repo", "main")
    (line, *_) = downloads()
    assert (line.state, line.text) == ("warning", caught.value.message)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("address", [USUAL, "http://localhost:8080", "HTTPS://[::1]:9/", "  "])
def test_other_addresses_are_used(address: str) -> None:
    environ = {ADDRESS: address}
    prepare_environment(environ)

    check_environment()
    assert environ.get(ADDRESS) == (address if address.strip() else None)


@pytest.mark.parametrize(("words", "code"), [(["pairs", "find", "owner/repo"], 1), (["pairs", "show", "demo"], 0)])
def test_an_address_that_the_client_crashes_with_is_an_error(words: list[str], code: int) -> None:
    said = run_process(*words, code=code, **{ADDRESS: "http://[::1"}).err
    assert said.startswith("tandem: HF_ENDPOINT is not a server address.\n" if code else "")
    assert bool(said) == bool(code)


@pytest.mark.usefixtures("bare")
def test_hints_and_doctor_name_the_variables_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_named() == ""
    monkeypatch.setenv(ADDRESS, f"{USUAL}/")
    assert check_named() == ""
    monkeypatch.setenv(ADDRESS, "https://me:secret@mirror.example/")
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    assert check_named() == " Also check HF_ENDPOINT and HTTPS_PROXY."
    (mirror,) = downloads()
    assert (mirror.state, mirror.text) == ("untried", "https://mirror.example, by HF_ENDPOINT and HTTPS_PROXY")


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "true"}, "HF_HUB_OFFLINE"),
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "0"}, ""),
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": ""}, "TRANSFORMERS_OFFLINE"),
    ],
)
def test_doctor_names_offline_mode(given: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    (line,) = downloads()
    assert (line.state, line.text) == (("warning", f"{named} disables downloads") if named else ("untried", USUAL))


@pytest.mark.usefixtures("bare")
def test_doctor_names_stopped_downloads(tmp_path: Path) -> None:
    blobs = tmp_path / "hub" / "models--owner--m" / "blobs"
    blobs.mkdir(parents=True)
    for name in ("aaaa.incomplete", "bbbb.0123abcd.incomplete"):
        (blobs / name).write_bytes(bytes(1_000_000))

    _, begun = downloads()
    assert begun.text == f"2 MB of 2 files not complete in {tmp_path / 'hub'}"
    with locked_content(blobs / "aaaa") as locked:
        assert locked
        assert downloads()[1].text.startswith("1 MB of 1 file "), "one is being downloaded"


def test_only_models_are_requested(pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPT_OUTS:
        monkeypatch.delenv(name, raising=False)

    assert "unauthenticated" not in run_process("pairs", "check", TARGET, DRAFT).err
    paths = [request.path for request in pair.asked(origin="hub")]
    assert paths
    assert all(path.startswith((f"/api/models/{TARGET}", f"/api/models/{DRAFT}", "/owner/")) for path in paths), paths


@pytest.mark.parametrize("name", OPT_OUTS)
def test_a_telemetry_setting_of_the_user_stays(name: str) -> None:
    environ = {name: "0"}
    prepare_environment(environ)
    assert not environ.keys() & (set(OPT_OUTS) - {name})


_HUB_PREFIXES = ("HF_", "XDG_", "HUGGINGFACE_")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"XDG_CACHE_HOME": "/c"},
        {"HF_HOME": "/hf", "XDG_CACHE_HOME": "/c"},
        {"HF_HUB_CACHE": "~/x", "HF_HOME": "/hf"},
        {"HF_HUB_CACHE": "$HOME/y"},
        {"HF_HUB_CACHE": "/new", "HUGGINGFACE_HUB_CACHE": "/old"},
    ],
)
def test_the_client_and_tandem_use_the_same_folder(given: dict[str, str], tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(_HUB_PREFIXES)}
    code = "from app.models.hub.cache import folder; from huggingface_hub import constants; "
    code += "print(constants.HF_HUB_CACHE, folder(), sep='\\n')"
    asked = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**bare, **given, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    theirs, ours = asked.stdout.split()
    assert theirs == ours
    assert Path(ours).is_absolute()
