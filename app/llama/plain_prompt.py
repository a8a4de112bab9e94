"""Tokens of prompts without a chat template: text, token ids, or code with a gap to fill."""

from __future__ import annotations

from app.core.errors import UsageError
from app.engine.types import Infill, PlainPrompt
from app.llama.library import native
from app.llama.model import Model

_CODE_TOKENS = 2048
"""Limit for the code around a gap in tokens, like llama-server's default batch size."""
_PREFIX_SHARE = 0.75
"""Share of that code before the gap."""
_ANSWER_SHARE = 0.125
"""Share of the context that other files leave free."""
_PROJECT_NAME, _FILE_NAME = "myproject\n", "filename\n"
"""Names that llama-server writes into the prompt, so that both use the same cache."""
_SNIPPET_HEADING = "\n\n--- snippet ---\n\n"
"""Text before another file, for models without a token for it."""


def plain_tokens(model: Model, prompt: PlainPrompt, n_ctx: int) -> tuple[int, ...]:
    """Return the tokens of a prompt, with BOS first if the model expects it.

    Raises:
        UsageError: It has a token outside the vocabulary, or the model cannot fill gaps.
    """
    if isinstance(prompt, Infill):
        return tuple(_infill(model, prompt, n_ctx))
    tokens: list[int] = []
    for part in prompt.parts:
        tokens += [part] if isinstance(part, int) else model.tokenize(part, parse_special=True)
    model.check_tokens(tokens)
    if isinstance(prompt.parts[0] if prompt.parts else "", str):
        tokens = model.with_bos(tokens)
    return tuple(tokens)


def _marks(model: Model) -> tuple[int, int, int, int | None, int | None]:
    """Return the tokens before the prefix, the suffix and the gap, and before a repository and a file, if any."""
    names = ("pre", "suf", "mid", "rep", "sep")
    found = [getattr(native, f"llama_vocab_fim_{name}")(model.native_vocab) for name in names]
    prefix, suffix, middle, repository, file = (token if token >= 0 else None for token in found)
    if prefix is None or suffix is None or middle is None:
        raise UsageError(
            f"{model.name} cannot fill in code: its vocabulary has no tokens for it.", "Choose a model for code."
        )
    return prefix, suffix, middle, repository, file


def _infill(model: Model, gap: Infill, n_ctx: int) -> list[int]:
    """Return the prompt in llama-server's order: other files, then prefix, suffix and middle."""
    before_prefix, before_suffix, before_gap, before_repository, before_file = _marks(model)

    def text(value: str) -> list[int]:
        return model.tokenize(value, parse_special=False)

    files: list[int] = [] if before_repository is None else [before_repository, *text(_PROJECT_NAME)]
    for name, content in gap.files:
        files += text(_SNIPPET_HEADING) if before_file is None else [before_file, *text(f"{name}\n")]
        files += text(content)
    if before_file is not None:
        files += [before_file, *text(_FILE_NAME)]
    room = min(_CODE_TOKENS, n_ctx // 2)
    begun, n_prefix = text(gap.begun), int(_PREFIX_SHARE * room)
    prefix, suffix = text(gap.prefix)[-n_prefix:], text(gap.suffix)[: max(0, room - n_prefix - 2 - len(begun))]
    n_files = max(0, n_ctx - room - int(_ANSWER_SHARE * n_ctx))
    code = [before_prefix, *prefix, *begun, before_suffix, *suffix, before_gap]
    return model.with_bos([*(files[-n_files:] if n_files else []), *code])
