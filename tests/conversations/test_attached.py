"""Pictures in conversations: as attachments of a message, in the store, in exports and as a model reads them."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.attached import Attachment, compose, split, with_marks
from app.conversations.export import to_json, to_markdown
from app.conversations.importing import read_file
from app.conversations.message import Compaction, Message, Role, pictures_as_text
from app.conversations.store import UNDO_S, Store
from app.conversations.tree import Node, StoredConversation, Summary, Tree, as_message, as_messages, readable
from app.core.pictures import MARK, read_picture
from tests.conversations.stores import Clock
from tests.core.test_pictures import gif, png

CAT, DOG = read_picture(png(4, 3)), read_picture(gif(40, 30))


def asked(question: str, *names: str) -> str:
    """Return a message with a picture for each name."""
    return compose(question, [Attachment.of(each, name) for each, name in zip((CAT, DOG), names, strict=False)])


def test_a_message_is_taken_apart_and_put_together() -> None:
    text = Attachment("a.py", "x = 1")
    pasted = Attachment.of(DOG, "pasted picture", is_file=False)
    attachments = [Attachment.of(CAT, "my cat.png"), text, pasted]
    message = compose('Is @"my cat.png" like [pasted picture] in @a.py?', attachments)
    assert split(message)[1] == tuple(attachments)
    content, pictures = with_marks(message)
    assert content == compose(f"Is {MARK} like {MARK} in @a.py?", [text])
    assert [each.name for each in pictures] == ["my cat.png", "pasted picture"]


def test_a_picture_is_read_where_it_is_named_first() -> None:
    message = asked("@b.gif, then @a.png; @b.gif again", "a.png", "b.gif")
    content, pictures = with_marks(message)
    assert content == f"{MARK}, then {MARK}; @b.gif again"
    assert [each.digest for each in pictures] == [DOG.digest, CAT.digest]


@pytest.mark.parametrize(
    "message",
    [
        f"a {MARK} typed character",
        "no reference:\n```tandem-picture\n" + "0" * 64 + " image/png 1x1\n```\n\nWhat?",
        "a.png:\n```tandem-picture\nother words\n```\n\nWhat is @a.png?",
    ],
)
def test_other_text_has_no_pictures(message: str) -> None:
    assert with_marks(message) == (message.replace(MARK, ""), ())


def test_only_prompts_have_pictures() -> None:
    assert as_message(Role.ASSISTANT, f"{MARK}{asked('@a.png', 'a.png')}").pictures == ()
    assert MARK not in as_message(Role.ASSISTANT, f"{MARK}x", MARK).content + as_message(Role.SYSTEM, MARK).content


def test_names_stand_for_pictures_that_are_gone() -> None:
    message = as_message(Role.USER, asked("@a.png and @b.gif", "a.png", "b.gif"))
    gone = pictures_as_text(message, lambda picture: picture.digest == CAT.digest)
    assert (gone.content, len(gone.pictures)) == (f"[picture a.png] and {MARK}", 1)
    assert pictures_as_text(Message(Role.USER, MARK, pictures=(CAT,))).content == "[picture]"


def test_messages_before_a_summary_have_no_pictures() -> None:
    prompts = [Node(n, n - 1 or None, Role.USER, asked("@a.png", "a.png")) for n in (1, 2, 3)]
    prompts[1] = replace(prompts[1], stats=Compaction(1, "They talked.").numbers)
    _, nodes = readable(prompts)
    assert [message.content for message in as_messages(nodes)] == ["[picture a.png]", MARK, MARK]


def test_a_search_finds_the_words_of_a_prompt_but_no_facts_of_its_pictures(tmp_path: Path) -> None:
    store = Store(tmp_path / "conversations.db")
    conversation = store.create()
    store.add(conversation, Role.USER, asked("What is @sea.png?", "sea.png"), parent=None)
    for word in ("tandem", "picture", CAT.digest[:8], "image", "4x3", "Wh tandem"):
        assert store.search(word) == ()
    for word in ("sea.png", "What", "Wh", "wh sea"):
        (hit,) = store.search(word)
        assert hit.excerpt.text == "What is @sea.png?"
    store.close()


# The store


def test_a_picture_is_stored_once_and_checked(tmp_path: Path) -> None:
    store = Store(tmp_path / "conversations.db")
    for picture in (CAT, CAT, DOG):
        store.pictures.add(picture)
    store.database.connection.execute("UPDATE pictures SET data = x'00' WHERE digest = ?", (DOG.digest,))
    digests = [CAT.digest, DOG.digest, "unknown"]
    assert store.pictures.load(digests) == {CAT.digest: CAT}
    store.close()


def test_a_picture_stays_while_a_text_refers_to_it(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "conversations.db"

    def left() -> list[str]:
        store = Store(file, now=clock)
        found = [digest for (digest,) in store.database.rows("SELECT digest FROM pictures ORDER BY rowid")]
        store.close()
        return found

    store = Store(file, now=clock)
    store.pictures.add(CAT)
    store.pictures.add(DOG)
    conversation = store.create()
    prompt = store.add(conversation, Role.USER, asked("@a.png", "a.png"), parent=None)
    store.add(conversation, Role.USER, "edited", parent=None)
    store.set_unsent_text(conversation, compose("@b.gif", [Attachment.of(DOG, "b.gif")]))
    store.close()
    clock.now += UNDO_S + 1
    assert left() == [CAT.digest, DOG.digest]
    store = Store(file, now=clock)
    tree = store.load(conversation).tree
    store.replace_tree(conversation, tree, tree.without_message(prompt.id))
    store.close()
    assert left() == [DOG.digest]
    store = Store(file, now=clock)
    store.delete(conversation)
    store.close()
    assert left() == [DOG.digest]
    clock.now += UNDO_S + 1
    left()
    assert left() == []


# Files


def _talk(store: Store) -> StoredConversation:
    for picture in (CAT, DOG):
        store.pictures.add(picture)
    number = store.create()
    first = store.add(number, Role.USER, asked("Is @a.png like @b.gif?", "a.png", "b.gif"), parent=None)
    store.add(number, Role.ASSISTANT, "No.", parent=first.id)
    return store.pictures.of(store.load(number))


@pytest.mark.parametrize("write", [to_json, to_markdown])
def test_a_file_has_the_pictures_of_its_messages(tmp_path: Path, write: object) -> None:
    assert callable(write)
    store = Store()
    whole = _talk(store)
    file = tmp_path / ("x.json" if write is to_json else "x.md")
    file.write_text(write([whole]), encoding="utf-8")
    (found,) = read_file(file)
    assert found.pictures == {CAT.digest: CAT, DOG.digest: DOG}
    assert as_messages(found.tree.path) == as_messages(whole.tree.path)
    other = Store()
    (number,) = other.insert([found])
    assert other.pictures.of(other.load(number)).pictures == found.pictures


def test_an_imported_picture_that_cannot_be_decoded_is_left_out(tmp_path: Path) -> None:
    node = Node(1, None, Role.USER, asked("@a.png", "a.png"))
    damaged = replace(CAT, data=CAT.data[:-30])
    whole = StoredConversation(Summary(0, "x"), Tree({1: node}, 1), pictures={"1": damaged, "2": DOG})
    file = tmp_path / "x.json"
    file.write_text(to_json([whole]), encoding="utf-8")
    (found,) = read_file(file)
    assert list(found.pictures) == [DOG.digest]
