"""Exports of other programs: every branch, with its reasoning, its time and its model."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.conversations.importing import read_file
from app.conversations.message import Role
from app.conversations.tree import StoredConversation
from app.core.errors import AppError

NOON = 1_772_445_600.0
"""2026-03-02T10:00:00Z."""


def read(tmp_path: Path, raw: object, name: str = "x.json") -> tuple[StoredConversation, ...]:
    file = tmp_path / name
    file.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return read_file(file, now=0.0)


def path_of(conversation: StoredConversation) -> list[tuple[str, str]]:
    return [(node.role.value, node.text) for node in conversation.tree.path]


def chatgpt(key: str, role: str, said: object, parent: str | None, **content: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [said], **content}
    message = {"id": key, "author": {"role": role}, "create_time": NOON, "content": content}
    return {"id": key, "parent": parent, "message": {**message, "metadata": {"model_slug": "gpt-x"}}}


CHATGPT = {
    "title": "Rivers",
    "create_time": NOON,
    "current_node": "d",
    "mapping": {
        "root": {"id": "root", "message": None, "parent": None, "children": ["s"]},
        "s": chatgpt("s", "system", "", "root"),
        "a": chatgpt("a", "user", "Name a river.", "s"),
        "t": chatgpt("t", "assistant", "", "a", content_type="code", text="search()"),
        "u": chatgpt("u", "tool", "found", "t"),
        "d": chatgpt("d", "assistant", "The Rhine.", "u"),
        "b": chatgpt("b", "assistant", "The Danube.", "a"),
    },
}
CLAUDE = {
    "uuid": "c",
    "name": "Rivers",
    "chat_messages": [
        {
            "uuid": "1",
            "sender": "human",
            "text": "Name a river.",
            "content": [],
            "created_at": "2026-03-02T10:00:00.000Z",
        },
        {"uuid": "0", "sender": "human", "text": "", "content": []},
        {
            "uuid": "2",
            "sender": "assistant",
            "text": "",
            "content": [{"type": "thinking", "thinking": "Which?"}, {"type": "text", "text": "The Rhine."}],
            "created_at": "2026-03-02T10:00:00.000Z",
        },
    ],
}
OPEN_WEBUI = {
    "id": "1",
    "title": "Rivers",
    "chat": {
        "history": {
            "currentId": "c",
            "messages": {
                "a": {"id": "a", "parentId": None, "role": "user", "content": "Name a river.", "timestamp": NOON},
                "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "The Danube.", "model": "q"},
                "c": {"id": "c", "parentId": "a", "role": "assistant", "content": "The Rhine.", "timestamp": NOON},
            },
        }
    },
}
LM_STUDIO = {
    "name": "Rivers",
    "createdAt": NOON * 1000,
    "messages": [
        {
            "versions": [
                {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "Name a river."}]}
            ],
            "currentlySelected": 0,
        },
        {
            "versions": [
                {
                    "type": "multiStep",
                    "role": "assistant",
                    "steps": [
                        {
                            "type": "contentBlock",
                            "style": {"type": "thinking"},
                            "content": [{"type": "text", "text": "Which?"}],
                        },
                        {"type": "contentBlock", "content": [{"type": "text", "text": text}]},
                        {"type": "debugInfoBlock", "debugInfo": "x"},
                    ],
                }
                for text in ("The Rhine.", "The Danube.")
            ],
            "currentlySelected": 0,
        },
    ],
}
SHAREGPT = {"conversations": [{"from": "human", "value": "Name a river."}, {"from": "gpt", "value": "The Rhine."}]}
OPENAI = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Name a river."}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "found"},
        {"role": "assistant", "content": "The Rhine.", "reasoning_content": "Which?"},
    ]
}
LLM = {
    "conversation_id": "1",
    "conversation_name": "Rivers",
    "model": "q",
    "prompt": "Name a river.",
    "response": "The Rhine.",
    "reasoning": "Which?",
    "datetime_utc": "2026-03-02T10:00:00+00:00",
}


def in_web_ui(n: int, role: str, text: str, parent: int, **more: Any) -> dict[str, Any]:
    return {"convId": "c1", "id": n, "role": role, "content": text, "parent": parent, "timestamp": NOON * 1000, **more}


LLAMA_CPP = {
    "conv": {"id": "c1", "lastModified": 1, "currNode": 12, "name": "Rivers"},
    "messages": [
        in_web_ui(10, "system", "", -1, type="root"),
        in_web_ui(11, "user", "Name a river.", 10),
        in_web_ui(12, "assistant", "The Rhine.", 11, thinking="Which?"),
        in_web_ui(13, "assistant", "The Danube.", 11),
    ],
}


@pytest.mark.parametrize(
    ("raw", "title", "answers", "facts"),
    [
        pytest.param(CHATGPT, "Rivers", ["The Danube.", "The Rhine."], ("", NOON, "gpt-x"), id="ChatGPT"),
        pytest.param(CLAUDE, "Rivers", ["The Rhine."], ("Which?", NOON, None), id="Claude"),
        pytest.param(OPEN_WEBUI, "Rivers", ["The Danube.", "The Rhine."], ("", NOON, None), id="Open WebUI"),
        pytest.param(LM_STUDIO, "Rivers", ["The Danube.", "The Rhine."], ("Which?", 0.0, None), id="LM Studio"),
        pytest.param(LLAMA_CPP, "Rivers", ["The Danube.", "The Rhine."], ("Which?", NOON, None), id="llama.cpp"),
        pytest.param(SHAREGPT, "Name a river.", ["The Rhine."], ("", 0.0, None), id="ShareGPT"),
        pytest.param(LLM, "Rivers", ["The Rhine."], ("Which?", NOON, "q"), id="llm"),
    ],
)
def test_an_export_is_read_with_its_branches_reasoning_time_and_model(
    tmp_path: Path, raw: dict[str, Any], title: str, answers: list[str], facts: tuple[str, float, str | None]
) -> None:
    alone, in_a_list, in_lines = (
        read(tmp_path, raw),
        read(tmp_path, [raw]),
        read(tmp_path, f"{json.dumps(raw)}\n\n", "x.jsonl"),
    )
    assert alone == in_a_list == in_lines
    (found,) = alone
    last = found.tree.path[-1]
    assert path_of(found) == [("user", "Name a river."), ("assistant", "The Rhine.")]
    assert sorted(node.text for node in found.tree.siblings(last.id)) == answers
    assert (found.summary.title, last.reasoning, last.created, last.model) == (title, *facts)


def test_messages_of_the_api_leave_out_tools_and_images(tmp_path: Path) -> None:
    (found,) = read(tmp_path, OPENAI)
    assert path_of(found) == [("user", "Name a river.\n\n[image]"), ("assistant", "The Rhine.")]
    lines = "\n".join(json.dumps(message) for message in OPENAI["messages"])
    assert path_of(read(tmp_path, lines, "x.jsonl")[0]) == path_of(found)


def test_nodes_in_a_circle_or_without_a_parent_are_no_trap(tmp_path: Path) -> None:
    raw = json.loads(json.dumps(OPEN_WEBUI))
    messages = raw["chat"]["history"]["messages"]
    messages["x"] = {"id": "x", "parentId": "y", "role": "user", "content": "x"}
    messages["y"] = {"id": "y", "parentId": "x", "role": "tool", "content": "y"}
    messages["z"] = {"id": "z", "parentId": "gone", "role": "user", "content": "z"}
    (found,) = read(tmp_path, raw)
    assert {node.text for node in found.tree.nodes.values()} >= {"Name a river.", "The Rhine.", "z"}


EMPTY = {"format": "tandem-conversations", "version": 1, "conversations": [{"messages": []}]}


@pytest.mark.parametrize(
    "raw", [[], {}, {"a": 1}, {"messages": []}, [SHAREGPT, 5], {"mapping": {}}, {"chat": 5}, EMPTY]
)
def test_a_file_without_conversations_is_refused_and_names_the_programs(tmp_path: Path, raw: object) -> None:
    with pytest.raises(AppError, match="was not imported") as caught:
        read(tmp_path, raw)
    assert "ChatGPT, Claude, Open WebUI, LM Studio, llama.cpp's web UI, ShareGPT" in caught.value.hint


LLM_LOGS = """# 2026-03-02T10:00:00    conversation: 01jxyz id: 01jabc

