"""The table of settings that command line, file and panel read.

A setting's name in the file is its table and its key: `top_k` in `[sampling]` is `sampling.top_k`. Its flag is the key
with dashes, `--top-k`; flags of the table `[draft]` begin with draft, so that `draft.n_max` is `--draft-n-max`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from app.core.pictures import PictureLimits
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT, MIN_MATCH, SAMPLING_BOUNDS, DraftParams, SamplingParams
from app.settings.kinds import (
    AllOrNames,
    Choice,
    Kind,
    Name,
    Number,
    Overrides,
    Several,
    Switch,
    Text,
    Texts,
    Value,
    device,
    server_name,
    share,
)
from app.settings.placement import KV_TYPES, MAX_LAYERS, MAX_OFFLOAD

TABLES = {
    "": "Preset",
    "draft": "Drafting",
    "sampling": "Sampling",
    "answer": "Answer",
    "model": "Models and memory",
    "appearance": "Appearance",
}
"""The tables of the file and their titles, in the order of the panel."""

MODES = ("auto", "fixed", "off")
EFFORTS = ("low", "medium", "high", "max")
"""Reasoning efforts, lowest first."""
DRAFT_TYPES = ("auto", *(source.value for source in Source), "none")
"""Kinds of drafts: a draft model, layers that read the target's hidden rows, n-grams alone, or nothing."""
_KV_TYPES = ("auto", *KV_TYPES)
MAX_CONTEXT = 1 << 20
"""Each cell costs about 51 bytes before the KV cache itself; with 2^30 cells llama.cpp failed after 43 s."""
MAX_THREADS = 512
"""Most threads: with 4,096 one decode took 20 s."""
_MAX_MIB = 1 << 24
_LONGEST_PATH = 4096
"""Characters of a path."""
_FORMER_MAX_DRAFT = 64
"""Most drafted tokens of earlier versions."""
_MAX_SHOWN_CHARACTERS = 40
"""Characters of an invalid value in its error."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Table and key, with a dot between.
        kind: Type and range.
        text: Help in a few words, a noun phrase.
        more: Further help, such as what its values mean; "" for none.
        unset: Words for a default that is not a value.
        metavar: Placeholder of the value in the help.
        flags: Its flags, the first one named after it; () for none.
        field: Its field of `SamplingParams`; "" for none.
        needs_reload: The models must be loaded again.
        only_fixed: Used by fixed drafting only.
        only_auto: Used by automatic drafting only.
    """

    name: str
    kind: Kind
    default: Value
    text: str
    more: str = ""
    unset: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    field: str = ""
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
        """Its name among the options of a command."""
        return self.flags[0].lstrip("-").replace("-", "_") if self.flags else ""

    @property
    def in_conversation(self) -> bool:
        """A conversation may override it: it acts at once and concerns answers."""
        return self.is_for_answers and not self.needs_reload

    @property
    def in_preset(self) -> bool:
        """A preset may contain it."""
        return self.is_for_answers and bool(self.table)

    @property
    def is_for_answers(self) -> bool:
        """It has a flag, because it acts on answers and not on the program alone."""
        return bool(self.flags)

    @property
    def help(self) -> str:
        """The whole help."""
        return f"{self.text}; {self.more}" if self.more else self.text

    @property
    def shown_default(self) -> str:
        """The default in words."""
        return self.unset or self.kind.show(self.default)

    def display(self, value: Value) -> str:
        """Format a value as the command line and the panel show it."""
        # True equals 1 in Python, but not for a reader.
        is_default = value == self.default and type(value) is type(self.default)
        return (self.shown_default if is_default else self.kind.show(value)) or "none"

    def error(self, where: str, given: object) -> str:
        """Return the error for an invalid value."""
        text = given if isinstance(given, str) else repr(given)
        if len(text) > _MAX_SHOWN_CHARACTERS:
            text = f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"
        return f'{where} is "{text}"; it must be {self.kind.allowed}.'


def _setting(name: str, kind: Kind, default: Value, text: str, *flags: str, **what: Any) -> Setting:
    """Make a setting with its flag; `flags` are other spellings of it."""
    table, _, key = name.rpartition(".")
    flag = f"--{'draft-' * (table == 'draft')}{key}".replace("_", "-")
    made = Setting(name, kind, default, text, flags=(flag, *flags))
    return replace(made, **what)


def _draft(key: str, kind: Kind, text: str, **what: Any) -> Setting:
    return _setting(
        f"draft.{key}", kind, getattr(DraftParams(), key), text, more="fixed mode only", only_fixed=True, **what
    )


