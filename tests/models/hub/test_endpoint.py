"""Variables that the hub's client fails late with, or cannot be imported with."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.cli.doctor.hub_section import hub_section
from app.core.errors import HubError
from app.models.hub import environment
from app.models.hub.cache import locked_content
from app.models.hub.client import repository
from app.models.hub.environment import ADDRESS, USUAL, check_environment, check_named, take_address
from app.models.hub.errors import host
from tests.models.hub.client import PROXY_VARIABLES, TOKEN_VARIABLES


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable is set, and whatever a test sets counts for it alone; nothing was downloaded yet."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in (ADDRESS, "SSL_CERT_FILE", *PROXY_VARIABLES, *TOKEN_VARIABLES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(environment, "_wrong_address", None)


WRONG = (
    "notaurl",
    "http//x",
    " https://huggingface.co ",
    "https://hugging face.co",
    "ftp://hub.example",
    "https://",
    "//hub",
    "http://127.0.0.1:99999",
    "http://[::1",
    "https://hub.example?a=b",
)


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_is_none_is_told_and_nobody_else_is_asked(address: str) -> None:
    environ = {ADDRESS: address}
    take_address(environ)

    assert environ[ADDRESS].endswith(".invalid"), "the client must not ask a hub that was not meant"
    with pytest.raises(HubError, match="HF_ENDPOINT is ") as caught:
        repository("owner/repo", "main")
    assert f'"{address}"' in caught.value.message
    assert caught.value.hint == f"Unset it, or write an address such as {USUAL}."


@pytest.mark.parametrize(
    "address", [USUAL, "http://localhost:8080", "https://mirror.example/api/hub", "HTTPS://[::1]:9/"]
)
def test_an_address_is_left_as_it_is(address: str) -> None:
    environ = {ADDRESS: address}
    take_address(environ)

    check_environment()
    assert environ == {ADDRESS: address}


@pytest.mark.parametrize("nothing", ["", "  "])
def test_an_empty_address_is_as_good_as_none(nothing: str) -> None:
    environ = {ADDRESS: nothing}
    take_address(environ)

    check_environment()
    assert environ == {}


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:99999"])
def test_what_the_client_cannot_be_imported_with_is_a_sentence(address: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "app", "pairs", "find", "owner/repo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, ADDRESS: address},
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f'tandem: HF_ENDPOINT is "{address}", which is not a server address.\n')


def test_what_needs_no_hub_works_with_any_address() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "app", "pairs", "show", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, ADDRESS: "http://[::1"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HTTPS_PROXY", "ftp://proxy", "HTTPS_PROXY is not a proxy address: it begins with ftp://."),
        ("HF_TOKEN", "hf_é", "HF_TOKEN is not a token: it has non-ASCII characters."),
        (
            "SSL_CERT_FILE",
            "/no/such.pem",
            "SSL_CERT_FILE: no readable file /no/such.pem.",
        ),
    ],
)
def test_other_variables_are_named_too(name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(HubError) as caught:
        check_environment()
    assert caught.value.message == said


def test_a_socks_proxy_wants_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1080")
    monkeypatch.setattr(environment, "find_spec", lambda name: None)

    with pytest.raises(HubError, match="ALL_PROXY is a SOCKS proxy, which needs the package socksio") as caught:
        check_environment()
    assert caught.value.hint == "Run: pip install socksio"


def test_the_package_of_socks_proxies_comes_with_tandem() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert any(wanted.startswith("httpx2[socks]") for wanted in project["dependencies"])


def test_a_hint_names_the_variables_that_are_set_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_named() == ""
    monkeypatch.setenv(ADDRESS, f"{USUAL}/")
    assert check_named() == ""
    monkeypatch.setenv(ADDRESS, "https://mirror.example")
    assert check_named() == " Also check HF_ENDPOINT."
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    assert check_named() == " Also check HF_ENDPOINT and HTTPS_PROXY."


def test_doctor_tells_the_hub_and_what_stands_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (usual,) = hub_section().lines
    assert (usual.state, usual.text) == ("untried", USUAL)
    monkeypatch.setenv(ADDRESS, "https://me:secret@mirror.example/")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    (mirror,) = hub_section().lines
    assert (mirror.state, mirror.text) == ("untried", "https://mirror.example, by HF_ENDPOINT and HTTPS_PROXY")
    take_address({ADDRESS: "notaurl"})
    (wrong,) = hub_section().lines
    assert (wrong.state, wrong.text) == ("warning", 'HF_ENDPOINT is "notaurl", which is not a server address.')


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"TRANSFORMERS_OFFLINE": "yes"}, "TRANSFORMERS_OFFLINE"),
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "true"}, "HF_HUB_OFFLINE"),
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": "0"}, ""),
        ({"TRANSFORMERS_OFFLINE": "1", "HF_HUB_OFFLINE": ""}, "TRANSFORMERS_OFFLINE"),
    ],
)
def test_what_forbids_to_ask_the_hub_is_named(
    given: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code = "from huggingface_hub import constants; print(constants.HF_HUB_OFFLINE)"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == str(bool(named)), "as the client has it"

    (line,) = hub_section().lines
    assert (line.state, line.text) == (("warning", f"{named} disables downloads") if named else ("untried", USUAL))


def test_doctor_names_what_has_not_come_whole(tmp_path: Path) -> None:
    for number in range(7):
        blobs = tmp_path / "hub" / f"models--owner--m{number}" / "blobs"
        blobs.mkdir(parents=True)
        (blobs / "whole").write_bytes(b"x")
        (blobs / f"{number}.incomplete").write_bytes(bytes(1_000_000))

    _, begun = hub_section().lines
    assert (begun.state, begun.text) == ("warning", "7 MB of 7 files not complete")
    assert begun.hint[1:3] == ("  tandem pairs remove NAME", f"  {tmp_path}/hub/models--owner--m0/blobs/0.incomplete")
    assert len(begun.hint) == 7


def test_doctor_says_of_no_file_that_a_set_up_goes_on_behind_it_where_none_does(tmp_path: Path) -> None:
    blobs = tmp_path / "hub" / "models--owner--m" / "blobs"
    blobs.mkdir(parents=True)
    ours, theirs = blobs / "aaaa.incomplete", blobs / "bbbb.0123abcd.incomplete"
    for path in (ours, theirs):
        path.write_bytes(bytes(1_000_000))

    with locked_content(blobs / "aaaa") as locked:
        assert locked
        _, begun = hub_section().lines
    assert (begun.text, begun.hint[1:]) == ("1 MB of a file not complete", (f"  {theirs}",))
    assert "resumes it" not in begun.hint[0]
    with locked_content(blobs / "bbbb") as locked:
        assert locked, "the client takes the same lock"
        _, begun = hub_section().lines
    assert begun.hint[-1] == f"  {ours}"
    assert "resumes it" in begun.hint[0]
    assert len(hub_section().lines) == 3


def test_a_password_in_the_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.models.hub.errors.constants.ENDPOINT", "https://me:secret@mirror.example/hub")

    assert host() == "mirror.example/hub"


def test_the_certificates_that_are_there_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    check_environment()
