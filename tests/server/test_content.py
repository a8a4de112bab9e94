"""Pictures in the requests of each API; llama.cpp's test cases for a server without vision."""

import base64
import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from app.conversations.message import Role
from app.core.pictures import MARK, read_picture
from app.server.chat import read_chat
from app.server.errors import RequestError
from app.server.fields import Fields, read_body
from app.server.messages import read_anthropic
from app.server.responses import read_response
from app.settings.layers import DEFAULTS, Resolved
from app.worker.request import AnswerRequest
from tests.core.test_included import pdf
from tests.core.test_pictures import gif, png
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.server.conftest import Serve

CAT, DOG = png(4, 3), gif(40, 30)
URL, OTHER_URL = (read_picture(data).data_url for data in (CAT, DOG))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _chat_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}


def _anthropic_part(data: bytes, **more: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": _base64(data), **more}
    return {"type": "image", "source": source}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def chat(*content: Any, settings: Resolved = DEFAULTS) -> AnswerRequest:
    return read_chat(Fields({"messages": [{"role": "user", "content": list(content)}]}), settings)


def anthropic(*content: Any) -> AnswerRequest:
    used = [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    messages = [{"role": "assistant", "content": used}, {"role": "user", "content": list(content)}]
    return read_anthropic(Fields({"max_tokens": 1, "messages": messages}), DEFAULTS)


def _shown(request: AnswerRequest) -> tuple[list[str], list[bytes]]:
    """Return the contents of the user's messages and the pictures."""
    contents = [each.content for each in request.messages if each.role in (Role.USER, Role.TOOL)]
    assert sum(map(len, (message.pictures for message in request.messages))) == len(request.pictures)
    return contents, [each.data for each in request.pictures]


def test_every_api_takes_pictures() -> None:
    asked = chat(_text("What is"), _chat_part(URL), _text("and"), _chat_part(OTHER_URL))
    assert _shown(asked) == ([f"What is\n{MARK}\nand\n{MARK}"], [CAT, DOG])
    assert _shown(anthropic(_anthropic_part(CAT), _text("What?"))) == ([f"{MARK}\nWhat?"], [CAT])
    pages = {"type": "content", "content": [_text("Page 1"), _anthropic_part(CAT)]}
    assert _shown(anthropic({"type": "document", "source": pages})) == ([f"Page 1\n{MARK}"], [CAT])
    part = {"type": "input_image", "image_url": URL, "detail": "auto"}
    given = {"input": [{"role": "user", "content": [part, {"type": "input_text", "text": "What?"}]}]}
    assert _shown(read_response(Fields(given), DEFAULTS)) == ([f"{MARK}\nWhat?"], [CAT])


def test_pictures_of_results_come_in_the_order_of_the_messages() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [_text("seen"), _anthropic_part(DOG)]}
    asked = anthropic(_anthropic_part(CAT), result, _text("Same?"))
    assert _shown(asked) == ([f"seen\n{MARK}", f"{MARK}\nSame?"], [DOG, CAT])
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": URL}]}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    assert _shown(read_response(Fields({"input": [call, output]}), DEFAULTS)) == ([MARK], [CAT])


def test_a_result_with_a_picture_that_cannot_be_read_leaves_the_conversation_going() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [_anthropic_part(CAT[:-30])]}
    assert _shown(anthropic(result)) == (["[image left out: The picture is damaged or incomplete]"], [])


