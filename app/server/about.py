"""Routes without answers: about the server, its model, its slot, its counters, and about tokens and prompts."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from app.server.chat import read_chat
from app.server.errors import RequestError
from app.server.fields import is_token, refuse
from app.server.messages import read_count
from app.server.service import Service, body_of, result_of
from app.worker.jobs import Query, prompt_text, text_of, token_count, tokens_of


async def health(request: Request, service: Service) -> Response:
    """Say that the server runs."""
    return JSONResponse({"status": "ok"})


async def home(request: Request, service: Service) -> Response:
    """Say in a browser what runs here; clients such as Claude Code ask whether the address answers."""
    return PlainTextResponse(f"Tandem serves {service.model}. The API's base URL ends in /v1.\n")


async def models(request: Request, service: Service) -> Response:
    """List the pair as a model, with the fields of OpenAI, Anthropic and llama-server."""
    name = service.model
    return JSONResponse(
        {"object": "list", "data": [_model(service)], "has_more": False, "first_id": name, "last_id": name}
    )


async def model(request: Request, service: Service) -> Response:
    """Return the pair as a model, if it has this name."""
    name = request.path_params["name"]
    if name != service.model:
        raise RequestError(f'There is no model "{name}".', f'The model is "{service.model}".', status=404)
    return JSONResponse(_model(service))


def _model(service: Service) -> dict[str, Any]:
    pair, name = service.queue.metrics.pair, service.model
    started = datetime.fromtimestamp(service.started, UTC)
    head = {"id": name, "object": "model", "created": int(service.started), "owned_by": "tandem"}
    head |= {"type": "model", "display_name": name, "created_at": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
    if pair is None:
        return head
    target = pair.target
    meta = {
        "n_ctx": pair.n_ctx,
        "n_ctx_train": target.n_ctx_train,
        "n_vocab": target.n_vocab,
        "size": target.size_bytes,
        "target": target.name,
        "draft": pair.draft.name if pair.draft is not None else None,
    }
    inputs = ["text", "image"] if pair.projector is not None else ["text"]
    modalities = {"input_modalities": inputs, "output_modalities": ["text"]}
    return {**head, "context_length": pair.n_ctx, "max_model_len": pair.n_ctx, "architecture": modalities, "meta": meta}


async def props(request: Request, service: Service) -> Response:
    """Return the properties that llama-server reports, as far as they exist here."""
    pair = service.queue.metrics.pair
    sampling = service.settings.sampling
    params = {name: getattr(sampling, name) for name in sampling.__dataclass_fields__}
    target = pair.target if pair is not None else None
    return JSONResponse(
        {
            "default_generation_settings": {"n_ctx": pair.n_ctx if pair is not None else 0, "params": params},
            "total_slots": 1,
            "model_alias": service.model,
            "model_path": target.file if target is not None else "",
            "chat_template": target.chat_template if target is not None else "",
            "bos_token": target.bos if target is not None else "",
            "eos_token": target.eos if target is not None else "",
            "modalities": {"vision": pair is not None and pair.projector is not None, "audio": False},
        }
    )


async def slots(request: Request, service: Service) -> Response:
    """Return the state of the engine as llama-server's only slot."""
    metrics = service.queue.metrics
    if "fail_on_no_slot" in request.query_params and metrics.n_running:
        raise RequestError("The only slot is in use.", "Try again later.", status=503)
    pair, stats = metrics.pair, metrics.current
    slot: dict[str, Any] = {
        "id": 0,
        "n_ctx": pair.n_ctx if pair is not None else 0,
        "speculative": pair is not None and pair.draft is not None,
        "is_processing": metrics.n_running > 0,
    }
    if stats is not None:
        slot |= {
            "n_prompt_tokens": stats.cache_n + stats.prompt_n,
            "n_prompt_tokens_processed": stats.prompt_n,
            "n_prompt_tokens_cache": stats.cache_n,
            "next_token": [{"has_next_token": metrics.n_running > 0, "n_decoded": stats.predicted_n}],
        }
    return JSONResponse([slot])


async def counters(request: Request, service: Service) -> Response:
    """Return the counters for Prometheus."""
    headers = {"Process-Start-Time-Unix": str(int(service.started))}
    text = service.queue.metrics.as_prometheus()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4", headers=headers)


async def count_tokens(request: Request, service: Service) -> Response:
    """Count the tokens of a request of Anthropic's API."""
    asked = read_count(await body_of(request), service.reading)
    return JSONResponse({"input_tokens": await result_of(request, service.queue, Query(partial(token_count, asked)))})


async def tokenize(request: Request, service: Service) -> Response:
    """Return the tokens of a text, as llama-server does."""
    fields = await body_of(request)
    content = fields.raw("content")
    parts = content if isinstance(content, list) else [content or ""]
    if not all(isinstance(part, str) or is_token(part) for part in parts):
        refuse("content", content, "a string, or an array of strings and token ids")
    parse_special = "parse_special" not in fields or fields.flag("parse_special")
    job = partial(tokens_of, parts, add_special=fields.flag("add_special"), parse_special=parse_special)
    tokens = await result_of(request, service.queue, Query(job))
    if fields.flag("with_pieces"):
        return JSONResponse({"tokens": [{"id": token, "piece": _piece(piece)} for token, piece in tokens]})
    return JSONResponse({"tokens": [token for token, _ in tokens]})


def _piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


async def detokenize(request: Request, service: Service) -> Response:
    """Return the text of tokens, as llama-server does."""
    fields = await body_of(request)
    tokens: list[Any] = fields.array("tokens")
    if not all(map(is_token, tokens)):
        refuse("tokens", tokens, "an array of token ids")
    return JSONResponse({"content": await result_of(request, service.queue, Query(partial(text_of, tokens)))})


async def apply_template(request: Request, service: Service) -> Response:
    """Return the prompt of a chat request as text, as llama-server does."""
    asked = read_chat(await body_of(request), service.reading)
    return JSONResponse({"prompt": await result_of(request, service.queue, Query(partial(prompt_text, asked)))})
