"""What a measurement was made on: the facts that a later, slower one is held against, and that a card shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from app import __version__
from app.compare.history import Facts
from app.engine.types import AutoDraft, SamplingParams
from app.hardware import machine as hardware
from app.llama import devices
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.llama.params import ModelParams
from app.settings.placement import ALL_LAYERS
from app.settings.thinking import Thinking
from app.worker.request import AnswerRequest


def measured_on(
    pair: NativePair,
    params: PairParams,
    request: AnswerRequest,
    automatic: AutoDraft,
    suite: Iterable[Any] = (),
    told: dict[str, Any] | None = None,
) -> Facts:
    """Machine, build, files and settings.

    Args:
        pair: What is measured.
        params: How it was loaded.
        request: How it answers.
        automatic: How automatic drafting takes part.
        suite: What tells the prompts from others, besides the messages of the request.
        told: What a server said about itself.
    """
    machine, build, info = hardware.look(), devices.build(), pair.info
    whole = json.dumps(
        [[*(m.content for m in request.messages), *suite], request.max_tokens, request.sampling.is_greedy]
    )
    details = {
        "Tandem": __version__,
        "llama.cpp": " ".join(part for part in (build.version, build.commit) if part),
        "llama-cpp-python": build.binding,
        "backends": ", ".join(build.backends),
        "driver": ", ".join(f"{gpu.name}: {gpu.driver}" for gpu in machine.gpus if gpu.driver),
        "device": info.device,
        "target": f"{info.target.file}, {info.target.quantisation}",
        "draft": f"{info.draft.file}, {info.draft.quantisation}" if info.draft is not None else "",
        "context": f"{info.n_ctx:,}",
        "KV cache": _both(params.kv_type, params.draft_kv_type if info.draft is not None else ""),
        "flash attention": params.flash_attention,
        "GPU layers": _layers(params.model, params.draft_model if info.draft is not None else None),
        "threads": str(pair.n_threads),
        "threads for prompts": str(params.n_threads_batch or "") if params.n_threads_batch != params.n_threads else "",
        "automatic drafting": _automatic(automatic),
        "sampling": _sampling(request.sampling),
        "thinking": _thinking(request.thinking),
        # In ASCII and with what a terminal would obey in letters, for that is dropped where it is printed.
        "stops at": ", ".join(map(json.dumps, request.stops)),
        "server": ", ".join(map(str, (told or {}).values())),
    }
    return Facts(
        machine=", ".join([machine.cpu, *(gpu.name for gpu in machine.gpus)]),
        target=info.target.name,
        draft=info.draft.name if info.draft is not None else "",
        suite=hashlib.sha256(whole.encode()).hexdigest(),
        details={name: value for name, value in details.items() if value},
    )


def _both(target: str, draft: str) -> str:
    return f"{target}, draft {draft}" if draft and draft != target else target


def _layers(target: ModelParams, draft: ModelParams | None) -> str:
    """How many layers were asked to go to a device; "" where that is all of them."""
    given = [(name, model) for name, model in (("target", target), ("draft", draft)) if model is not None]
    return ", ".join(f"{name} {model.n_gpu_layers}" for name, model in given if model.n_gpu_layers != ALL_LAYERS)


def _automatic(auto: AutoDraft) -> str:
    parts = ["draft model"] * auto.model + [f"look-up from {auto.min_match} tokens"] * auto.lookup
    return " and ".join(parts)


def _sampling(sampling: SamplingParams) -> str:
    given = ((name, value) for name, value in asdict(sampling).items() if value is not None)
    return "greedy" if sampling.is_greedy else ", ".join(f"{name} {value:g}" for name, value in given)


def _thinking(asked: Thinking) -> str:
    """What is asked of it; "" where it is as the template has it. Nobody thinks hard who does not think."""
    wanted = {None: "", True: "on", False: "off"}[asked.wanted]
    effort = f"effort {asked.effort}" if asked.effort is not None and asked.wanted is not False else ""
    return ", ".join(filter(None, [wanted, effort]))
