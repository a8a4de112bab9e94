"""Routes about tokens and prompts: count, tokenize, detokenize, apply the chat template."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.server.chat import read_chat
from app.server.fields import is_token, refuse
from app.server.messages import read_count
from app.server.service import Service, body_of, result_of
from app.worker.token_jobs import Detokenize, PromptText, TokenCount, Tokenize


async def count_tokens(request: Request, service: Service) -> Response:
    """Count the tokens of a request of Anthropic's API."""
    asked = read_count(await body_of(request), service.settings)
    return JSONResponse({"input_tokens": await result_of(request, service.queue, TokenCount(asked))})


async def tokenize(request: Request, service: Service) -> Response:
    """Return the tokens of a text, as llama-server does."""
    fields = await body_of(request)
    content = fields.raw("content")
    parts = content if isinstance(content, list) else [content or ""]
    if not all(isinstance(part, str) or is_token(part) for part in parts):
        refuse("content", content, "a string, or an array of strings and token ids")
    parse_special = "parse_special" not in fields or fields.flag("parse_special")
    job = Tokenize(tuple(parts), fields.flag("add_special"), parse_special)
    tokens = await result_of(request, service.queue, job)
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
    return JSONResponse({"content": await result_of(request, service.queue, Detokenize(tuple(tokens)))})


async def apply_template(request: Request, service: Service) -> Response:
    """Return the prompt of a chat request as text, as llama-server does."""
    asked = read_chat(await body_of(request), service.settings)
    return JSONResponse({"prompt": await result_of(request, service.queue, PromptText(asked))})
