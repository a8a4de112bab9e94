"""Commands for each way to install Tandem; tests/install runs them."""

import json
import sys
import sysconfig
from pathlib import Path

import pytest

from app.hardware.installation import Installation, install_command, installation

INDEX = "https://example.org/whl/vulkan"
CUDA = "nvidia-cublas-cu12"


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/v/bin/python")
    return tmp_path


def wheel(here: Installation, *more: str) -> str:
    return here.wheel_command("llama-cpp-python", "0.3.36", INDEX, *more)


# Receipts of uv tool


def by_uv(prefix: Path, requirements: str, rest: str = "") -> Installation:
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{requirements}]\n{rest}")
    return installation("linux")


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ('extras = ["demo"], directory = "{clone}"', "'{clone}[demo]'"),
        ('editable = "{clone}"', "'{clone}' --editable"),
        ("", "tandem-chat"),
        ('extras = ["demo"], specifier = ">=0.2"', "'tandem-chat[demo]>=0.2'"),
        ('git = "https://example.org/t?rev=main#0123"', "'tandem-chat @ git+https://example.org/t@main'"),
        ('extras = ["demo"], url = "https://example.org/t.whl"', "'tandem-chat[demo] @ https://example.org/t.whl'"),
    ],
)
def test_uv_tool_installs_again_what_its_receipt_names(prefix: Path, requirement: str, words: str) -> None:
    clone = prefix / "my clone"
    clone.mkdir()
    entry = ", ".join(filter(None, ('name = "tandem-chat"', requirement.replace("{clone}", str(clone)))))

    expected = words.replace("{clone}", str(clone))
    rest = f"--force --reinstall-package llama-cpp-python --index {INDEX}"
    assert wheel(by_uv(prefix, f"{{ {entry} }}")) == f"uv tool install {expected} {rest}"


def test_uv_tool_keeps_other_packages_and_its_python(prefix: Path) -> None:
    here = by_uv(prefix, '{ name = "tandem-chat" }, { name = "rich", specifier = ">14" }', 'python = "3.13"')

    assert wheel(here).startswith("uv tool install tandem-chat --with 'rich>14' --python 3.13 --force ")


def test_packages_that_uv_tool_adds_leave_the_extras_and_the_index(prefix: Path) -> None:
    options = f'options = {{ index = [{{ url = "https://pypi.org", default = true }}, {{ url = "{INDEX}" }}] }}'
    here = by_uv(prefix, '{ name = "tandem-chat", extras = ["demo"] }', options)

    assert here.add_command(CUDA) == f"uv tool install 'tandem-chat[demo]' --force --with {CUDA} --index {INDEX}"
    assert f" --with {CUDA} " in wheel(here, CUDA)


def test_packages_that_uv_tool_has_are_named_once(prefix: Path) -> None:
    here = by_uv(prefix, f'{{ name = "tandem-chat" }}, {{ name = "{CUDA}" }}')

    assert here.add_command(CUDA) == f"uv tool install tandem-chat --with {CUDA} --force"


# Metadata of pipx


def by_pipx(prefix: Path, wanted: str, **changes: object) -> Installation:
    package = {"package": "tandem-chat", "package_or_url": wanted, "pip_args": [], "suffix": "", **changes}
    (prefix / "pipx_metadata.json").write_text(json.dumps({"main_package": package}))
    return installation("linux")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("tandem-chat", "tandem-chat"),
        ("tandem-chat[demo]==0.2", "'tandem-chat[demo]==0.2'"),
        ("git+https://example.org/t@main", "git+https://example.org/t@main"),
        ("tandem-chat[demo] @ git+https://example.org/t", "'tandem-chat[demo] @ git+https://example.org/t'"),
    ],
)
def test_pipx_installs_again_what_its_metadata_names(prefix: Path, wanted: str, words: str) -> None:
    arguments = f"'--pip-args=--extra-index-url {INDEX} --only-binary llama-cpp-python'"

    assert wheel(by_pipx(prefix, wanted)) == f"pipx install {words} --force {arguments}"


def test_pipx_keeps_extras_of_a_folder_its_suffix_and_edits(prefix: Path) -> None:
    here = by_pipx(prefix, f"{prefix}[demo]", suffix="-x", pip_args=["--editable"])

    assert wheel(here).startswith(f"pipx install '{prefix}[demo]' --editable --suffix=-x --force ")


def test_pipx_adds_packages_with_a_second_command(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/pipx/venvs/tandem-chat-x/bin/python")

    assert wheel(by_pipx(prefix, "tandem-chat"), CUDA).endswith(f"'; pipx inject --force tandem-chat-x {CUDA}")


# Environments without a receipt, or with a useless receipt


@pytest.mark.parametrize(
    ("python", "system", "start"),
    [
        ("/usr/bin/python3", "linux", "/usr/bin/python3 -m pip install --force"),
        ("/my tools/python", "darwin", "'/my tools/python' -m pip install --force"),
        (r"C:\venv\python.exe", "windows", r"C:\venv\python.exe -m pip install --force"),
        (r"C:\My Tools\python.exe", "windows", r'& "C:\My Tools\python.exe" -m pip install --force'),
        (r"C:\Jürgen\python.exe", "windows", r'& "C:\Jürgen\python.exe" -m pip install --force'),
    ],
)
def test_pip_installs_into_this_python(python: str, system: str, start: str) -> None:
    assert wheel(Installation("pip", python, system)).startswith(start)


def test_an_environment_without_pip_uses_uv(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert wheel(installation("linux")).startswith("uv pip install --python /v/bin/python --force-reinstall ")


@pytest.mark.parametrize("is_venv", [False, True])
def test_a_system_python_is_reported_and_overridden(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, is_venv: bool
) -> None:
    (prefix / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(prefix))
    monkeypatch.setattr(sys, "base_prefix", "/usr" if is_venv else sys.prefix)
    here = installation("linux")

    assert ("--break-system-packages" in wheel(here)) is not is_venv
    assert (here.note is None) is is_venv


@pytest.mark.parametrize(
    ("file", "receipt"),
    [
        ("uv-receipt.toml", ""),
        ("uv-receipt.toml", "[tool"),
        ("uv-receipt.toml", "tool = 1"),
        ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "llm" }]'),
        ("uv-receipt.toml", '[tool]\nrequirements = [{ name = "tandem-chat", directory = "/gone/clone" }]'),
        ("pipx_metadata.json", ""),
        ("pipx_metadata.json", "[]"),
        ("pipx_metadata.json", '{"main_package": {"package": "llm"}}'),
    ],
)
def test_a_receipt_that_cannot_install_again_is_ignored(prefix: Path, file: str, receipt: str) -> None:
    (prefix / file).write_text(receipt)

    assert installation("linux").tool == "pip"
    assert by_pipx(prefix, "/gone/clone[demo]").tool == "pip"


# Commands on Windows


def test_commands_for_powershell_are_quoted(prefix: Path) -> None:
    here = Installation("uv tool", "", "windows", (r"C:\My clone[demo]",))

    assert r'install "C:\My clone[demo]" --force' in wheel(here)
    assert here.build_command("llama-cpp-python", "0.3.36", "-DX=on").startswith('$env:CMAKE_ARGS = "-DX=on"; uv tool ')


def test_packages_of_an_extra_come_with_what_they_need() -> None:
    assert "--no-deps" not in install_command("pypdf")
