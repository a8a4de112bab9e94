"""What a chat template is told: messages with what was thought, and whether to think, in the words of each family."""

from __future__ import annotations

import re
from typing import Any

from app.conversations.message import Message, Role
from app.settings.thinking import Thinking

_BLOCKS = re.compile(r"""\[\s*['"]type['"]\s*\]\s*==\s*['"]thinking['"]""")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Where templates look for what a message thought. What of it a model is to see again is for them to say."""
_EFFORTS = ("reasoning_effort", "reasoning_strength", "thinking_effort")
_ON = {"enable_thinking": True, "thinking": True, "reasoning": True, "thinking_mode": "enabled"}
_OFF = {
    "enable_thinking": False,
    "thinking": False,
    "reasoning": False,
    "thinking_mode": "disabled",
    "thinking_budget": 0,
}


def takes_blocks(source: str) -> bool:
    """Whether a template takes thinking as one of several parts of a message, as those of Mistral do."""
    return _BLOCKS.search(source) is not None


def told(message: Message, *, in_blocks: bool, in_parts: bool = False) -> dict[str, Any]:
    """A message as a template reads it.

    Args:
        message: The message.
        in_blocks: Whether its thinking is a part of its content.
        in_parts: Whether all content is a list of parts, as with models that also see.
    """
    role = message.role.value
    text = {"type": "text", "text": message.content}
    content: str | list[dict[str, str]] = [text] if in_parts else message.content
    if message.role is not Role.ASSISTANT or not message.reasoning:
        return {"role": role, "content": content}
    if in_blocks:
        return {"role": role, "content": [{"type": "thinking", "thinking": message.reasoning}, text]}
    return {"role": role, "content": content, **dict.fromkeys(_THOUGHTS, message.reasoning)}


def switches(thinking: Thinking) -> dict[str, Any]:
    """What asks for thinking, under every name that templates have for it; empty where nothing is asked."""
    wanted: dict[str, Any] = {} if thinking.wanted is None else _ON if thinking.wanted else _OFF
    effort = thinking.effort
    return wanted if effort is None or thinking.wanted is False else {**wanted, **dict.fromkeys(_EFFORTS, effort)}
