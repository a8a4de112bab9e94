"""The pictures of a conversation reach the engine with every request, in the order of their marks."""

import random
import re
from functools import partial
from pathlib import Path

import pytest

from app.conversations.attached import Attachment, compose
from app.conversations.message import Role
from app.core.errors import ContextOverflowError
from app.core.pictures import MARK, read_picture
from app.worker.events import Failed, JobEnded
from app.worker.jobs import Query, picture_sizes
from tests.core.test_pictures import gif, png
from tests.session.scripted import ScriptedSession, finished

CAT, DOG = read_picture(png(4, 3)), read_picture(gif(40, 30))
ASKED_CAT = compose("What is @a.png?", [Attachment.of(CAT, "a.png")])
ASKED_DOG = compose("And @b.gif?", [Attachment.of(DOG, "b.gif")])


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
    chat.answers("A dog.")
    # The answer does not wait until its text has been counted too.
    counts = [job.function for job in chat.engine.jobs if isinstance(job, Query)]
    assert [count.func for count in counts if isinstance(count, partial)] == [picture_sizes] * 2
    sizes = ((CAT.digest, 8), (DOG.digest, 9))
    chat.session.handle(JobEnded(chat.engine.job_number, sizes))
    assert (chat.session.answering.picture_tokens, chat.session.answering.typed) == (dict(sizes), None)
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


@pytest.mark.parametrize("seed", range(2))
def test_random_operations_keep_the_pictures_of_each_prompt(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    pictures = {f"p{n}.png": read_picture(png(n + 1, 3)) for n in range(5)}
    named: dict[str, list[str]] = {}
    file = tmp_path / "conversations.db"
    chat = ScriptedSession(file)
    for each in pictures.values():
        chat.library.add_picture(each)

    def prompt() -> str:
        number, names = f"prompt{len(named)}", choose.sample(sorted(pictures), choose.randrange(4))
        named[number] = names
        question = " ".join([f"{number}:", *(f"@{name}" for name in names)])
        return compose(question, [Attachment.of(pictures[name], name) for name in reversed(names)])

    def check() -> None:
        request = chat.engine.requests[-1]
        asked = [each for each in request.messages if each.role is Role.USER]
        sent = [named[re.findall(r"prompt\d+", each.content)[0]] for each in asked]
        assert [each.content.count(MARK) for each in asked] == list(map(len, sent))
        assert [[picture.name for picture in each.pictures] for each in asked] == sent
        assert [each.data for each in request.pictures] == [pictures[name].data for names in sent for name in names]
        chat.answers("Seen.")

    chat.session.send(prompt())
    check()
    for _ in range(40):
        nodes = list(chat.conversation.tree.nodes.values())
        prompts, path = [node for node in nodes if node.role is Role.USER], chat.conversation.tree.path
        last = [node for node in path if node.role is Role.USER]
        match choose.choice(["send", "edit", "regenerate", "switch", "delete", "fork", "restart"]):
            case "edit" if last:
                chat.session.edit(choose.choice(last).id, prompt())
                check()
            case "regenerate" if last:
                chat.session.regenerate()
                check()
            case "switch" if prompts:
                chat.session.switch(choose.choice(prompts).id)
            case "delete" if len(last) > 1:
                chat.session.delete(choose.choice(last[1:]).id)
            case "fork" if path:
                assert chat.session.open_conversation(chat.session.fork(choose.choice(path).id))
            case "restart":
                number = chat.conversation.number
                chat.session.close()
                chat = ScriptedSession(file)
                assert number is None or chat.session.open_conversation(number)
            case _:
                chat.session.send(prompt())
                check()
    chat.session.close()
