"""llama-server's own routes, in the shapes that its clients read."""

from typing import Any

import pytest

from app.engine.types import MAX_DRAFT, AutoDraft, DraftParams
from app.server.completions import read_native
from app.server.errors import RequestError
from app.server.fields import Fields
from app.settings.layers import DEFAULTS
from app.worker.jobs import Job
from tests.fakes import FakeModel, script
from tests.pairs import FakePair
from tests.server.conftest import UNDRAFTED, Serve, Server


def native(**more: Any) -> dict[str, Any]:
    return {"prompt": "hello", "n_predict": 6, **more}


def test_a_completion_has_llama_servers_fields(server: Server) -> None:
    answer = server.post("/completion", native(return_tokens=True, n_probs=2))[1]
    assert (answer["stop"], answer["stop_type"], answer["stopping_word"]) == (True, "limit", "")
    assert (answer["tokens_predicted"], answer["tokens_evaluated"], answer["tokens_cached"]) == (6, 5, 11)
    assert len(answer["tokens"]) == len(answer["completion_probabilities"]) == 6
    first = answer["completion_probabilities"][0]
    assert first["id"] == answer["tokens"][0] == first["top_logprobs"][0]["id"]
    assert answer["generation_settings"]["n_predict"] == 6
    assert answer["prompt"] == "hello"


def test_a_streamed_completion_ends_with_stop(server: Server) -> None:
    whole = server.post("/completions", native())[1]
    *chunks, last = [data for _, data in server.stream("/completions", native())]
    assert "".join(chunk["content"] for chunk in chunks) == whole["content"]
    assert sum(len(chunk["tokens"]) for chunk in chunks) == 6
    assert not any(chunk["stop"] for chunk in chunks)
    assert (last["stop"], last["content"], last["stop_type"]) == (True, "", "limit")


def test_a_stop_string_and_an_end_are_told_apart(serve: Serve) -> None:
    server = serve(FakePair(FakeModel(script([1, 2, 3], 5), n_ctx=64)))
    assert server.post("/completion", native())[1]["stop_type"] == "eos"
    answer = server.post("/completion", native(stop=["bc"]))[1]
    assert (answer["content"], answer["stop_type"], answer["stopping_word"]) == ("a", "word", "bc")


def test_only_the_selected_fields_are_returned(server: Server) -> None:
    names = ["content", "timings/prompt_n", "generation_settings/nothing"]
    assert server.post("/completion", native(response_fields=names))[1].keys() == {"content", "timings/prompt_n"}


def test_no_tokens_read_the_prompt_only(server: Server) -> None:
    answer = server.post("/completion", native(n_predict=0))[1]
    assert (answer["content"], answer["tokens_predicted"], answer["timings"]["prompt_n"]) == ("", 0, 5)
    assert server.post("/completion", native())[1]["timings"]["prompt_n"] == 1
    assert server.post("/completion", native(cache_prompt=False))[1]["timings"]["prompt_n"] == 5


@pytest.mark.parametrize(
    ("prompt", "n_tokens", "n_answers"),
    [
        ("hello", 5, 1),
        ([1, 2, 3], 3, 1),
        ([1, "ab", 3], 4, 1),
        ({"prompt_string": "ab"}, 2, 1),
        (["ab", "abc"], 2, 2),
        ([[1, 2], "ab", [1, "b"]], 2, 3),
    ],
)
def test_every_form_of_a_prompt_is_read(server: Server, prompt: object, n_tokens: int, n_answers: int) -> None:
    answer = server.post("/completion", native(prompt=prompt))[1]
    answers = answer if n_answers > 1 else [answer]
    assert [one["index"] for one in answers] == list(range(n_answers))
    assert answers[0]["tokens_evaluated"] == n_tokens
    choices = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 6})[1]["choices"]
    assert [choice["text"] for choice in choices] == [one["content"] for one in answers]


@pytest.mark.parametrize("prompt", [None, 5, [], [[]], [-1], [1 << 40], [None]])
def test_other_prompts_are_refused(server: Server, prompt: object) -> None:
    status, answer = server.post("/completion", native(prompt=prompt))
    # A fake model reads an empty prompt as nothing; a real model refuses it.
    assert status == 400 or prompt == [[]], answer


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": {"prompt_string": "<__media__>", "multimodal_data": ["aGk="]}},
        {"prompt": ["a", {"prompt_string": "<__media__>", "multimodal_data": ["aGk="]}]},
        {"image_data": [{"data": "aGk=", "id": 1}]},
    ],
)
def test_pictures_in_plain_prompts_are_refused_with_the_place_for_them(given: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="read in messages only") as refused:
        read_native(Fields(native(**given)), DEFAULTS)
    assert "/v1/chat/completions" in refused.value.sentences