@pytest.mark.parametrize(
    ("part", "message", "param"),
    [
        (_chat_part("https://example.org/cat.png"), "is no data: URL; the server downloads nothing", "image_url.url"),
        (_chat_part("file:///etc/passwd"), "is no data: URL", "image_url.url"),
        (_chat_part("data:image/png;base64,!!"), "is not base64", "image_url.url"),
        (_chat_part("data:image/png;base64"), "is no data: URL", "image_url.url"),
        (_chat_part("data:image/png,plain"), "is in a format that Tandem cannot read", "image_url.url"),
        ({"type": "input_image", "file_id": "f1"}, "is the id of a stored file, and the server stores none", "file_id"),
        ({"type": "image_url", "image_url": None}, "is missing", "image_url.url"),
        ({"type": "input_image"}, "is missing", "image_url"),
        ({"type": "image", "source": {}}, "is missing", "source.data"),
        ({"type": "file"}, "is missing", "file.file_data"),
        (_chat_part("data:image/png;base64," + _base64(CAT[:-30])), "The picture is damaged", "image_url.url"),
        ({"type": "input_audio", "input_audio": {"data": ""}}, "Tandem reads text, pictures and documents", "type"),
    ],
)
def test_what_is_no_picture_is_refused(part: dict[str, Any], message: str, param: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        chat(_text("What?"), part)
    assert refused.value.param == f"messages[0].content[1].{param}"


@pytest.mark.parametrize(
    "url",
    [
        f"DATA:image/jpeg;name=cat.jpg;base64,{_base64(CAT)}",
        f"data:;base64,{base64.urlsafe_b64encode(CAT).decode().rstrip('=')}",
        "data:image/png;base64," + base64.encodebytes(CAT).decode().replace("\n", "\r\n "),
        f"data:image/png;base64,{quote(_base64(CAT), safe='')}",
        f"data:image/png,{quote(CAT)}",
        f' data:image/png;name="cat, mine.png"; base64,{_base64(CAT)}',
        f"data:,{quote(CAT)}",
    ],
)
def test_a_data_url_is_read_as_clients_write_it(url: str) -> None:
    assert _shown(chat(_chat_part(url))) == ([MARK], [CAT])


def test_the_pages_of_a_scanned_document_are_pictures() -> None:
    pytest.importorskip("kreuzberg")
    source = {"type": "base64", "media_type": "application/pdf", "data": _base64(pdf("", ""))}
    part = {"type": "document", "title": "a.pdf", "source": source}
    request = anthropic(part, _text("What?"))
    assert request.messages[-1].content == f"a.pdf\n{MARK}\n{MARK}\nWhat?"
    assert len(request.messages[-1].pictures) == 2
    with pytest.raises(RequestError, match="read text only"):
        chat(part, settings=DEFAULTS.over({"model.mmproj": "none"}))


def test_limits_are_those_of_the_settings() -> None:
    small = DEFAULTS.over({"answer.picture_pixels": 0.00001})
    with pytest.raises(RequestError, match=r"4 × 3 pixels; the limit is 1e-05") as refused:
        chat(_chat_part(URL), settings=small)
    assert "⟨" not in refused.value.sentences


def test_only_users_and_tools_show_pictures() -> None:
    for role in ("system", "assistant"):
        with pytest.raises(RequestError, match=f"a message of the role {role} takes text only"):
            read_chat(Fields({"messages": [{"role": role, "content": [_chat_part(URL)]}]}), DEFAULTS)


def test_a_character_that_would_stand_for_a_picture_is_removed() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [_text(f"a{MARK}"), _chat_part(URL)]}]})
    assert _shown(read_chat(read_body(body.encode()), DEFAULTS)) == ([f"a\n{MARK}"], [CAT])


def test_a_model_without_a_projector_says_so_everywhere(serve: Serve) -> None:
    server = serve()
    for path, name, part in (
        ("/v1/chat/completions", "messages", _chat_part(URL)),
        ("/v1/responses", "input", {"type": "input_image", "image_url": URL}),
        ("/v1/messages", "messages", _anthropic_part(CAT)),
    ):
        status, answer = server.post(path, {"max_tokens": 1, name: [{"role": "user", "content": [part]}]})
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        where = f'{name}[0].content[0].type is "{part["type"]}"'
        assert answer["error"]["message"].startswith(f"{where}; the loaded models read text only. Pictures need")
        assert "--mmproj" in answer["error"]["message"]
    assert server.get("/props")[1]["modalities"] == {"vision": False, "audio": False}
    assert server.get("/v1/models")[1]["data"][0]["architecture"]["input_modalities"] == ["text"]


def test_a_model_with_a_projector_reads_and_counts_pictures(serve: Serve) -> None:
    pair = FakePair(FakeModel(mixing(5), n_ctx=256))
    pair.info = replace(pair.info, projector="mmproj-F16.gguf")
    server = serve(pair)
    assert server.get("/props")[1]["modalities"] == {"vision": True, "audio": False}
    assert server.get("/v1/models")[1]["data"][0]["architecture"]["input_modalities"] == ["text", "image"]
    body = {"max_tokens": 1, "messages": [{"role": "user", "content": [_anthropic_part(CAT), _text("a")]}]}
    without = {"max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}
    (_, counted), (_, plain) = (server.post("/v1/messages/count_tokens", each) for each in (body, without))
    assert counted["input_tokens"] > plain["input_tokens"]
    status, answer = server.post("/v1/messages", body)
    assert status == 200
    assert answer["usage"]["input_tokens"] == counted["input_tokens"]
