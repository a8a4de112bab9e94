"""Check a running server with independent clients: LiteLLM and the SDKs of OpenAI and Anthropic.

Usage, in an environment with `pip install litellm openai anthropic`:

    tandem serve --pair demo --no-draft --port 8087
    python tests/clients/check_python.py http://127.0.0.1:8087
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any
from urllib.request import Request, urlopen

ASKED = [{"role": "user", "content": "Name a color."}]
LONG = [{"role": "user", "content": "word " * 20_000}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION: dict[str, Any] = {"name": "weather", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": FUNCTION}
Check = Callable[[str], object]
CHECKS: dict[str, Check] = {}
"""Checks by name: each takes the server's address and returns whether the client got what it needs."""


def check(function: Check) -> Check:
    """Add a function to the checks."""
    CHECKS[function.__name__] = function
    return function


def openai(url: str) -> Any:
    return import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def anthropic(url: str) -> Any:
    return import_module("anthropic").Anthropic(base_url=url, api_key="none", max_retries=0)


@check
def openai_streams_with_usage(url: str) -> object:
    stream = openai(url).chat.completions.create(
        model="x", messages=ASKED, max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    return list(stream)[-1].usage.completion_tokens > 0


@check
def openai_calls_a_tool(url: str) -> object:
    answer = openai(url).chat.completions.create(
        model="x", messages=ASKED, tools=[TOOL], tool_choice="required", max_tokens=60
    )
    return answer.choices[0].message.tool_calls[0].function.name == "weather"


@check
def openai_gets_several_choices(url: str) -> object:
    return len(openai(url).chat.completions.create(model="x", messages=ASKED, max_tokens=4, n=2).choices) == 2


@check
def openai_completes_several_prompts(url: str) -> object:
    return len(openai(url).completions.create(model="x", prompt=["a", "b"], max_tokens=4).choices) == 2


@check
def openai_completes_token_ids(url: str) -> object:
    return openai(url).completions.create(model="x", prompt=[10, 11, 12], max_tokens=4).usage.prompt_tokens == 3


@check
def openai_finds_the_model(url: str) -> object:
    models = openai(url).models
    return models.retrieve(models.list().data[0].id).object == "model"


@check
def openai_streams_a_custom_tool(url: str) -> object:
    stream = openai(url).responses.create(
        model="x",
        input="Write a patch.",
        tools=[{"type": "custom", "name": "patch"}],
        tool_choice={"type": "custom", "name": "patch"},
        max_output_tokens=60,
        stream=True,
    )
    items = [event.item.type for event in stream if event.type == "response.output_item.added"]
    return set(items) == {"custom_tool_call"}


@check
def anthropic_counts_the_prompt_first(url: str) -> object:
    with anthropic(url).messages.stream(model="x", messages=ASKED, max_tokens=8) as stream:
        usage = next(event.message.usage for event in stream if event.type == "message_start")
        return usage.input_tokens + (usage.cache_read_input_tokens or 0) > 0


@check
def anthropic_sends_an_image_back(url: str) -> object:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    used = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    talk = [*ASKED, {"role": "assistant", "content": [used]}]
    talk += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}]}]
    return anthropic(url).messages.create(model="x", messages=talk, max_tokens=8).stop_reason is not None


def litellm_names_the_overflow(url: str, *, model: str, path: str) -> object:
    litellm: Any = import_module("litellm")
    litellm.suppress_debug_info = True
    asked = {"model": model, "api_base": f"{url}{path}", "api_key": "none", "messages": LONG, "max_tokens": 4}
    try:
        litellm.completion(**asked, num_retries=0)
    except litellm.ContextWindowExceededError:
        return True
    return False


for provider, path in {"openai": "/v1", "hosted_vllm": "/v1", "anthropic": ""}.items():
    CHECKS[f"litellm_names_the_overflow_of_{provider}"] = partial(
        litellm_names_the_overflow, model=f"{provider}/x", path=path
    )


CUSTOM = {"type": "custom", "custom": {"name": "patch"}}
CHAT = {"messages": ASKED, "max_tokens": 60, "logprobs": True, "top_logprobs": 1}
RESPONSE = {"input": "Name a color.", "max_output_tokens": 60, "include": ["message.output_text.logprobs"]}
ANTHROPIC_TOOL = {"name": "weather", "input_schema": PARAMETERS}
TYPED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "openai_types_of_a_chat": ("chat/completions", CHAT, "types.chat.ChatCompletion", "types.chat.ChatCompletionChunk"),
    "openai_types_of_a_call": (
        "chat/completions",
        {**CHAT, "tools": [TOOL, CUSTOM], "stream_options": {"include_usage": True}},
        "types.chat.ChatCompletion",
        "types.chat.ChatCompletionChunk",
    ),
    "openai_types_of_a_completion": (
        "completions",
        {"prompt": "One, two,", "max_tokens": 4, "logprobs": 1},
        "types.Completion",
        "types.Completion",
    ),
    "openai_types_of_a_response": (
        "responses",
        {**RESPONSE, "tools": [{"type": "function", "strict": False, **FUNCTION}, {"type": "custom", "name": "patch"}]},
        "types.responses.Response",
        "types.responses.ResponseStreamEvent",
    ),
    "anthropic_types_of_a_message": (
        "messages",
        {"messages": ASKED, "max_tokens": 60, "tools": [ANTHROPIC_TOOL], "thinking": {"type": "enabled"}},
        "types.Message",
        "types.RawMessageStreamEvent",
    ),
}
"""Routes, bodies, and the types of an SDK for the whole answer and the events of a stream."""


def types_fit(url: str, *, name: str) -> object:
    """Check that an answer and its stream have all fields that the types of an SDK require."""
    path, body, *types = TYPED[name]
    package, pydantic = import_module(name.split("_")[0]), import_module("pydantic")
    for is_stream, type_ in zip((False, True), types, strict=True):
        kind: Any = package
        for part in type_.split("."):
            kind = getattr(kind, part)
        data = json.dumps({**body, "stream": is_stream}).encode()
        with urlopen(Request(f"{url}/v1/{path}", data, {"Content-Type": "application/json"})) as response:
            text = response.read().decode()
        events = [line[6:] for line in text.splitlines() if line.startswith("data: {")] if is_stream else [text]
        for event in events:
            try:
                pydantic.TypeAdapter(kind).validate_json(event)
            except pydantic.ValidationError as error:
                # The types do not know every value that OpenAI itself sends, such as null for a reason to end.
                if missing := [one for one in error.errors() if one["type"] == "missing"]:
                    raise ValueError(f"{event} lacks {missing}") from None
    return len(events) > 1


for name in TYPED:
    CHECKS[name] = partial(types_fit, name=name)


def main() -> int:
    url, failed = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8087", 0
    for name, run in CHECKS.items():
        try:
            problem = "" if run(url) else "wrong answer"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:160]
        failed += bool(problem)
        print(f"{'FAILED' if problem else 'passed'}  {name.replace('_', ' ')}  {problem}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
