"""Errors of requests, in the format of the called API."""

from typing import Any

from app.core.errors import AppError, ContextOverflowError, DecodeError, PictureError, TemplateError, UsageError
from app.core.fixes import worded
from app.settings.table import BY_NAME

_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


class RequestError(AppError):
    """A request that cannot be answered.

    Attributes:
        retry_after_s: Seconds after which it may work; None for never.
        overflow: Tokens of the prompt and of the context, if it does not fit.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        status: int = 400,
        param: str | None = None,
        retry_after_s: int | None = None,
        overflow: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.param = param
        self.retry_after_s = retry_after_s
        self.overflow = overflow


def as_request_error(error: AppError) -> RequestError:
    """Convert an error of the engine to an error of its request."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ContextOverflowError):
        return RequestError(error.message, _in_flags(error.hint), overflow=(error.n_prompt, error.n_ctx))
    if isinstance(error, (UsageError, TemplateError, DecodeError)):
        is_ours = isinstance(error, DecodeError) and not isinstance(error, PictureError)
        return RequestError(_in_flags(error.message), _in_flags(error.hint), status=500 if is_ours else 400)
    # Other errors may name files of this machine.
    return RequestError("The models cannot answer now.", "See the terminal of tandem serve for the reason.", status=500)


def _in_flags(text: str) -> str:
    return worded(text, _words)


def _words(name: str, arguments: list[str]) -> str | None:
    if name in BY_NAME and BY_NAME[name].flags:
        return " ".join(["tandem serve", BY_NAME[name].flags[-1], *arguments])
    return None


def error_body(error: RequestError, path: str) -> dict[str, Any]:
    """Return the JSON of an error: Anthropic's below /v1/messages, or else OpenAI's."""
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    is_anthropic = path.startswith("/v1/messages")
    message, param = error.sentences, error.param
    more: dict[str, int] = {}
    if error.overflow is not None:
        n_prompt, n_ctx = error.overflow
        # Clients compress the conversation if they recognize these words of Anthropic's, llama-server's and OpenAI's.
        message = (
            f"prompt is too long: {n_prompt} tokens > {n_ctx} maximum."
            if is_anthropic
            else f"The request has {n_prompt} tokens, which exceeds the available context size ({n_ctx} tokens). "
            f"This model's maximum context length is {n_ctx} tokens."
        )
        message = f"{message} {error.hint}".rstrip()
        more = {"n_prompt_tokens": n_prompt, "n_ctx": n_ctx}
        param = "messages" if "chat" in path else "input" if path.endswith("/responses") else "prompt"
    if is_anthropic:
        return {"type": "error", "error": {"type": kind, "message": message, **more}}
    code = "context_length_exceeded" if error.overflow is not None else None
    return {"error": {"message": message, "type": kind, "param": param, "code": code, **more}}
