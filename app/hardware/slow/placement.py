"""Causes in where a pair lies: memory, devices, KV caches."""

from __future__ import annotations

from app.core.units import memory_size
from app.hardware.device_room import MAIN
from app.hardware.pair_view import TARGET
from app.hardware.slow.situation import Cause, Situation

_WIDE_KV = ("f16", "bf16", "f32")

# Weights for the order of causes that nobody measured here, from reports in llama.cpp's own threads.
_WEIGHT_PAGED = 20.0
_WEIGHT_NO_GPU = 8.0
_WEIGHT_SOFTWARE = 60.0  # 3 against 186 t/s, 0.54 against 39, lavapipe
_WEIGHT_IN_PART = 6.0
_WEIGHT_DRAFT_ON_CPU = 2.3  # 45 against 103.9 t/s, llama.cpp#10664
_WEIGHT_KV = 1.8  # 81 against 45 t/s while drafting, llama.cpp#10552
_WEIGHT_SHORT = 1.3


def _paged(s: Situation) -> Cause | None:
    """Whether the pair needs more main memory than is free."""
    short = [need for need in s.pair.needs if need.need_bytes > need.free_bytes]
    if not short:
        return None
    need = short[0]
    where = "main memory" if need.device == MAIN else need.device
    text = (
        f"It needs {memory_size(need.need_bytes)} of {where}, and {memory_size(need.free_bytes)} are free: what does "
        "not fit is fetched again for every token, as a rule many times slower."
    )
    return Cause("memory", text, _WEIGHT_PAGED, measured=False, hint=s.pair.offers or ("  tandem setup",))


def _no_gpu(s: Situation) -> Cause | None:
    if not s.unused_card or not s.command:
        return None
    slower = "the graphics inside the processor" if s.card else "the processor"
    text = f"The {s.unused_card} is not used: this llama.cpp is built without support for it. As a rule, a card is "
    return Cause(
        "build",
        text + f"several times faster than {slower}.",
        _WEIGHT_NO_GPU,
        measured=False,
        hint=(f"  {s.command}",),
    )


def _on_cpu(s: Situation) -> Cause | None:
    """Whether a card that could be used is not, by a flag."""
    target = s.pair.target
    if not s.card or target is None or not target.on_cpu:
        return None
    text = f"All layers are on the processor, and {s.card} is there. As a rule, a card is several times faster."
    return Cause("target", text, _WEIGHT_NO_GPU, measured=False, hint=(f"  --device {s.card}",))


def _software(s: Situation) -> Cause | None:
    """Whether layers are on a card that the processor plays."""
    there = [m for m in s.pair.models if not m.on_cpu and set(m.device.split(", ")) & set(s.software)]
    if not there:
        return None
    flag = "--device" if there[0].role == TARGET else "--draft-device"
    text = (
        f"The {there[0].role} is on {there[0].device}, which is no card: the processor plays one there, as a rule tens "
        "of times slower than it computes otherwise."
    )
    return Cause("software", text, _WEIGHT_SOFTWARE, measured=False, hint=(f"  {flag} cpu",))


def _in_part(s: Situation) -> Cause | None:
    target = s.pair.target
    if target is None or not target.in_part:
        return None
    left = target.layers - target.layers_offloaded
    text = (
        f"{left} of {target.layers} layers of the target are on the processor, and every token waits for them. As a "
        "rule, drafting gains nothing then."
    )
    weight = 1 + _WEIGHT_IN_PART * left / target.layers
    hint = ("Make all of them fit:", "  --gpu-layers auto --ctx 4096", "  tandem setup")
    return Cause("layers", text, weight, measured=False, hint=hint)


def _draft_on_cpu(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None or target.on_cpu or draft.layers_offloaded == draft.layers:
        return None
    # Over a network a drafted token would wait for longer than it saves.
    if set(target.device.split(", ")) & set(s.software) or target.device.startswith("RPC"):
        return None
    where = "on the processor" if draft.on_cpu else "partly on the processor"
    text = f"The draft is {where}, the target on {target.device}. As a rule, the draft belongs on the card, whole."
    hint = (f"  --draft-device {target.device.split(', ')[0]}",)
    if s.measured is None or not s.measured.draft_ns:
        return Cause("draft", text, _WEIGHT_DRAFT_ON_CPU, measured=False, hint=hint)
    ratio = s.measured.draft_ns / s.measured.plain_ns
    text += f" A drafted token takes {ratio:.2f}× the time of a token without draft here."
    return Cause("draft", text, max(_WEIGHT_DRAFT_ON_CPU, 1 + ratio), measured=False, hint=hint)


def _kv(s: Situation) -> Cause | None:
    narrow = [model for model in s.pair.models if model.kv_type not in _WIDE_KV]
    if not narrow:
        return None
    model = narrow[0]
    text = (
        f"The KV cache of the {model.role} is {model.kv_type}. Reading it takes longer with every token; others have "
        "measured 81 tok/s with f16 against 45 with q8_0 while drafting."
    )
    flag = "--kv-type" if model.role == "target" else "--draft-kv-type"
    return Cause("KV cache", text, _WEIGHT_KV, measured=False, hint=(f"  {flag} f16",))


def _short(s: Situation) -> Cause | None:
    target, draft = s.pair.target, s.pair.draft
    if target is None or draft is None:
        return None
    trained = s.draft_n_ctx_train or draft.n_ctx
    reach = min(draft.n_ctx, trained)
    if reach >= target.n_ctx:
        return None
    text = (
        f"The draft reaches {reach:,} tokens back, the target {target.n_ctx:,}. Beyond that the draft's guesses are "
        "worth little, as a rule."
    )
    return Cause("context", text, _WEIGHT_SHORT, measured=False, hint=(f"  --ctx {reach}",))


LOOKS = (_paged, _no_gpu, _on_cpu, _software, _in_part, _draft_on_cpu, _kv, _short)
