"""Long runs of letters are handed to llama.cpp's tokenizer in parts.

Many vocabularies are read with `std::regex`, which calls itself once for each character that a pattern takes in, at
about 300 bytes of stack: a pasted picture in base64 or 28,000 spaces in a row would end the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LONGEST = 2_000
"""Characters without or of white space that are read in one go; a pattern takes in a few such runs at most."""
# Tried only where a run begins, or a run that is almost too long would be walked from each of its characters.
_RUN = re.compile(rf"(?<!\S)\S{{{LONGEST + 1},}}|(?<!\s)\s{{{LONGEST + 1},}}")


def parts(text: str, kept: Iterable[str]) -> Iterator[str]:
    """A text in parts that can be tokenized one by one; nearly always it is one.

    A cut falls behind a word where there is one, for there a token ends anyway.

    Args:
        text: What is to be tokenized.
        kept: Texts of control tokens, which are never cut.
    """
    whole: re.Pattern[str] | None = None
    reach = begin = 0
    for run in _RUN.finditer(text):
        if whole is None:
            texts = sorted(filter(None, kept), key=len, reverse=True)
            whole, reach = re.compile("|".join(map(re.escape, texts)) or r"(?!)"), max(map(len, texts), default=0)
        start = max(begin, run.start())
        while run.end() - start > LONGEST:
            cut = _behind_a_word(text, start + LONGEST // 2, start + LONGEST)
            around = whole.finditer(text, max(begin, cut - reach), cut + reach)
            cut = next((token.end() for token in around if token.start() < cut < token.end()), cut)
            yield text[begin:cut]
            begin = start = cut
    if begin < len(text):
        yield text[begin:]


def _behind_a_word(text: str, first: int, last: int) -> int:
    """The last place between two at which a word ends, or the last one."""
    return next((at for at in range(last, first, -1) if text[at - 1].isalnum() and not text[at].isalnum()), last)
