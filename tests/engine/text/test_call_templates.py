"""Check that arguments come back exactly as the chat template of each family writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.text.call_formats import format_of
from tests.engine.text.reading import read, tool
from tests.engine.text.test_call_formats import FAMILIES, WRITE_NO_CALLS
from tests.engine.text.test_call_reader import MARKS
from tests.templates import NAMES, rendered, source_of

KINDS = {"path": "string", "content": "string", "n": "integer", "flag": "boolean", "tags": "array", "more": "object"}
TOOLS = [
    tool("write_file", {key: {"type": kind, "description": "a"} for key, kind in KINDS.items()}),
    tool("look_up", {"ref": {"type": "string", "description": "a"}}),
]
AS_TEXT = ("meetkai-functionary-medium-v3.2",)
"""Templates that take arguments as text."""
SINGLE = ("meta-llama", "openai-gpt-oss", "GigaChat", "muse")
"""Templates that write one call in a turn, or each in a message of its own."""
ONE_OF_EACH = [
    next((name for name in NAMES if name.startswith(starts) and not name.startswith(WRITE_NO_CALLS)), None)
    for starts in (*FAMILIES.values(), ("Qwen-Qwen3",))
]
TEXTS = st.lists(st.sampled_from(MARKS), max_size=5).map("".join)
CALLS = st.fixed_dictionaries(
    {"path": TEXTS, "content": TEXTS, "n": st.integers(-9, 10**9), "flag": st.booleans()},
    optional={"tags": st.lists(TEXTS, min_size=1, max_size=2), "more": st.fixed_dictionaries({"k": TEXTS})},
)


@pytest.mark.skipif(not NAMES, reason="the real templates are not beside this checkout")
@pytest.mark.parametrize("name", sorted(filter(None, ONE_OF_EACH)))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(arguments=CALLS, ref=TEXTS)
def test_arguments_come_back_as_a_template_writes_them(name: str, arguments: dict[str, Any], ref: str) -> None:
    source = source_of(name)
    if name.startswith("CohereForAI-c4ai-command-r-plus"):
        pytest.skip("this template fails with objects in a schema")
    calls = [("write_file", arguments), ("look_up", {"ref": ref})][: 1 if name.startswith(SINGLE) else 2]
    written = [
        {
            "id": f"abcdefgh{n}",
            "type": "function",
            "function": {"name": called, "arguments": json.dumps(one) if name.startswith(AS_TEXT) else one},
        }
        for n, (called, one) in enumerate(calls)
    ]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "QQ"},
        {"role": "assistant", "content": "", "tool_calls": written},
    ]
    # firefunction reads the tools as a text.
    shown = {"tools": TOOLS, "functions": "", "datetime": ""}
    prompt = rendered(source, messages, **{**shown, "add_generation_prompt": False})
    answer = prompt[prompt.index(format_of(source).trigger or "{", prompt.index("QQ")) :]
    assert read(answer, TOOLS, 7).values == calls
