"""A title is found in what a model writes around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.model_title import title_in

_WRAPPED = [
    "{}",
    '"{}"',
    "“{}”",
    "« {} »",
    "**{}**",
    "# {}",
    "`{}`",
    "```\n{}\n```",
    "- {}",
    "{}.",
    "Title: {}",
    "**Title:** {}",
    "**Title**: *{}*",
    "Conversation Title: {}",
    "Suggested title - {}",
    "Titre : « {} »",
    "Titel: {}",
    "标题：{}",
    "Here's a possible title: {}",
    'Here’s a title for this conversation:\n\n"{}"',
    'Here is a title for the conversation: "{}"',
    "Here's a possible title:\n\n{}\n\nThis title reflects the conversation.",
    "Sure! Here's a title:\n**{}**",
    "Certainly! {}",
    "Okay, here's one possible title: {}",
    'A suitable title for this conversation could be "{}".',
    "The title of this conversation is {}.",
    "Based on the conversation, a good title would be: {}",
    'How about this title: "{}"?',
    'I would suggest the following title: "{}"',
    'At most six words: "{}"',
    'At most, six words:\n\n*   "{}"\n*   "{}"',
    'Possible titles:\n1. "{}"\n2. "Another"',
    "Voici un titre possible : « {} »",
    "Hier ist ein möglicher Titel: {}",
    "以下是标题：{}",
    '{{"title": "{}"}}',
    '```json\n{{"title": "{}"}}\n```',
    "<title>{}</title>",
    "{} (5 words)",
    '"{}" (5 words)',
    '"{}"\n\nExplanation: it is short.',
]
_TITLES = [
    "Reverse a Linked List in Python",
    "Paris: The City of Light",
    "Title Case in Python: A Guide",
    "A Guide to the Title Tag: SEO",
    "Here Comes the Sun: Song Analysis",
    "What's the capital of France?",
    "The Cat's Lament",
    "Don't Panic: An 'Easy' Start",
    "Famous Last Words: A Story",
    "递归函数",
    "Krankmeldung an den Chef",
]


@pytest.mark.parametrize("title", _TITLES)
@pytest.mark.parametrize("wrapped", _WRAPPED)
def test_only_the_title_is_taken(wrapped: str, title: str) -> None:
    assert title_in(wrapped.format(title, title)) == title


def test_quotation_marks_within_a_title_stay() -> None:
    assert title_in('"Hello World" in Rust') == '"Hello World" in Rust'


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "???",
        "Here's a title for this conversation:",
        "I'm an AI assistant, and you're an editor.",
        "I cannot write a title.",
        '"How to Use: [insert title]"',
        "At this moment, I'm at the top of the table, and you're at the bottom of it.",
    ],
)
def test_an_answer_without_a_title_has_none(answer: str) -> None:
    assert title_in(answer) is None


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("La photosynthèse est le processus par lequel", None),
        ("Here's a title:\n\n\"How to Reverse a Linked List in Python: Your", None),
        ("Paris in Spring\n\nThis title says", "Paris in Spring"),
        ('"Paris in Spring" is a title that', None),
    ],
)
def test_a_title_that_was_cut_is_not_taken(answer: str, title: str | None) -> None:
    assert title_in(answer, is_complete=False) == title


@given(st.text(), st.booleans())
def test_any_answer_has_a_short_title_or_none(answer: str, is_complete: bool) -> None:
    title = title_in(answer, is_complete=is_complete)
    assert title is None or (title.strip() == title != "" and "\n" not in title)
