"""The title in a model's answer, which often has a preamble, quotation marks or an explanation around it."""

from __future__ import annotations

import re

from app.conversations.titles import plain_lines, width

_MAX_COLUMNS = 60
"""Width of the widest accepted title; a longer text is a sentence about the conversation."""
_TITLE = "title|titles|heading|headline|titel|titre|título|titolo|tytuł|название|заголовок|标题|標題|题目|タイトル|제목"
# A title is usually in title case, so "title" in lower case belongs to a sentence about it.
_LOWER_CASE = _TITLE.replace("titel|", "[Tt]itel|")
_ADJECTIVE = "the|my|a|an|one|chat|conversation|suggested|possible|proposed|suitable|short|good|new|final|best"
_OPENER = (
    r"here|sure|okay|ok|certainly|of\scourse|absolutely|based\son|how\sabout|you\scould|i|this|these|the|an?|one|my"
    "|possible|suggested|for|hier|voici|aquí|aqui|ecco|ein|une?|un|вот"
)
_PREAMBLE = re.compile(
    rf"""(?:(?:{_ADJECTIVE})\s+){{0,3}} (?:{_TITLE}) \s*[:：–—-]\s*
    | (?:{_OPENER})\b [^:："“«「]*? (?-i:\b(?:{_LOWER_CASE})\b) [^:："“«「]*?
      (?: [:：]\s* | (?=["“«「]) | \b(?:is|be|ist|est)\s+ )
    | (?:以下|这是|這是) [^:：]* [:：]\s*
    | (?:at\smost|in|within|under|up\sto)\b [^:："“]* \bwords?\b [^:："“]* [:：]\s*
    | [^:："“]* [:：]\s* \Z""",
    re.IGNORECASE | re.VERBOSE,
)
_INTERJECTION = re.compile(
    r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|alright|got it|yes)[!.,–—-]+\s*", re.IGNORECASE
)
_CLOSING = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "『": "』", "'": "'", "‘": "’", "`": "`"}
"""The marks that may close a quotation, by the one that opens it."""
_JSON = re.compile(r'"title"\s*:\s*"([^"\n]+)"', re.IGNORECASE)
_NO_TITLE = re.compile(
    r"(?:i['’]m|i am|i can|i cannot|i could|i don['’]t|sorry|as an ai|unfortunately)\b|.*\[(?:insert|your)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\s*\(\d+ words?\)\W*\Z")


def title_in(answer: str, *, is_complete: bool = True) -> str | None:
    """Return the title in a model's answer.

    Args:
        is_complete: Whether the model ended the answer; otherwise its last line may be cut.

    Returns:
        None for an answer without a title, or with one that is cut or too long.
    """
    if found := _JSON.search(answer):
        return _accepted(found[1])
    lines = plain_lines(answer)
    for at, line in enumerate(lines):
        rest = _INTERJECTION.sub("", line, count=1) if _INTERJECTION.match(line) else line
        preamble = _PREAMBLE.match(rest)
        rest = rest[preamble.end() :] if preamble else rest
        if not any(character.isalnum() for character in rest):
            continue
        quoted, after = _quoted(rest)
        if quoted and (preamble or not any(character.isalnum() for character in _COUNT.sub("", after))):
            return _accepted(quoted)
        is_cut = not is_complete and at == len(lines) - 1
        return None if is_cut else _accepted(rest)
    return None


def _quoted(text: str) -> tuple[str, str]:
    """Return what a text that begins with a quotation mark quotes, and the text after it; "" for the first if none."""
    ends = [at for at, each in enumerate(text) if at > 1 and each in _CLOSING.get(text[0], "")]
    # A single quotation mark is also an apostrophe.
    end = (ends[-1] if text[0] in "'‘" else ends[0]) if ends else 0
    return text[1:end].strip(), text[end + 1 :]


def _accepted(text: str) -> str | None:
    """Return a title without the marks around it; None if it is none."""
    title = _COUNT.sub("", text).strip(" .,:;*_#")
    if _CLOSING.get(title[:1]) and not _quoted(title)[0]:
        title = title[1:].lstrip()
    is_title = any(character.isalnum() for character in title) and not _NO_TITLE.match(title)
    return title if is_title and width(title) <= _MAX_COLUMNS else None
