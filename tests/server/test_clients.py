"""The SDKs of OpenAI and Anthropic get what they need from a server with a scripted model."""

import pytest

from app.engine.text.call_formats import HERMES
from tests.clients.check_python import CHECKS, TYPED
from tests.engine.text.reading import written
from tests.server.conftest import Serve
from tests.server.test_chat import WritingPair

PLAIN = (
    "openai_streams_with_usage",
    "openai_gets_several_choices",
    "openai_completes_several_prompts",
    "openai_completes_token_ids",
    "openai_finds_the_model",
    "anthropic_counts_the_prompt_first",
    "anthropic_sends_an_image_back",
    *TYPED,
)
"""Checks that need no tool calls."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_client_is_served(serve: Serve, name: str) -> None:
    pytest.importorskip(name.split("_")[0])
    assert CHECKS[name](f"http://127.0.0.1:{serve().port}")


@pytest.mark.parametrize("name", TYPED)
def test_calls_fit_the_types_of_a_client(serve: Serve, name: str) -> None:
    pytest.importorskip(name.split("_")[0])
    calls = [("weather", {"city": "Rome"}), ("patch", {"input": "a"})]
    text = f"<think>Hm.</think>I look.\n{written(HERMES, calls)}"
    assert CHECKS[name](f"http://127.0.0.1:{serve(WritingPair(text)).port}")
