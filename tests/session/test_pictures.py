"""The pictures of a conversation reach the engine with every request, in the order of their marks."""

from __future__ import annotations

from app.conversations.attached import Attachment, compose
from app.core.errors import ContextOverflowError
from app.core.pictures import MARK, read_picture
from app.worker.events import Failed
from tests.core.test_pictures import gif, png
from tests.session.scripted import ScriptedSession, finished

CAT, DOG = read_picture(png(4, 3)), read_picture(gif(40, 30))
ASKED_CAT = compose("What is @a.png?", [Attachment.of(CAT.picture, "a.png")])
ASKED_DOG = compose("And @b.gif?", [Attachment.of(DOG.picture, "b.gif")])


def _sent(chat: ScriptedSession) -> tuple[list[str], list[bytes]]:
    """Return the messages and the pictures of the last request."""
    return chat.read, [each.data for each in chat.engine.requests[-1].pictures]


def test_each_request_has_the_pictures_of_its_branch(chat: ScriptedSession) -> None:
    chat.library.add_picture(CAT)
    chat.library.add_picture(DOG)
    chat.exchange(ASKED_CAT, "A cat.")
    chat.session.send(ASKED_DOG)
    assert _sent(chat) == ([f"What is {MARK}?", "A cat.", f"And {MARK}?"], [CAT.data, DOG.data])
    assert [each.name for each in chat.engine.requests[-1].messages[2].pictures] == ["b.gif"]
    chat.says("A dog.")
    chat.finishes("A dog.")
    chat.session.edit(chat.node(ASKED_CAT), f"{ASKED_DOG}{MARK}")
    assert _sent(chat) == ([f"And {MARK}?"], [DOG.data])
    chat.finishes("A dog.")
    chat.session.count(ASKED_CAT)
    chat.session.close()


def test_a_picture_that_is_not_stored_is_named(chat: ScriptedSession) -> None:
    chat.session.send(ASKED_CAT)
    assert _sent(chat) == (["What is [picture a.png]?"], [])


def test_the_store_decides_what_a_digest_means(chat: ScriptedSession) -> None:
    chat.library.add_picture(CAT)
    chat.session.send(ASKED_CAT.replace("4x3", "9000x9000"))
    assert [(each.width, each.height) for each in chat.engine.requests[-1].messages[0].pictures] == [(4, 3)]


def test_a_fork_keeps_its_pictures(chat: ScriptedSession) -> None:
    chat.library.add_picture(CAT)
    chat.exchange(ASKED_CAT, "A cat.")
    copy = chat.session.fork(chat.node("A cat."))
    assert chat.session.open_conversation(copy)
    chat.session.send("More?")
    assert _sent(chat) == ([f"What is {MARK}?", "A cat.", "More?"], [CAT.data])


def test_names_replace_the_pictures_that_a_summary_leaves(chat: ScriptedSession) -> None:
    chat.library.add_picture(CAT)
    chat.exchange("Describe the weather of the last years, month by month. " * 9, "It was warm. " * 9)
    chat.exchange(ASKED_CAT, "A cat.")
    chat.session.send("More?")
    overflow = ContextOverflowError("Too long.", whose="conversation", n_tokens=5000)
    chat.session.handle(Failed(len(chat.engine.requests), overflow))
    chat.session.handle(finished(len(chat.engine.requests), "They talked."))
    summary = "Summary of the earlier conversation:\nThey talked."
    assert _sent(chat) == ([summary, "What is [picture a.png]?", "A cat.", "More?"], [])
