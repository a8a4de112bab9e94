"""A prompt with attachments, put together and taken apart again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.conversations.attached import Attachment, compose, split
from app.conversations.message import Role
from app.conversations.store import Store

NAMES = st.text("ab.md/~ é", min_size=1).filter(lambda name: name.strip() == name)
TEXTS = st.text(st.sampled_from("a`\n:@ ~é"), max_size=60)


@given(st.lists(st.builds(Attachment, NAMES, TEXTS, st.booleans()), max_size=3), TEXTS)
def test_split_reverses_compose(attachments: list[Attachment], text: str) -> None:
    question = " ".join(["why", *(each.reference for each in attachments), text])
    message = compose(question, attachments)
    found_question, found = split(message)
    assert found_question == question
    assert [(each.name, each.text) for each in found] == [(each.name, each.text) for each in attachments]


@given(st.text(st.sampled_from("a:`\n@[]md. "), max_size=80))
def test_compose_reverses_split_for_any_text(text: str) -> None:
    assert compose(*split(text)) == text


def test_typed_markdown_is_no_attachment() -> None:
    written = "code:\n```py\nx = 1\n```\n\nwhat does it do?"
    assert split(written) == (written, ())


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    message = compose("@a.md", [Attachment("a.md", "```\ncode\n```")])
    assert message == "a.md:\n````md\n```\ncode\n```\n````\n\n@a.md"


def test_a_path_with_a_space_is_quoted() -> None:
    file = Attachment("my notes.md", "x")
    assert file.reference == '@"my notes.md"'
    assert split(compose(f"read {file.reference}", [file]))[1] == (file,)


def test_a_title_is_made_from_the_question() -> None:
    store = Store()
    number = store.create()
    store.add(number, Role.USER, compose("sum up @a.md", [Attachment("a.md", "secret")]), parent=None)
    assert store.summaries()[0].title == "sum up @a.md"
    assert store.rename(number, "") == "sum up @a.md"
