"""Read the fields of a request: unknown fields are ignored, wrong fields are errors that name them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn, TypeVar

from app.core.errors import UsageError
from app.core.pictures import without_marks
from app.engine.types import MAX_DRAFT, SAMPLING_BOUNDS, Drafting, DraftParams, Guidance, SamplingParams
from app.server.errors import RequestError
from app.settings.layers import Thinking
from app.settings.table import EFFORTS
from app.worker.request import AnswerRequest

T = TypeVar("T")
_MOST_STOPS = 256
MOST_TOP = 20
_MAX_NESTING = 64
"""Deepest nesting of a request, well below Python's recursion limit."""
_MAX_SEED = int(SAMPLING_BOUNDS["seed"][1])
_UNLIMITED = -1
"""llama-server's value for no limit."""
_UNTIL_CONTEXT = -2
"""llama-server's value of `n_predict` for an answer up to the end of the context, as every answer here."""
_MOST_LOOKED_BACK = int(SAMPLING_BOUNDS["repeat_last_n"][1])
_STRICT_FIELDS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
"""Fields that OpenAI refuses if out of range; llama-server accepts any number in the others."""
_EFFORT_NAMES = {"minimal": "low", "xhigh": "max", **{effort: effort for effort in EFFORTS}}


class Fields:
    """The fields of a JSON object. Every method raises RequestError for a wrong value; null is the default.

    Args:
        values: The object.
        path: Its place in the request, such as "messages[2].".
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path

    @classmethod
    def of(cls, value: object, path: str) -> Fields:
        """Return the fields of a nested object."""
        if not isinstance(value, dict):
            refuse(path, value, "an object")
        return cls(value, f"{path}.")

    def raw(self, name: str) -> Any:
        return self._values.get(name)

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self._path}{name}"

    def text(self, name: str, default: str = "") -> str:
        return self._typed(name, default, "a string")

    def flag(self, name: str) -> bool:
        return self._typed(name, False, "true or false")

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self.raw(name)
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        number = int_of(value) if is_number else None
        if number is None or not low <= number <= high:
            refuse(self.at(name), value, f"a whole number from {low} to {high}" if low < high else str(low))
        return number

    def array(self, name: str) -> list[Any]:
        return self._typed(name, [], "an array")

    def objects(self, name: str) -> list[Fields]:
        """Return the objects of an array."""
        return [Fields.of(value, f"{self.at(name)}[{n}]") for n, value in enumerate(self.array(name))]

    def object(self, name: str) -> Fields | None:
        value = self.raw(name)
        return None if value is None else Fields.of(value, self.at(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a string or an array of strings."""
        value = self.raw(name)
        found = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in found):
            refuse(self.at(name), value, "a string or an array of strings")
        return tuple(found)

    def number(self, name: str) -> int | float | None:
        value = self.raw(name)
        if isinstance(value, bool) or not (value is None or isinstance(value, (int, float))):
            refuse(self.at(name), value, "a number")
        return value

    def _typed(self, name: str, default: T, allowed: str) -> T:
        value = self.raw(name)
        if not isinstance(value, type(default) | None):
            refuse(self.at(name), value, allowed)
        return default if value is None else value


def refuse(path: str, value: object, allowed: str) -> NoReturn:
    """Raise the error for a wrong field."""
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
    raise RequestError(f"{path} is {shown}; it must be {allowed}.", param=path)


def int_of(value: float) -> int | None:
    """Convert a number to an int; None if it has a fraction."""
    return int(value) if math.isfinite(value) and value == int(value) else None


def read_body(data: bytes) -> Fields:
    """Return the fields of a request's body."""
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError("The body is nested too deeply.") from None
    except ValueError as error:
        raise RequestError(f"The body is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.")
    if _depth(value) > _MAX_NESTING:
        raise RequestError(f"The body is nested deeper than {_MAX_NESTING} levels.")
    text = json.dumps(value, ensure_ascii=False)
    # Escapes in JSON may contain half a surrogate pair, which no answer could repeat, or a mark of pictures.
    valid = without_marks(text).encode("utf-8", errors="replace")
    return Fields(value if valid.decode() == text else json.loads(valid))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level and depth <= _MAX_NESTING:
        depth += 1
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Names of fields that differ between the APIs; "text.format" is a field of the object `text`.

    Attributes:
        lengths: Token limits of an answer; the first given field counts.
        nested: Whether a function or a schema is in an object named by its type, as in OpenAI's chat API.
    """

    lengths: tuple[str, ...]
    stop: str = "stop"
    format: str = "response_format"
    effort: str = "reasoning_effort"
    messages: str = "messages"
    nested: bool = True

    def of_type(self, kind: str, name: str) -> str:
        """Return the path of a field of a function or a schema, which may be in an object named by its type."""
        return f"{kind}.{name}" if self.nested else name


def read_answer(given: Fields, default: AnswerRequest, names: FieldNames) -> AnswerRequest:
    """Return the request of the settings, changed by the fields of a client's request."""
    return replace(
        default,
        sampling=_sampling(given, default.sampling),
        drafting=_drafting(given, default.drafting),
        max_tokens=_max_tokens(given, names.lengths, default.max_tokens),
        stops=_stops(given, names.stop) or default.stops,
        thinking=_thinking(given, names.effort, default.thinking),
        guidance=_guidance(given, names),
        max_predict_ms=given.whole("t_max_predict_ms", -1, 1 << 30),
        cache_prompt="cache_prompt" not in given or given.flag("cache_prompt"),
    )


def _owner(given: Fields, path: str) -> tuple[Fields, str]:
    owner, _, name = path.rpartition(".")
    return (given.object(owner) or Fields({}, f"{owner}.")) if owner else given, name


