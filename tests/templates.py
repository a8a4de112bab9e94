"""Real chat templates, rendered by plain Jinja with the globals of Hugging Face's library."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_FOLDER = Path(__file__).parents[2] / "shared" / "templates"
NAMES = sorted(path.stem for path in _FOLDER.glob("*.jinja"))

if NAMES:
    every_template = pytest.mark.parametrize("name", NAMES)
else:
    every_template = pytest.mark.skip("the real templates are not beside this checkout")


def source_of(name: str) -> str:
    """Return the source of a template."""
    return (_FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


class _GenerationTag(Extension):
    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=1)
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationTag]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_refuse, strftime_now=lambda layout: datetime.now().strftime(layout))
    return environment.from_string(source)


def rendered(source: str, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
    """Render a conversation with plain Jinja."""
    values = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, **variables}
    return _compiled(source).render(messages=messages, **values)
