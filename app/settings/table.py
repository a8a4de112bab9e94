"""The table of settings for command line, file and panel.

A setting's name in the file is its table and its key: `top_k` in `[sampling]` is `sampling.top_k`. Its flag is the key
with dashes, `--top-k`; flags of the table `[draft]` begin with draft, so that `draft.n_max` is `--draft-n-max`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from app.core.pictures import PictureLimits
from app.engine.sources import Source
from app.engine.types import MAX_DRAFT, MIN_MATCH, SAMPLING_BOUNDS, DraftParams, SamplingParams
from app.settings.kinds import Choice, Kind, Name, Number, Overrides, Several, Switch, Text, Texts, device, short_name
from app.settings.placement import KV_TYPES, MAX_LAYERS, MAX_OFFLOAD, share
from app.settings.setting import Setting

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
"""Kinds of drafts: a draft model, layers that read the target's hidden rows, only n-grams, or nothing."""
_KV_TYPES = ("auto", *KV_TYPES)
MAX_CONTEXT = 1 << 20
"""Longest context. A cell costs about 51 bytes besides the KV cache; with 2^30 cells llama.cpp failed after 43 s."""
MAX_THREADS = 512
"""Largest number of threads: with 4,096 a decode took 20 s."""
_MAX_MIB = 1 << 24
_LONGEST_PATH = 4096
"""Longest path in characters."""


def _setting(name: str, kind: Kind, text: str, *flags: str, **what: Any) -> Setting:
    table, _, key = name.rpartition(".")
    flag = f"--{'draft-' * (table == 'draft')}{key}".replace("_", "-")
    return Setting(name, kind, **{"default": kind.default, "text": text, "flags": (flag, *flags), **what})


def _draft(key: str, kind: Kind, text: str, **what: Any) -> Setting:
    default = getattr(DraftParams(), key)
    return _setting(f"draft.{key}", kind, text, default=default, more="fixed mode only", mode="fixed", **what)


def _sampling(
    key: str, text: str, metavar: str, step: float = 1, *, field: str | None = None, word: str = "", **what: Any
) -> Setting:
    field = field or key
    low, high = SAMPLING_BOUNDS[field]
    default = getattr(SamplingParams(), field)
    kind = Number(low, high, whole=not isinstance(default, float), word=word, step=step)
    return _setting(f"sampling.{key}", kind, text, default=default, metavar=metavar, field=field, **what)


def _picture_limit(key: str, high: float, default: float, text: str, metavar: str) -> Setting:
    return _setting(f"answer.picture_{key}", Number(1, high), text, default=default, metavar=metavar)


def _loaded(name: str, kind: Kind, text: str, metavar: str = "", **what: Any) -> Setting:
    return _setting(name, kind, text, metavar=metavar, needs_reload=True, **what)


def _cache_size(key: str, text: str, unset: str, more: str) -> Setting:
    kind = Number(0, _MAX_MIB, whole=True, word="auto", step=512)
    return _loaded(f"model.cache_{key}", kind, text, "MIB", unset=unset, more=more)


_DRAFT_LENGTH = Number(0, MAX_DRAFT, whole=True)
_LAYER_COUNT = Number(0, MAX_LAYERS, whole=True, word="auto", also=("all",))
_ON_OFF = Choice(("auto", "on", "off"))