def test_tokens_and_texts_convert(server: Server) -> None:
    assert server.post("/tokenize", {"content": "abc"}) == (200, {"tokens": [1, 2, 3]})
    pieces = server.post("/tokenize", {"content": [1, "b"], "with_pieces": True})[1]["tokens"]
    assert pieces == [{"id": 1, "piece": "a"}, {"id": 2, "piece": "b"}]
    assert server.post("/tokenize", {}) == (200, {"tokens": []})
    assert server.post("/detokenize", {"tokens": [1, 2, 3]}) == (200, {"content": "abc"})
    assert server.post("/detokenize", {"tokens": ["a"]})[0] == 400
    template = server.post("/apply-template", {"messages": [{"role": "user", "content": "hello"}]})
    assert template == (200, {"prompt": "hello"})


def test_code_is_filled_in(server: Server) -> None:
    gap = {"input_prefix": "ab", "input_suffix": "cd", "n_predict": 3}
    assert server.post("/infill", gap)[1]["tokens_evaluated"] == 4
    assert server.post("/infill", {**gap, "input_extra": [{"text": "x", "filename": "a.py"}]})[0] == 200
    for wrong in ({"input_extra": [{"filename": "ok"}]}, {"input_extra": [{"filename": 1, "text": "a"}]}):
        assert server.post("/infill", {**gap, **wrong})[0] == 400
    assert server.post("/infill", {"input_prefix": "ab"})[1]["error"]["param"] == "input_suffix"


@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions"])
def test_the_progress_of_a_prompt_is_streamed(server: Server, path: str) -> None:
    prompt = "a" * 40
    asked = {"prompt": prompt, "messages": [{"role": "user", "content": prompt}], "max_tokens": 2}
    events = [data for _, data in server.stream(path, {**asked, "return_progress": True})]
    progress = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    assert [(one["total"], one["cache"], one["processed"]) for one in progress][-1] == (40, 0, 40)
    assert [one["processed"] for one in progress] == sorted(one["processed"] for one in progress)
    assert not any("prompt_progress" in data for _, data in server.stream(path, asked))


def test_the_slot_shows_the_last_answer(server: Server) -> None:
    assert server.get("/slots")[1] == [{"id": 0, "n_ctx": 256, "speculative": True, "is_processing": False}]
    server.post("/completion", native())
    (slot,) = server.get("/slots?fail_on_no_slot=1")[1]
    assert (slot["n_prompt_tokens"], slot["next_token"][0]["n_decoded"]) == (5, 6)


def test_a_model_is_found_by_its_name(server: Server) -> None:
    status, model = server.get("/v1/models/fake")
    assert (status, model["id"], model["type"], model["display_name"]) == (200, "fake", "model", "fake")
    assert server.get("/v1/models/other/name")[1]["error"]["type"] == "not_found_error"


@pytest.mark.parametrize(
    ("asked", "drafting"),
    [
        ({}, AutoDraft()),
        ({"speculative.n_max": 0}, None),
        ({"speculative": {"n_max": 0}}, None),
        ({"speculative.n_max": 3, "speculative": {"p_min": 0.9}}, DraftParams(3, 0, 0.9)),
        ({"speculative.n_max": 999, "speculative.n_min": 1000}, DraftParams(MAX_DRAFT, MAX_DRAFT)),
        ({"speculative.p_min": 2}, DraftParams(p_min=1.0)),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/completion"])
def test_a_request_sets_its_own_drafting(serve: Serve, path: str, asked: dict[str, Any], drafting: object) -> None:
    server = serve(settings=UNDRAFTED.over({"draft.mode": "auto"}))
    seen: list[Any] = []
    run = server.queue.engine.run

    def noted(job: Job) -> int:
        seen.append(job.request.drafting)  # type: ignore[attr-defined]
        return run(job)

    server.queue.engine.run = noted  # type: ignore[method-assign]
    body = {"messages": [{"role": "user", "content": "a"}], "input": "a", "prompt": "a", "max_tokens": 1}
    assert server.post(path, {**body, **asked})[0] == 200
    assert seen == [drafting]
