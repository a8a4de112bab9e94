"""Pipes, devices and folders instead of Tandem's files are neither waited for nor replaced."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compare.measured_pairs import speedups
from app.conversations.importing import read_file
from app.conversations.opening import check_file
from app.conversations.store import Store
from app.core import atomic, regular_file
from app.core.errors import AppError
from app.core.log import guarded_stderr
from app.core.regular_file import MAX_TEXT_BYTES, MissingFile, read_user_text, user_text
from app.llama import stored_measurements
from app.llama.child import SafeFiles
from app.models.catalog import Catalog, shipped_file
from app.models.registry import Registry
from app.settings.file import SettingsFile

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX"),
    pytest.mark.usefixtures("trial_loads"),
]

KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}
REFUSED: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: SettingsFile(path).set("draft.n_max", 3),
    "catalog": lambda path: Catalog(path),
    "pairs": lambda path: Registry(path).read(),
    "conversations": Store,
    "check of conversations": check_file,
    "import": read_file,
}
DISCARDED: dict[str, Callable[[Path], object]] = {
    "cache": lambda path: atomic.read_json(path, 1, lambda raw: raw),
    "statistics": stored_measurements.load_statistics,
    "threads": stored_measurements.load_threads,
    "safe": lambda path: SafeFiles(path).survived(path.with_name("model")) or None,
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_anything_but_a_file_is_neither_read_nor_written(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(path := tmp_path / "odd")
    before = os.lstat(path).st_mode

    with pytest.raises(OSError, match="not a regular file"):
        regular_file.read_bytes(path)
    with pytest.raises(OSError, match="not a regular file"):
        atomic.write(path, b"new")
    with guarded_stderr(path):
        os.write(2, b"noise")
    assert os.lstat(path).st_mode == before


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED)
def test_a_pipe_in_place_of_a_file_is_an_error_with_a_hint(tmp_path: Path, use: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "odd")

    with pytest.raises(AppError, match=r"odd.*\.") as refusal:
        use(tmp_path / "odd")
    assert refusal.value.hint
    assert (tmp_path / "odd").is_fifo()


@pytest.mark.parametrize("use", DISCARDED.values(), ids=DISCARDED)
def test_a_pipe_in_place_of_a_cache_is_ignored(tmp_path: Path, use: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "odd")
    assert use(tmp_path / "odd") is None

    os.mkfifo(tmp_path / "result.json")
    assert speedups(tmp_path, "EPYC") == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[table\nx = 1", "Expected ']' at the end of a table declaration"),
        (b"x = 1\nx = 2", "Cannot overwrite a value"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"x = " + b"[" * 5000, "something in it is too long"),
        (b"x = " + b"9" * 5000, "something in it is too long"),
        # Python would take hours for this key.
        (b".".join([b"a"] * 100_000) + b" = 1", "a key has too many parts"),
    ],
    ids=["table", "key", "bytes", "depth", "digits", "parts"],
)
def test_toml_that_cannot_be_read_is_an_error_and_stays(tmp_path: Path, data: bytes, reason: str) -> None:
    (path := tmp_path / "odd").write_bytes(data)

    for name in ("settings", "catalog", "pairs"):
        with pytest.raises(AppError) as refusal:
            REFUSED[name](path)
        assert refusal.value.message.startswith(f"{path} cannot be read: {reason}")
    assert path.read_bytes() == data


def test_an_endless_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    (path := tmp_path / "odd").touch()
    os.truncate(path, 1 << 40)

    for name in ("settings", "catalog", "pairs"):
        with pytest.raises(AppError, match=r"odd.*larger than"):
            REFUSED[name](path)
    assert [use(path) for use in DISCARDED.values()] == [None] * len(DISCARDED)


def test_line_ends_are_normalized(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_bytes("á\n\r\nb\rc".encode())

    assert regular_file.read_text(path) == "á\n\nb\nc"
    assert regular_file.read_bytes(path, 2) == "á".encode()


def test_a_broken_link_is_written_through_but_is_no_catalog(tmp_path: Path) -> None:
    link = tmp_path / "settings.toml"
    link.symlink_to("target.toml")
    SettingsFile(link).set("draft.n_max", 3)
    assert link.is_symlink()
    assert "n_max = 3" in (tmp_path / "target.toml").read_text()

    (tmp_path / "models.toml").symlink_to("nowhere.toml")
    unread = Catalog(shipped_file(), tmp_path / "models.toml").unread
    assert unread is not None
    assert "cannot be read" in unread.message


# Text files that the user names


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("naïve\r\nend\r".encode(), "naïve\nend\n"),
        ("\ufeffx".encode(), "x"),
        ("héllo".encode("utf-16"), "héllo"),
        ("héllo".encode("utf-32"), "héllo"),
        ("Grüße, 3\n".encode("utf-16-be"), "Grüße, 3\n"),
        ("caf\xe9 \u20ac 2".encode("cp1252"), "café \u20ac 2"),
        ("Größe: 日本語".encode()[:-1], "Größe: 日本\ufffd"),
        ('<meta charset="gb2312">你好'.encode("gb18030"), '<meta charset="gb2312">你好'),
        ("# coding: iso-8859-1\n“x”".encode("cp1252"), "# coding: iso-8859-1\n“x”"),
        (b"+/v8-hello", "+/v8-hello"),
        (b"", ""),
        (b"\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m"),
        *(
            (text.encode(encoding), text)
            for text, encoding in (
                ("Grüße", "cp1252"),
                ("El niño comió piñas en la mañana", "cp1252"),
                ("x = 1  # naïve\n" + "pass\n" * 40, "cp1252"),
                ("Привет, как дела? Это текст на русском языке.", "cp1251"),
                ("Привет, как дела? Это текст на русском языке.", "koi8_r"),
                ("日本語のテキストです。今日はいい天気ですね。", "shift_jis"),
                ("Dzień dobry, chciałbym zamówić książkę.", "cp1250"),
                ("这是一个中文文本文件。", "gb18030"),
            )
        ),
    ],
)
def test_text_is_read_in_common_encodings(data: bytes, text: str) -> None:
    assert user_text(data, "a.txt") == text


@pytest.mark.parametrize("data", [b"\x7fELF\x00\x01", b"x" * 9000 + b"\0"])
def test_binary_data_is_refused(data: bytes) -> None:
    with pytest.raises(AppError, match=r"a is not text\."):
        user_text(data, "a")


def test_a_missing_file_has_its_own_error(tmp_path: Path) -> None:
    for name in ("none.md", "a.md/below", "x" * 200):
        (tmp_path / "a.md").write_text("x")
        with pytest.raises(MissingFile, match="There is no file"):
            read_user_text(tmp_path / name, name)


@pytest.mark.parametrize("name", ["nul\0.md", "x" * 300])
def test_an_impossible_name_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(AppError):
        read_user_text(tmp_path / name, "it")


def test_a_directory_a_pipe_and_a_device_are_refused_without_waiting(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="src is a folder"):
        read_user_text(tmp_path, "src")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(AppError, match="a device or a pipe"):
            read_user_text(tmp_path / "pipe", "pipe")
        with pytest.raises(AppError, match="a device or a pipe"):
            read_user_text(Path("/dev/zero"), "/dev/zero")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_no_permission_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.touch(mode=0)
    with pytest.raises(AppError, match="mine cannot be read: Permission denied"):
        read_user_text(file, "mine")


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * MAX_TEXT_BYTES)
    assert len(read_user_text(tmp_path / "big", "big")) == MAX_TEXT_BYTES
    with (tmp_path / "big").open("ab") as file:
        file.write(b"x")
    with pytest.raises(AppError, match=r"big is larger than 8 MB\."):
        read_user_text(tmp_path / "big", "big")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(AppError):
        assert "\r" not in user_text(data, "any")