def _sampling(key: str, field: str, text: str, metavar: str, step: float = 1, word: str = "", **what: Any) -> Setting:
    low, high = SAMPLING_BOUNDS[field]
    default = getattr(SamplingParams(), field)
    kind = Number(low, high, whole=not isinstance(default, float), word=word, step=step)
    return _setting(f"sampling.{key}", kind, default, text, metavar=metavar, field=field, **what)


def _picture_limit(key: str, high: float, default: float, text: str, metavar: str) -> Setting:
    return _setting(f"answer.picture_{key}", Number(1, high), default, text, metavar=metavar)


def _placed(
    name: str, kind: Kind, text: str, metavar: str, unset: str = "", *, default: Value = None, more: str = ""
) -> Setting:
    return _setting(name, kind, default, text, metavar=metavar, unset=unset, more=more, needs_reload=True)


_DRAFT_LENGTH = Number(0, MAX_DRAFT, whole=True, former_high=_FORMER_MAX_DRAFT)
_LAYER_COUNT = Number(0, MAX_LAYERS, whole=True, word="auto", also=("all",))

SETTINGS: tuple[Setting, ...] = (
    _setting(
        "preset",
        Name("the name of a preset", word="none"),
        None,
        "named group of settings",
        more="overrides those of settings.toml",
        metavar="NAME",
    ),
    _setting(
        "draft.mode",
        Choice(MODES),
        "auto",
        "automatic, fixed or no drafting",
        "--drafting",
        more="auto: tune while running, disable if it does not help. fixed: use the numbers below. off: no drafting",
    ),
    _setting(
        "draft.source",
        Choice(("both", "model", "ngram"), former=(("lookup", "ngram"),)),
        "both",
        "source of drafts in auto mode",
        more="the draft model, n-grams, or both",
        only_auto=True,
    ),
    _placed(
        "draft.type",
        Choice(DRAFT_TYPES),
        "kind of draft",
        "TYPE",
        more="auto uses the draft's file, else an MTP layer in the target's file",
        default="auto",
    ),
    _draft("n_max", _DRAFT_LENGTH, "most tokens drafted per step", metavar="N"),
    _draft("n_min", _DRAFT_LENGTH, "fewest drafted tokens to verify", metavar="N"),
    _draft("p_min", Number(0, 1, step=0.05), "lowest probability of a drafted token", metavar="P"),
    _setting(
        "draft.ngram_min_match",
        Number(2, 16, whole=True),
        MIN_MATCH,
        "shortest n-gram match, in tokens",
        metavar="N",
        only_auto=True,
    ),
    _placed(
        "draft.device",
        Several("the name of one device (a draft is never split), or auto", device, most=1),
        "device of the draft model",
        "NAME",
    ),
    _placed("draft.gpu_layers", _LAYER_COUNT, "layers of the draft model on the GPU", "N", "all"),
    _placed("draft.kv_type", Choice(_KV_TYPES), "type of the draft's KV cache", "TYPE", "f16", default="auto"),
    _sampling("temp", "temperature", "temperature; 0 is greedy", "T", 0.1),
    _sampling("top_k", "top_k", "K most probable tokens kept; 0 keeps all", "K"),
    _sampling("top_p", "top_p", "top-p (nucleus) sampling; 1 keeps all", "P", 0.05),
    _sampling("min_p", "min_p", "lowest probability relative to the top token", "P", 0.01),
    _sampling("typical_p", "typical_p", "locally typical sampling; 1 keeps all", "P", 0.05),
    _sampling("repeat_penalty", "repeat_penalty", "divisor for logits of recent tokens; 1 is off", "X", 0.05),
    _sampling("frequency_penalty", "frequency_penalty", "penalty per occurrence of a token; 0 is off", "X", 0.1),
    _sampling("presence_penalty", "presence_penalty", "penalty for a token that occurred; 0 is off", "X", 0.1),
    _sampling("repeat_last_n", "repeat_last_n", "tokens that the penalties look back", "N", 16),
    _sampling("top_nsigma", "top_n_sigma", "standard deviations below the top logit", "N", 0.1, more="0 is off"),
    _sampling("xtc_probability", "xtc_probability", "XTC: chance to remove top choices; 0 is off", "P", 0.05),
    _sampling("xtc_threshold", "xtc_threshold", "XTC: lowest probability of a top choice", "P", 0.05),
    _sampling("dry_multiplier", "dry_multiplier", "DRY: penalty for repeated sequences; 0 is off", "X", 0.1),
    _sampling("dry_base", "dry_base", "DRY: growth of the penalty per repeated token", "X", 0.05),
    _sampling("dry_allowed_length", "dry_allowed_length", "DRY: tokens that may repeat without a penalty", "N"),
    _sampling("dry_penalty_last_n", "dry_penalty_last_n", "DRY: tokens that it looks back", "N", 256),
    _sampling("dynatemp_range", "dynatemp_range", "range of the dynamic temperature; 0 is off", "X", 0.1),
    _sampling("dynatemp_exp", "dynatemp_exponent", "exponent of the dynamic temperature", "X", 0.1),
    _sampling("mirostat", "mirostat", "version of Mirostat, 1 or 2; 0 is off", "N"),
    _sampling("mirostat_ent", "mirostat_tau", "Mirostat: target entropy", "X", 0.1),
    _sampling("mirostat_lr", "mirostat_eta", "Mirostat: learning rate", "X", 0.05),
    _sampling(
        "seed", "seed", "random seed, for reproducible answers", "N", word="random", unset="new for every answer"
    ),
    _setting("answer.system", Text(), None, "system prompt", metavar="TEXT", unset="none"),
    _setting(
        "answer.max_tokens",
        Number(1, MAX_CONTEXT, whole=True, word="unlimited", step=64),
        None,
        "longest answer, in tokens",
        metavar="N",
        unset="as many as fit",
    ),
    _setting("answer.stop", Texts(), (), "text that ends the answer", metavar="TEXT", unset="none"),
    _setting(
        "answer.context_full",
        Choice(("compact", "drop", "stop")),
        "compact",
        "action when the context is full",
        more="compact summarizes the oldest messages, drop leaves them out, stop ends the answer",
    ),
    _setting(
        "answer.tools",
        AllOrNames("names of MCP servers between commas, all or none", server_name),
        None,
        "MCP servers whose tools the model may call",
        metavar="NAMES",
        more="all takes those of mcp.json that are not disabled; tandem run uses none unless told",
    ),
    _setting(
        "answer.tool_rounds",
        Number(1, 1000, whole=True),
        25,
        "answers with calls in a row before Tandem asks",
        metavar="N",
    ),
    _setting(
        "answer.titles", Switch(), True, "conversation titles by the model", more="written after the first answer"
    ),
    _setting("answer.stop_on_repeat", Switch(), True, "detection of answers that repeat themselves"),
    _picture_limit("size", 200, PictureLimits.megabytes, "largest picture in MB", "MB"),
    _picture_limit("pixels", 250, PictureLimits.megapixels, "largest picture in millions of pixels", "MILLIONS"),
    _picture_limit("ratio", 1000, PictureLimits.ratio, "longest side of a picture over its shortest", "RATIO"),
    _setting(
        "answer.thinking",
        Choice(("auto", "on", "off")),
        "auto",
        "reasoning before the answer",
        more="auto follows the model's template",
        metavar="MODE",
    ),
    _setting(
        "answer.reasoning_effort",
        Choice(("auto", *EFFORTS)),
        "auto",
        "reasoning effort",
        more="only for models whose template has one",
        metavar="EFFORT",
    ),
    _placed(
        "model.ctx",
        Number(8, MAX_CONTEXT, whole=True, word="auto", step=1024),
        "context size in tokens",
        "N",
        "8k to 64k, by memory",
        more="rounded up to a multiple of 256; longer needs more memory",
    ),
    _placed(
        "model.threads",
        Number(1, MAX_THREADS, whole=True, word="auto"),
        "CPU threads",
        "N",
        "as measured, else the cores",
        more="a fixed number does not yield to other programs",
    ),
    _placed(
        "model.device",
        Several("names of devices such as CUDA0,CUDA1, or cpu, or auto", device),
        "devices of the target",
        "NAMES",
        "the fastest",
        more="for example CUDA0,CUDA1 or cpu",
    ),
    _placed(
        "model.gpu_layers",
        _LAYER_COUNT,
        "layers of the target on the GPU",
        "N",
        "all",
        more="the others run on the CPU",
    ),
    _placed(
        "model.n_cpu_moe",
        Number(0, MAX_LAYERS, whole=True, word="auto"),
        "layers of the target whose experts stay in RAM",
        "N",
        "as few as fit",
    ),
    _placed(
        "model.override_tensor",
        Overrides(),
        "devices of tensors by name",
        "PATTERN=DEVICE",
        "none",
        more="the first matching pattern decides",
        default=(),
    ),
    _placed(
        "model.tensor_split",
        Several("numbers that are not negative, one for each device, such as 3,1, or auto", share),
        "share of the layers for each device",
        "SHARES",
        "by free memory",
    ),
    _placed(
        "model.offload_min_batch",
        Number(1, MAX_OFFLOAD, whole=True, word="auto"),
        "op offload threshold in tokens",
        "N",
        "as measured, else 32",
        more="GGML_OP_OFFLOAD_MIN_BATCH of llama.cpp; measured with the placement",
    ),
    _placed(
        "model.mmproj",
        Name("auto, none, or the path of a GGUF file", longest=_LONGEST_PATH),
        "projector, which encodes pictures",
        "FILE",
        default="auto",
        more="auto takes the one in the target's folder, none reads no pictures",
    ),
    _placed("model.kv_type", Choice(_KV_TYPES), "type of the target's KV cache", "TYPE", "f16", default="auto"),
    _placed(
        "model.flash_attn",
        Choice(("auto", "on", "off")),
        "flash attention; a quantized KV cache needs it",
        "MODE",
        default="auto",
    ),
    _placed(
        "model.swa_full",
        Choice(("auto", "on", "off")),
        "full-size cache for sliding windows",
        "MODE",
        "on, unless only off fits",
        more="off saves memory, but edits read more again",
        default="auto",
    ),
    _placed(
        "model.cache_ram",
        Number(0, _MAX_MIB, whole=True, word="auto", step=512),
        "RAM for caches of other conversations, in MiB",
        "MIB",
        "a quarter of what is free",
        more="0 keeps none",
    ),
    _placed(
        "model.cache_disk",
        Number(0, _MAX_MIB, whole=True, word="auto", step=512),
        "disk space for caches of conversations, in MiB",
        "MIB",
        "4,096, or 5% of what is free",
        more="0 stores none",
    ),
    _placed(
        "model.unload_after",
        Number(1, 10080, whole=True, word="never"),
        "minutes without a prompt before unloading",
        "MINUTES",
        "never",
    ),
    _placed("model.fit", Choice(("auto", "off")), "check that the models fit before loading", "MODE", default="auto"),
    Setting(
        "model.folders",
        Texts(),
        (),
        "more folders with GGUF files",
        more="searched for models, beside those of LM Studio, Ollama and Hugging Face",
        unset="none",
    ),
    Setting("appearance.theme", Name("the name of a theme"), "tandem-dark", "color theme"),
    Setting("appearance.reduced_motion", Switch(), True, "scroll at once, without moving lines"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}
FORMER = {"draft.lookup_min_match": "draft.ngram_min_match"}
"""Earlier names of settings, still read."""
BY_DEST = {setting.dest: setting for setting in SETTINGS if setting.flags}
NUMBERS = tuple(setting.name for setting in SETTINGS if setting.only_fixed)
"""Parameters of fixed drafting; as flags they imply it."""
OF_AUTOMATIC = tuple(setting.name for setting in SETTINGS if setting.only_auto)
"""Parameters of automatic drafting only."""
_NAME_BY_SPELLING = {
    **{setting.key: setting.name for setting in SETTINGS},
    **{name: name for name in BY_NAME},
    **{name.rpartition(".")[2]: now for name, now in FORMER.items()},
    "temperature": "sampling.temp",
    "drafting.mode": "draft.mode",
    "context": "model.ctx",
    "effort": "answer.reasoning_effort",
}
"""Names of settings by what people write."""


def find(name: str) -> Setting | None:
    """Find a setting by its name, its flag, or its key where that is unambiguous."""
    word = name.strip().lstrip("-").replace("-", "_")
    word = FORMER.get(word, word)
    if word in BY_NAME or word in BY_DEST:
        return BY_NAME.get(word) or BY_DEST[word]
    found = [setting for setting in SETTINGS if setting.key == word]
    return found[0] if len(found) == 1 else None


def nearest(name: str, among: Iterable[str] | None = None) -> str:
    """Return ' Did you mean "..."?' with a leading space; "" if nothing is near.

    The known names are `among`, or those of the settings.
    """
    known = _NAME_BY_SPELLING if among is None else {one: one for one in among}
    close = difflib.get_close_matches(name, known, n=1)
    return f' Did you mean "{known[close[0]]}"?' if close else ""
