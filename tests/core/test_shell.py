"""Commands that are shown, as the shell of each system takes them."""

from __future__ import annotations

import pytest

from app.core.shell import quoted


@pytest.mark.parametrize(
    ("word", "posix", "windows"),
    [
        ("owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M"),
        # Single quotes would be part of the name in cmd.exe.
        (r"C:\models\big.gguf", r"'C:\models\big.gguf'", r"C:\models\big.gguf"),
        ("my models/big.gguf", "'my models/big.gguf'", '"my models/big.gguf"'),
        ("a&b", "'a&b'", '"a&b"'),
        ("CUDA0,CUDA1", "CUDA0,CUDA1", '"CUDA0,CUDA1"'),
        ("@main", "@main", '"@main"'),
        ("", "''", '""'),
    ],
)
def test_a_word_is_quoted_for_the_shell_of_the_system(word: str, posix: str, windows: str) -> None:
    assert (quoted(word, "linux"), quoted(word, "darwin")) == (posix, posix)
    assert (quoted(word, "windows"), quoted(word, "win32")) == (windows, windows)
