"""The SDKs of OpenAI and Anthropic get what they need from a server with a scripted model."""

from __future__ import annotations

import pytest

from tests.clients.check_python import CHECKS
from tests.server.conftest import Serve

PLAIN = (
    "openai_streams_with_usage",
    "openai_gets_several_choices",
    "openai_completes_several_prompts",
    "openai_completes_token_ids",
    "openai_finds_the_model",
    "anthropic_counts_the_prompt_first",
    "anthropic_sends_an_image_back",
)
"""Checks that need no model that calls tools."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_client_is_served(serve: Serve, name: str) -> None:
    pytest.importorskip(name.split("_")[0])
    assert CHECKS[name](f"http://127.0.0.1:{serve().port}")
