"""Full-text search."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversations.message import Role
from app.conversations.search import Hit, excerpt
from app.conversations.store import Store
from app.conversations.tree import Node, State, StoredConversation, Summary, Tree


def talk(store: Store, *texts: str) -> int:
    conversation, parent = store.create(), None
    for text in texts:
        parent = store.add(conversation, Role.USER, text, parent=parent).id
    # A title from the first message would be found where the message is not.
    store.rename(conversation, "_")
    return conversation


def found(hits: tuple[Hit, ...]) -> list[int]:
    return [hit.conversation for hit in hits]


def test_words_are_found_by_any_part(store: Store) -> None:
    sky = talk(store, "Why is the SKY blue?", "Rayleigh scattering")
    talk(store, "How do trains brake?")

    for query in ("sk", "sky", "sky bl", "blue sky", "ayleig", "rayl scat", "SKY"):
        assert found(store.search(query)) == [sky], query
    assert store.search("sky brake") == ()
    assert store.search("") == store.search("  ") == ()
    tokyo, code = talk(store, "今日は東京へ行きます"), talk(store, "std::vector<int> v{1, 2};")
    assert found(store.search("東京")) == found(store.search("東京へ行")) == [tokyo]
    assert found(store.search("vector<int>")) == found(store.search("v{")) == [code]


def test_a_tag_narrows_the_search(store: Store) -> None:
    sky, code = talk(store, "Why is the sky blue?"), talk(store, "#include <sky.h>")
    store.tag(sky, ["work", "physics"], [])
    store.tag(code, ["work"], [])

    assert found(store.search("#wo")) == found(store.search("#work sky")) == [code, sky]
    assert found(store.search("#phy blue")) == found(store.search("#PHYSICS #work")) == [sky]
    assert found(store.search("#physics include")) == found(store.search("#ork")) == []
    assert found(store.search("#include")) == [code], "text that is no tag"
    store.tag(sky, [], ["physics"])
    assert found(store.search("#phy")) == []
    assert store.load(store.fork(sky, store.load(sky).tree.path)).summary.tags == ("work",)


def test_short_words_are_found_in_any_case(store: Store) -> None:
    first = talk(store, "100% of C:\\temp\\a_b, caf\u00e9")
    second = talk(store, "\u0416\u0443\u043a and CAF\u00c9, lab")

    assert found(store.search("%")) == found(store.search("0%")) == [first]
    assert found(store.search("\\")) == found(store.search("_B")) == [first]
    assert sorted(found(store.search("f\u00e9"))) == sorted(found(store.search("\u00c9"))) == [first, second]
    assert found(store.search("\u0436")) == found(store.search("\u0416\u0423")) == [second]
    assert found(store.search("\u0416 nd")) == found(store.search("and \u0436\u0423")) == [second]
    assert store.search("%d") == store.search("__") == store.search("_k") == ()


def test_reasoning_titles_and_other_branches_are_searched(store: Store) -> None:
    conversation = store.create()
    asked = store.add(conversation, Role.USER, "Prove it.", parent=None)
    journal = store.answer(conversation, asked.id)
    journal.add("by contradiction", reasoning=True)
    journal.finish(State.COMPLETE, text="Done.")
    branch = store.add(conversation, Role.USER, "Disprove the lemma.", parent=None)
    store.rename(conversation, "Zorn")

    [thinking] = store.search("contradiction")
    assert thinking.excerpt.text == "by contradiction"
    [title] = store.search("zor")
    assert (title.message, title.excerpt.text) == (None, "Zorn")
    store.switch(conversation, asked.id)
    assert [hit.message for hit in store.search("lemma")] == [branch.id]


def test_a_conversation_is_one_hit_with_its_newest_message(store: Store) -> None:
    first = talk(store, "apple one", "apple two", "pear")
    second = talk(store, "apple three")
    hits = store.search("apple")

    assert sorted((hit.conversation, hit.excerpt.text) for hit in hits) == [
        (first, "apple two"),
        (second, "apple three"),
    ]
    assert len(store.search("apple", limit=1)) == 1


def test_the_index_follows_what_changes(store: Store) -> None:
    conversation = talk(store, "question")
    journal = store.answer(conversation, store.load(conversation).tree.leaf or 0)
    journal.add("a wombat")
    node = journal.finish(State.STOPPED)
    assert found(store.search("wombat")) == [conversation]
    more = store.resume(node.id)
    more.finish(State.COMPLETE, text="a quokka")
    assert store.search("wombat") == ()
    assert found(store.search("quokka")) == [conversation]
    store.delete(conversation)
    assert store.search("quokka") == ()


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""""',
        "a AND",
        "NEAR(a b)",
        "text:foo",
        "*",
        "foo*",
        "-foo",
        'say "hi"',
        '"say""',
        "(",
        "'; DROP TABLE messages; --",
        "%_%",
    ],
)
def test_a_query_is_plain_text(store: Store, query: str) -> None:
    here = talk(store, f"before {query} after")
    talk(store, "foo bar text messages near")

    assert found(store.search(query)) == [here]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text())
def test_any_text_can_be_searched_for(store: Store, query: str) -> None:
    store.search(query)


def test_an_excerpt_is_cut_at_words_around_the_first_hit() -> None:
    text = "word " * 40 + "the needle\nin " + "hay " * 40
    shown = excerpt(text, ["needle", "hay"])

    assert shown.text.startswith("…word word")
    assert shown.text.endswith("…")
    assert "\n" not in shown.text
    assert {shown.text[start:end] for start, end in shown.marks} == {"needle", "hay"}
    assert excerpt("short", ["x"]).text == "short"
    assert excerpt("short", ["x"]).marks == ()


def test_a_search_takes_few_database_steps_per_match() -> None:
    nodes = {n: Node(n, n - 1 or None, Role.USER, f"message {n} tells of trains") for n in range(1, 10_001)}
    store, n_thousand_steps = Store(), [0]
    store.insert([StoredConversation(Summary(0, "Long"), Tree(nodes, 10_000))])

    def count() -> None:
        n_thousand_steps[0] += 1

    store.database.connection.set_progress_handler(count, 1000)
    for query, most in (("message 9999", 5), ("trains", 300), ("tr", 300), ("nothing", 5)):
        n_thousand_steps[0] = 0
        store.search(query)
        assert n_thousand_steps[0] <= most, query