SETTINGS: tuple[Setting, ...] = (
    _setting(
        "preset",
        Name("the name of a preset", word="none"),
        "named group of settings",
        more="overrides those of settings.toml",
        metavar="NAME",
    ),
    _setting(
        "draft.mode",
        Choice(MODES),
        "automatic, fixed or no drafting",
        "--drafting",
        more="auto: tune while running, disable if it does not help. fixed: use the numbers below. off: no drafting",
    ),
    _setting(
        "draft.source",
        Choice(("both", "model", "ngram"), former=(("lookup", "ngram"),)),
        "source of drafts in auto mode",
        more="the draft model, n-grams, or both",
        mode="auto",
    ),
    _loaded(
        "draft.type",
        Choice(DRAFT_TYPES),
        "kind of draft",
        "TYPE",
        more="auto uses the draft's file, else an MTP layer in the target's file",
    ),
    _draft("n_max", _DRAFT_LENGTH, "most tokens drafted per step"),
    _draft("n_min", _DRAFT_LENGTH, "fewest drafted tokens to verify"),
    _draft("p_min", Number(0, 1, step=0.05), "lowest probability of a drafted token", metavar="P"),
    _setting(
        "draft.ngram_min_match",
        Number(2, 16, whole=True),
        "shortest n-gram match, in tokens",
        default=MIN_MATCH,
        mode="auto",
    ),
    _loaded(
        "draft.device",
        Several("the name of one device (a draft is never split), or auto", device, most=1),
        "device of the draft model",
        "NAME",
    ),
    _loaded("draft.gpu_layers", _LAYER_COUNT, "layers of the draft model on the GPU", unset="all"),
    _loaded("draft.kv_type", Choice(_KV_TYPES), "type of the draft's KV cache", "TYPE", unset="f16"),
    _sampling("temp", "temperature; 0 is greedy", "T", 0.1, field="temperature"),
    _sampling("top_k", "K most probable tokens kept; 0 keeps all", "K"),
    _sampling("top_p", "top-p (nucleus) sampling; 1 keeps all", "P", 0.05),
    _sampling("min_p", "lowest probability relative to the top token", "P", 0.01),
    _sampling("typical_p", "locally typical sampling; 1 keeps all", "P", 0.05),
    _sampling("repeat_penalty", "divisor for logits of recent tokens; 1 is off", "X", 0.05),
    _sampling("frequency_penalty", "penalty per occurrence of a token; 0 is off", "X", 0.1),
    _sampling("presence_penalty", "penalty for a token that occurred; 0 is off", "X", 0.1),
    _sampling("repeat_last_n", "tokens that the penalties look back", "N", 16),
    _sampling("top_nsigma", "standard deviations below the top logit", "N", 0.1, field="top_n_sigma", more="0 is off"),
    _sampling("xtc_probability", "XTC: chance to remove top choices; 0 is off", "P", 0.05),
    _sampling("xtc_threshold", "XTC: lowest probability of a top choice", "P", 0.05),
    _sampling("dry_multiplier", "DRY: penalty for repeated sequences; 0 is off", "X", 0.1),
    _sampling("dry_base", "DRY: growth of the penalty per repeated token", "X", 0.05),
    _sampling("dry_allowed_length", "DRY: tokens that may repeat without a penalty", "N"),
    _sampling("dry_penalty_last_n", "DRY: tokens that it looks back", "N", 256),
    _sampling("dynatemp_range", "range of the dynamic temperature; 0 is off", "X", 0.1),
    _sampling("dynatemp_exp", "exponent of the dynamic temperature", "X", 0.1, field="dynatemp_exponent"),
    _sampling("mirostat", "version of Mirostat, 1 or 2; 0 is off", "N"),
    _sampling("mirostat_ent", "Mirostat: target entropy", "X", 0.1, field="mirostat_tau"),
    _sampling("mirostat_lr", "Mirostat: learning rate", "X", 0.05, field="mirostat_eta"),
    _sampling("seed", "random seed, for reproducible answers", "N", word="random", unset="new for every answer"),
    _setting("answer.system", Text(), "system prompt", unset="none"),
    _setting(
        "answer.max_tokens",
        Number(1, MAX_CONTEXT, whole=True, word="unlimited", step=64),
        "longest answer, in tokens",
        unset="as many as fit",
    ),
    _setting("answer.stop", Texts(), "text that ends the answer", unset="none"),
    _setting(
        "answer.context_full",
        Choice(("compact", "drop", "stop")),
        "action when the context is full",
        more="compact summarizes the oldest messages, drop leaves them out, stop ends the answer",
    ),
    _setting(
        "answer.tools",
        Several("names of MCP servers between commas, all or none", short_name, word="all", empty="none"),
        "MCP servers whose tools the model may call",
        metavar="NAMES",
        more="all takes those of mcp.json that are not disabled; tandem run uses none unless told",
    ),
    _setting(
        "answer.tool_rounds",
        Number(1, 1000, whole=True),
        "rounds of tool calls before Tandem asks you",
        default=25,
    ),
    _setting("answer.titles", Switch(), "conversation titles by the model", more="written after the first answer"),
    _setting("answer.stop_on_repeat", Switch(), "detection of answers that repeat themselves"),
    _picture_limit("size", 200, PictureLimits.megabytes, "largest picture in MB", "MB"),
    _picture_limit("pixels", 250, PictureLimits.megapixels, "largest picture in millions of pixels", "MILLIONS"),
    _picture_limit("ratio", 1000, PictureLimits.ratio, "longest side of a picture over its shortest", "RATIO"),
    _setting(
        "answer.thinking",
        _ON_OFF,
        "reasoning before the answer",
        more="auto follows the model's template",
        metavar="MODE",
    ),
    _setting(
        "answer.reasoning_effort",
        Choice(("auto", *EFFORTS)),
        "reasoning effort",
        more="only for models whose template has one",
        metavar="EFFORT",
    ),
    _loaded(
        "model.ctx",
        Number(8, MAX_CONTEXT, whole=True, word="auto", step=1024),
        "context size in tokens",
        unset="8k to 64k, by memory",
        more="rounded up to a multiple of 256; longer needs more memory",
    ),
    _loaded(
        "model.threads",
        Number(1, MAX_THREADS, whole=True, word="auto"),
        "CPU threads",
        unset="as measured, else the cores",
        more="a fixed number does not yield to other programs",
    ),
    _loaded(
        "model.device",
        Several("names of devices such as CUDA0,CUDA1, or cpu, or auto", device),
        "devices of the target",
        "NAMES",
        unset="the fastest",
        more="for example CUDA0,CUDA1 or cpu",
    ),
    _loaded(
        "model.gpu_layers",
        _LAYER_COUNT,
        "layers of the target on the GPU",
        unset="all",
        more="the others run on the CPU",
    ),
    _loaded(
        "model.n_cpu_moe",
        Number(0, MAX_LAYERS, whole=True, word="auto"),
        "layers of the target whose experts stay in RAM",
        unset="as few as fit",
    ),
    _loaded(
        "model.override_tensor",
        Overrides(),
        "devices of tensors by name",
        "PATTERN=DEVICE",
        unset="none",
        more="the first matching pattern decides",
    ),
    _loaded(
        "model.tensor_split",
        Several("numbers that are not negative, one for each device, such as 3,1, or auto", share),
        "share of the layers for each device",
        "SHARES",
        unset="by free memory",
    ),
    _loaded(
        "model.offload_min_batch",
        Number(1, MAX_OFFLOAD, whole=True, word="auto"),
        "op offload threshold in tokens",
        unset="as measured, else 32",
        more="GGML_OP_OFFLOAD_MIN_BATCH of llama.cpp; measured with the placement",
    ),
    _loaded(
        "model.mmproj",
        Name("auto, none, or the path of a GGUF file", longest=_LONGEST_PATH),
        "projector, which encodes pictures",
        "FILE",
        default="auto",
        more="auto takes the one in the target's folder, none reads no pictures",
    ),
    _loaded("model.kv_type", Choice(_KV_TYPES), "type of the target's KV cache", "TYPE", unset="f16"),
    _loaded("model.flash_attn", _ON_OFF, "flash attention; a quantized KV cache needs it", "MODE"),
    _loaded(
        "model.swa_full",
        _ON_OFF,
        "full-size cache for sliding windows",
        "MODE",
        unset="on, unless only off fits",
        more="off saves memory, but edits read more again",
    ),
    _cache_size("ram", "RAM for caches of other conversations, in MiB", "a quarter of what is free", "0 keeps none"),
    _cache_size(
        "disk", "disk space for caches of conversations, in MiB", "4,096, or 5% of what is free", "0 stores none"
    ),
    _loaded(
        "model.unload_after",
        Number(1, 10080, whole=True, word="never"),
        "minutes without a prompt before unloading",
        "MINUTES",
        unset="never",
    ),
    _loaded("model.fit", Choice(("auto", "off")), "check that the models fit before loading", "MODE"),
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
NUMBERS = tuple(setting.name for setting in SETTINGS if setting.mode == "fixed")
"""Parameters of fixed drafting; as flags they imply it."""
OF_AUTOMATIC = tuple(setting.name for setting in SETTINGS if setting.mode == "auto")
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
"""Names of settings by the spellings that people use."""


def nearest(name: str, among: Iterable[str] | None = None) -> str:
    """Return ' Did you mean "..."?' with a leading space, or "" if nothing is near.

    The known names are `among`, by default the names of the settings.
    """
    known = _NAME_BY_SPELLING if among is None else {one: one for one in among}
    close = difflib.get_close_matches(name, known, n=1)
    return f' Did you mean "{known[close[0]]}"?' if close else ""