def _sampling(given: Fields, default: SamplingParams) -> SamplingParams:
    names = [field.name for field in fields(SamplingParams)]
    found: dict[str, Any] = {name: value for name in names if (value := given.number(name)) is not None}
    for name in ("repeat_last_n", "dry_penalty_last_n"):
        if found.get(name) == _UNLIMITED:
            found[name] = _MOST_LOOKED_BACK
    for name in found.keys() - {*_STRICT_FIELDS, "seed"}:
        low, high = SAMPLING_BOUNDS[name]
        number = min(max(found[name], low), high)
        found[name] = int(number) if isinstance(high, int) else number
    if "seed" in found:
        seed = int_of(found["seed"])
        if seed is None:
            refuse("seed", found["seed"], "a whole number")
        # llama.cpp's seed has 32 bits, OpenAI's 64.
        found["seed"] = None if seed == _UNLIMITED else seed % (_MAX_SEED + 1)
    try:
        return replace(default, **found)
    except UsageError as error:
        raise RequestError(error.message, param=error.message.split(" ")[0]) from None


def _max_tokens(given: Fields, names: Sequence[str], default: int | None) -> int | None:
    for name in names:
        low = _UNTIL_CONTEXT if name == "n_predict" else _UNLIMITED
        if (n := given.whole(name, low, 1 << 30)) is not None:
            return None if n < 0 else n
    return default


def _drafting(given: Fields, default: Drafting) -> Drafting:
    """Return the drafting of an answer: fixed parameters if the request has some, as in llama-server."""
    nested = given.object("speculative") or Fields({})
    known = default if isinstance(default, DraftParams) else DraftParams()
    found: dict[str, float] = {}
    for name in (field.name for field in fields(DraftParams)):
        value = given.number(f"speculative.{name}")
        if (value := nested.number(name) if value is None else value) is not None:
            found[name] = value
    if not found:
        return default
    n_max = int(min(max(found.get("n_max", known.n_max), 0), MAX_DRAFT))
    n_min = int(min(max(found.get("n_min", known.n_min), 0), n_max))
    p_min = float(min(max(found.get("p_min", known.p_min), 0.0), 1.0))
    return DraftParams(n_max, n_min, p_min) if n_max else None


def _stops(given: Fields, name: str) -> tuple[str, ...]:
    stops = given.texts(name)
    if len(stops) > _MOST_STOPS:
        raise RequestError(f"{name} has {len(stops)} strings; the limit is {_MOST_STOPS}.", param=name)
    return stops


def _guidance(given: Fields, names: FieldNames) -> Guidance:
    """Return grammar and logit bias: the API's own format, or llama-server's `grammar` and `json_schema`."""
    holder, name = _owner(given, names.format)
    form = holder.object(name) or Fields({})
    owner, name, kind = given, "json_schema", form.text("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        refuse(form.at("type"), kind, "text, json_object or json_schema")
    if kind != "text":
        owner, name = (form.object("json_schema") if kind == "json_schema" else None) or form, "schema"
    # The schema true allows any JSON.
    schema = {} if owner.raw(name) is True else owner.raw(name)
    if schema is None and kind != "text":
        missing = form.at(names.of_type("json_schema", "schema"))
        schema = {"type": "object"} if kind == "json_object" else refuse(missing, None, "a JSON schema")
    if schema is not None and not isinstance(schema, dict):
        refuse(owner.at(name), schema, "a JSON schema that is an object or true")
    strict = owner.flag("strict") if kind != "text" else False
    grammar = given.text("grammar") or None
    if grammar and schema is not None:
        raise RequestError("Send grammar or a JSON schema, not both.", param="grammar")
    return Guidance(
        grammar, schema=schema, strict=strict, logit_bias=_logit_bias(given), ignores_end=given.flag("ignore_eos")
    )


def _logit_bias(given: Fields) -> tuple[tuple[int | str, float], ...]:
    value = given.raw("logit_bias")
    if not isinstance(value, dict | list | None):
        refuse("logit_bias", value, "an object or an array of pairs")
    pairs: Sequence[Any] = list(value.items()) if isinstance(value, dict) else value or ()
    out: list[tuple[int | str, float]] = []
    for pair in pairs:
        try:
            token, bias = pair
            # llama-server's false forbids a token; in an object, keys that are no ids are texts.
            number = -math.inf if bias is False else float(bias)
            what: int | str = int(token) if not isinstance(token, str) or token.lstrip("-").isdecimal() else token
        except (TypeError, ValueError, OverflowError):
            refuse("logit_bias", pair, "a token id or a text, and a number")
        if math.isnan(number) or (isinstance(what, int) and not is_token(what)):
            refuse("logit_bias", pair, "a token id or a text, and a number")
        out.append((what, number))
    return tuple(out)


def _thinking(given: Fields, path: str, default: Thinking) -> Thinking:
    """Return OpenAI's reasoning effort at this path, and `chat_template_kwargs` as in llama-server."""
    owner, name = _owner(given, path)
    effort = owner.text(name)
    if effort == "none":
        return Thinking(enabled=False)
    if effort and effort not in _EFFORT_NAMES:
        refuse(owner.at(name), effort, f"none or one of {', '.join(_EFFORT_NAMES)}")
    enabled = default.enabled
    if (more := given.object("chat_template_kwargs")) is not None and "enable_thinking" in more:
        enabled = more.flag("enable_thinking")
    return Thinking(enabled, _EFFORT_NAMES.get(effort, default.effort))


def is_token(value: object) -> bool:
    """Return whether a value is a valid number for a token id of llama.cpp."""
    return type(value) is int and 0 <= value < 1 << 31
