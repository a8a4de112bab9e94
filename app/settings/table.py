"""The settings of Tandem, each once. Command line, file and panel read this list.

A setting's name in the file is its table and its key: `top_k` in `[sampling]` is `sampling.top_k`. Its flag is the key
with dashes, `--top-k`; flags of the table `[draft]` begin with draft, so that `draft.n_max` is `--draft-n-max`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.engine.types import MAX_DRAFT, MIN_MATCH, SAMPLING_BOUNDS, DraftParams, SamplingParams
from app.settings.kinds import Choice, Kind, Name, Number, Several, Switch, Text, Texts, Value, device, share
from app.settings.placement import KV_TYPES
from app.settings.thinking import EFFORTS

TABLES = {
    "": "Preset",
    "draft": "Drafting",
    "sampling": "Sampling",
    "answer": "Answer",
    "model": "Models and memory",
    "appearance": "Appearance",
}
"""The tables of the file and what stands above them, in the order of the panel."""

MODES = ("auto", "fixed", "off")
SOURCES = ("both", "model", "lookup")
_KV_TYPES = ("auto", *KV_TYPES)
MAX_CONTEXT = 1 << 20
MAX_THREADS = 512
_MAX_LAYERS = 9999


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Table and name, with a dot between.
        kind: What it takes.
        default: What counts if nobody says otherwise.
        text: What it does, in one line.
        besides: What the help of its flag says as well, where the panel has no room for it.
        unset: What its default means where it is no value.
        metavar: Stands for the value in the help.
        flags: Its flags, the first one named after it; empty if the command line does not know it.
        needs_reload: Whether the models must be loaded anew.
        only_fixed: Whether it matters for fixed drafting only.
        only_auto: Whether it matters for automatic drafting only.
    """

    name: str
    kind: Kind
    default: Value
    text: str
    unset: str = ""
    besides: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    needs_reload: bool = False
    only_fixed: bool = False
    only_auto: bool = False

    @property
    def table(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def key(self) -> str:
        """Its name within the table."""
        return self.name.rpartition(".")[2]

    @property
    def dest(self) -> str:
        """What argparse calls it."""
        return self.flags[0].lstrip("-").replace("-", "_") if self.flags else ""

    @property
    def in_conversation(self) -> bool:
        """Whether a conversation may have its own: it must act at once, and be about answers."""
        return not self.needs_reload and self.table != "appearance"

    @property
    def in_preset(self) -> bool:
        """Whether a preset may hold it."""
        return bool(self.table) and self.table != "appearance"

    @property
    def shown_default(self) -> str:
        """Its default in words."""
        return self.unset or self.kind.show(self.default)

    def said(self, value: Value) -> str:
        """A value in words, the same on the command line and in the panel."""
        # True and 1 are the same to Python, and not to a reader.
        if value == self.default and type(value) is type(self.default):
            return self.shown_default or _NOTHING
        return self.kind.show(value) or _NOTHING

    def wrong(self, where: str, given: object) -> str:
        """The sentence about a value that it does not take."""
        said = given if isinstance(given, str) else repr(given)
        said = said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…"
        return f'{where} is "{said}"; it must be {self.kind.allowed}.'


_SHOWN = 40
_NOTHING = "none"


def _setting(name: str, kind: Kind, default: Value, text: str, *more: str, **what: Any) -> Setting:
    """A setting with its flag; `more` are other spellings of it."""
    table, _, key = name.rpartition(".")
    flag = f"--{'draft-' * (table == 'draft')}{key}".replace("_", "-")
    made = Setting(name, kind, default, text, flags=(flag, *more))
    return replace(made, **what)


def _draft(key: str, kind: Kind, text: str, **what: Any) -> Setting:
    return _setting(f"draft.{key}", kind, getattr(DraftParams(), key), text, only_fixed=True, **what)


def _sampling(key: str, field: str, text: str, metavar: str, step: float = 1, word: str = "", **what: Any) -> Setting:
    low, high = SAMPLING_BOUNDS[field]
    default = getattr(SamplingParams(), field)
    kind = Number(low, high, whole=not isinstance(default, float), word=word, step=step)
    return _setting(f"sampling.{key}", kind, default, text, metavar=metavar, **what)


def _placed(
    name: str, kind: Kind, default: Value, text: str, metavar: str, unset: str = "", besides: str = ""
) -> Setting:
    return _setting(name, kind, default, text, metavar=metavar, unset=unset, besides=besides, needs_reload=True)


_LAYERS = Number(0, _MAX_LAYERS, whole=True, word="auto", also=("all",))

SETTINGS: tuple[Setting, ...] = (
    _setting(
        "preset",
        Name("the name of a preset", word="none"),
        None,
        "settings under one name, which go before those of the file",
        metavar="NAME",
    ),
    _setting(
        "draft.mode",
        Choice(MODES),
        "auto",
        "auto tunes itself, and stays off where it cannot gain; fixed uses the numbers below",
        "--drafting",
    ),
    _setting(
        "draft.source",
        Choice(SOURCES),
        "both",
        "who drafts in automatic mode: the draft model, the look-up in what was said, or both",
        only_auto=True,
    ),
    _draft("n_max", Number(0, MAX_DRAFT, whole=True), "most tokens drafted in a round; turns auto off", metavar="N"),
    _draft("n_min", Number(0, MAX_DRAFT, whole=True), "shorter drafts are not submitted; turns auto off", metavar="N"),
    _draft("p_min", Number(0, 1, step=0.05), "less probable tokens are not drafted; turns auto off", metavar="P"),
    _setting(
        "draft.lookup_min_match",
        Number(2, 16, whole=True),
        MIN_MATCH,
        "tokens that must agree for a look-up, which says how they went on",
        metavar="N",
        only_auto=True,
    ),
    _placed(
        "draft.device",
        Several("the name of one device (a draft is never split), or auto", device, most=1),
        None,
        "where the draft goes",
        "NAME",
    ),
    _placed("draft.gpu_layers", _LAYERS, None, "layers of the draft on the device", "N", "all"),
    _placed("draft.kv_type", Choice(_KV_TYPES), "auto", "type of the draft's KV cache", "TYPE", "f16"),
    _sampling("temp", "temperature", "temperature; 0 always takes the most probable token", "T", 0.1),
    _sampling("top_k", "top_k", "keep the K most probable; 0 keeps all", "K"),
    _sampling("top_p", "top_p", "keep the smallest set with probability P", "P", 0.05),
    _sampling("min_p", "min_p", "keep what has P of the top token's probability", "P", 0.01),
    _sampling("typical_p", "typical_p", "locally typical sampling; 1 keeps all", "P", 0.05),
    _sampling("repeat_penalty", "repeat_penalty", "divide the logits of recent tokens; 1 is off", "X", 0.05),
    _sampling("frequency_penalty", "frequency_penalty", "subtract per occurrence; 0 is off", "X", 0.1),
    _sampling("presence_penalty", "presence_penalty", "subtract once per token; 0 is off", "X", 0.1),
    _sampling("repeat_last_n", "repeat_last_n", "how far back the penalties look", "N", 16),
    _sampling(
        "seed",
        "seed",
        "of the random draw; the same seed gives the same text",
        "N",
        word="random",
        unset="a fresh one for every answer",
    ),
    _setting("answer.system", Text(), None, "system prompt", metavar="TEXT", unset="none"),
    _setting(
        "answer.max_tokens",
        Number(1, MAX_CONTEXT, whole=True, word="unlimited", step=64),
        None,
        "most tokens to generate",
        metavar="N",
        unset="as many as fit",
    ),
    _setting("answer.stop", Texts(), (), "end the answer before this text", metavar="TEXT", unset="none"),
    _setting("answer.stop_on_repeat", Switch(), True, "stop an answer that repeats itself"),
    _setting(
        "answer.thinking",
        Choice(("auto", "on", "off")),
        "auto",
        "think before the answer, of models that can; auto leaves it to the model's template",
        metavar="MODE",
    ),
    _setting(
        "answer.reasoning_effort",
        Choice(("auto", *EFFORTS)),
        "auto",
        "how hard to think, of models whose template asks for it",
        metavar="EFFORT",
    ),
    _placed(
        "model.ctx",
        Number(8, MAX_CONTEXT, whole=True, word="auto", step=1024),
        None,
        "tokens of a conversation that the models see at once, rounded up to a multiple of 256; more take memory",
        "N",
        "8,192 at most",
        "a whole conversation and its next answer must fit, in no more than the target was trained for",
    ),
    _placed(
        "model.threads",
        Number(1, MAX_THREADS, whole=True, word="auto"),
        None,
        "CPU threads; a number holds even while other programs need the processor",
        "N",
        "as measured, else the cores",
    ),
    _placed(
        "model.device",
        Several("names of devices such as CUDA0,CUDA1, or cpu, or auto", device),
        None,
        "where the target goes, such as CUDA0,CUDA1 or cpu",
        "NAMES",
        "where it is fastest",
    ),
    _placed("model.gpu_layers", _LAYERS, None, "layers of the target on the device, the others on the CPU", "N", "all"),
    _placed(
        "model.tensor_split",
        Several("numbers that are not negative, one for each device, such as 3,1, or auto", share),
        None,
        "share of the layers for each device",
        "SHARES",
        "by free memory",
    ),
    _placed("model.kv_type", Choice(_KV_TYPES), "auto", "type of the target's KV cache", "TYPE", "f16"),
    _placed(
        "model.flash_attn",
        Choice(("auto", "on", "off")),
        "auto",
        "flash attention; a quantised KV cache needs it",
        "MODE",
    ),
    _placed("model.fit", Choice(("auto", "off")), "auto", "off loads without counting the memory first", "MODE"),
    Setting("appearance.theme", Name("the name of a theme"), "tandem-dark", "the colours"),
    Setting("appearance.reduced_motion", Switch(), True, "what scrolls jumps at once; off moves it smoothly"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_DEST = {setting.dest: setting for setting in SETTINGS if setting.flags}
NUMBERS = tuple(setting.name for setting in SETTINGS if setting.only_fixed)
"""The parameters of fixed drafting: to give one means fixed drafting, unless a mode is given beside it."""
LENGTHS = ("draft.n_max", "draft.n_min")
"""Those of them that can contradict each other."""
OF_AUTOMATIC = tuple(setting.name for setting in SETTINGS if setting.only_auto)
"""The parameters of automatic drafting alone."""
_OTHERS = {
    "temperature": "sampling.temp",
    "drafting.mode": "draft.mode",
    "context": "model.ctx",
    "effort": "answer.reasoning_effort",
}
"""What else a setting may be looked for under."""


def find(name: str) -> Setting | None:
    """The setting that a person means: its name, its flag, or the part behind the dot where that is the only one."""
    word = name.strip().lstrip("-").replace("-", "_")
    if word in BY_NAME or word in BY_DEST:
        return BY_NAME.get(word) or BY_DEST[word]
    found = [setting for setting in SETTINGS if setting.key == word]
    return found[0] if len(found) == 1 else None


def given(names: Sequence[str]) -> str:
    """That these were given, as a clause."""
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} given"


def nearest(name: str, among: Iterable[str] | None = None) -> str:
    """A sentence that names what was probably meant, with a space in front; "" if nothing is near."""
    if among is None:
        if (other := _OTHERS.get(name) or _OTHERS.get(name.rpartition(".")[2])) is not None:
            return f' Did you mean "{other}"?'
        keys = {setting.key: setting.name for setting in SETTINGS}
        close = difflib.get_close_matches(name, list(BY_NAME), n=1)
        close = close or [keys[key] for key in difflib.get_close_matches(name, list(keys), n=1)]
    else:
        close = difflib.get_close_matches(name, list(among), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""