Model: **gpt-x** (resolved: **gpt-x-1**)

## Prompt

Name a river.

## System

Be brief.

## Reasoning

<details><summary>Reasoning trace</summary>

Which?

</details>

## Response

# The Rhine

## Prompt

is a heading here.

## Token usage

3 input, 4 output

# 2026-03-02T10:01:00    conversation: 01jxyz id: 01jabd

Model: **gpt-x**

## Prompt

Another one?

## Response

The Danube.

# 2026-03-02T10:02:00    conversation: 01jother id: 01jabe

Model: **gpt-x**

## Prompt

Hello

## Response

Hi
"""


def test_logs_of_llm_are_conversations(tmp_path: Path) -> None:
    first, second = read(tmp_path, LLM_LOGS, "x.md")
    assert path_of(first) == [
        ("system", "Be brief."),
        ("user", "Name a river."),
        ("assistant", "# The Rhine\n\n## Prompt\n\nis a heading here."),
        ("user", "Another one?"),
        ("assistant", "The Danube."),
    ]
    answer = first.tree.path[2]
    assert (answer.reasoning, answer.model, answer.created) == ("Which?", "gpt-x", NOON)
    assert path_of(second) == [("user", "Hello"), ("assistant", "Hi")]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("## Prompt:\nA\n## Response:\nB\n## Prompt:\nC\n## Response:\nD", "uAaBuCaD"),
        ("## 👤 User\nA\n## 🤖 Claude\nB\n## 🤖 Claude\nC", "uAaBaC"),
        ("### User (10:15)\nA\n### Assistant - gpt-x\nB", "uAaB"),
        ("## You\nA\n## Answer\nB\n## Model\nb\n## You\nC\n## Answer\nD", "uAaB\n## Model\nbuCaD"),
        ("## You\nA\n## Answer\nB\n## Prompt\nb", "uAaB\n## Prompt\nb"),
        ("## You\nA\n# You\na\n## Answer\nB", "uA\n# You\naaB"),
        ("## You\nA\n## Model\na\n## Answer\nB\n## You\nC\n## Answer\nD", "uA\n## Model\naaBuCaD"),
        ("## You\nA\n## ChatGPT\nB\n## You\nC\n## Claude\nD", "uAaBuCaD"),
        ("## System\nS\n## You\nA\n## Answer\nB\n## System\nb", "sSuAaB\n## System\nb"),
    ],
)
def test_headings_inside_texts_change_no_speaker(tmp_path: Path, text: str, turns: str) -> None:
    (found,) = read(tmp_path, text, "x.md")
    assert "".join(f"{role[0]}{text}" for role, text in path_of(found)) == turns


def test_markdown_without_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AppError, match="begins an answer"):
        read(tmp_path, "## You\nA\n## Reply by me\nB", "x.md")


def test_samples_of_other_programs_are_read() -> None:
    samples = Path(__file__).parents[3] / "shared" / "cases"
    if not samples.is_dir():
        pytest.skip("the samples are not here")
    for name in ("D1_llm_logs.md", "D1_prompt_response.md"):
        (found,) = read_file(samples / name)
        assert [node.role for node in found.tree.path] == [Role.USER, Role.ASSISTANT] * 2
    (branches,) = read_file(samples / "D2_webui_branches.json")
    assert path_of(branches) == [("user", "Name a river."), ("assistant", "The Rhine.")]
    with pytest.raises(AppError, match="no conversation"):
        read_file(samples / "D3_empty.json")
