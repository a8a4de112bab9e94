"""Rules of llguidance's Lark grammars for texts with control tokens, literals and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile, groupby
from typing import Any

from app.core.errors import UsageError
from app.llama.json_schema import checked_rule
from app.llama.matcher import lark_fault
from app.llama.text_patterns import text_terminal

_LARK_TERMINALS = r"""
TEXT: /(?s:.+)/
WHITE: /[ \t\n]{1,20}/
ID: /[A-Za-z0-9]{1,40}/
KEY: /[A-Za-z_][A-Za-z0-9_.-]{0,80}/
HEADER: /[^{]{1,60}/
UNQUOTED: /[^<&\n]+/
QUOTED: /'([^'\\\n]|\\.)*'/
NUMBER: /-?[0-9]{1,15}(\.[0-9]{1,15})?/
"""
PLACEHOLDER_PATTERN = re.compile(r"(\$[A-Z]+)")
LINE_BREAK = '"\\n"?'
_LOOSE_SPACE = re.compile(r"([ \t]*\n\s*|(?<=[{}\[\],:]) +| +(?=[{}\[\],:]))")
"""White space that a model may leave out or change: line breaks, and spaces beside the punctuation of JSON."""
_JSON_LEXEMES = re.compile(r'[{}\[\],:]|"[^"]*"|[^{}\[\],:"]+')
_REGEX_SPECIALS = re.compile(r"[\\.+*?()|\[\]{}^$/]")


class LarkRules:
    """Collects the rules of a grammar. A text becomes symbols: control tokens, literals, and optional white space.

    Args:
        controls: Tokens that no text contains, by name.
        ends: Control tokens that end an answer.
        splits_json: Whether the literals are the punctuation of JSON.
    """

    def __init__(self, controls: Mapping[str, int], ends: frozenset[int], *, splits_json: bool) -> None:
        self._controls, self._ends, self._splits_json = controls, ends, splits_json
        names = sorted(filter(None, controls), key=len, reverse=True)
        self._names = re.compile(f"({'|'.join(map(re.escape, names))})" if names else r"((?!))")
        self._rules: list[str] = []

    def _joined(self, *first: str) -> str:
        return "\n".join((*first, *self._rules)) + _LARK_TERMINALS

    def _control_token(self, besides: str = "") -> str | None:
        """Return a symbol for all control tokens that do not end the answer, if there are any."""
        tokens = sorted(token for token in {*self._controls.values()} - self._ends if besides != f"<[{token}]>")
        runs = [[token for _, token in run] for _, run in groupby(enumerate(tokens), lambda one: one[1] - one[0])]
        return f"<[{','.join(f'{run[0]}-{run[-1]}' for run in runs)}]>" if runs else None

    def _rule(self, *symbols: str, options: str = "") -> str:
        name = f"rule-{len(self._rules)}"
        self._rules.append(f"{name}{options}: {' '.join(symbols)}")
        return name

    def _terminal(self, right: str, owner: str) -> str:
        name = f"TEXT-{len(self._rules)}"
        self._rules.append(f"{name}: {checked_rule(right, owner)}")
        return name

    def _symbols(self, text: str, **values: str) -> list[str]:
        """Return a text as symbols; `values` are the values of its placeholders."""
        out: list[str] = []
        for part in PLACEHOLDER_PATTERN.split(text):
            if part[1:] in values:
                out.append(values[part[1:]])
                continue
            for n, piece in enumerate(self._names.split(part)):
                if n % 2:
                    out += [] if self._controls[piece] in self._ends else [f"<[{self._controls[piece]}]>"]
                    continue
                words = enumerate(_LOOSE_SPACE.split(piece))
                out += [self._literal(word) if m % 2 == 0 else "WHITE?" for m, word in words if word]
        return out

    def _literal(self, text: str) -> str:
        """Return the symbol of a text; a call without marks has the lexemes of a JSON answer."""
        parts = _JSON_LEXEMES.findall(text) if self._splits_json else [text]
        return " ".join(map(json.dumps, parts))

    def _text(self, text: str, **values: str) -> str:
        return " ".join(self._symbols(text, **values))

    def _until(self, end: Sequence[str], limits: Any = None, owner: str = "", lark: str = "") -> str:
        """Return the symbols of a text and its end; its schema's keywords or its own grammar may limit the text."""
        first, *after = dropwhile("WHITE?".__eq__, end)
        is_token = first[0] == "<"
        mark = "" if is_token else escaped(json.loads(first))
        has_break = end[0] == "WHITE?"
        if lark:
            if fault := lark_fault(lark):
                raise UsageError(f"{owner} cannot be enforced: {fault}.", "Simplify it, or leave it out.")
            rule = self._rule(checked_rule(f"%lark {{\n{lark}\n}}", owner))
            return " ".join((rule, *[LINE_BREAK] * has_break, first, *after))
        if terminal := text_terminal(limits or {}, r"\n?" * has_break + mark):
            name = self._terminal(terminal, owner)
            return " ".join((name, first, *after) if is_token else (self._rule(name, options="[lazy]"), *after))
        if is_token:
            return " ".join(("TEXT?", first, *after))
        return " ".join((self._rule(f"/(?s:.*){mark}/", options="[lazy]"), *after))


def escaped(text: str) -> str:
    """Return a regular expression for a text."""
    return _REGEX_SPECIALS.sub(r"\\\g<0>", text)
