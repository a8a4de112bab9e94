"""Every failure that a user, a file or the network can cause, as one tree under `AppError`.

`Interrupted` is separate: a canceled native call raises it, and it is not reported as a failure.
"""

from typing import Any

INTERRUPTED = 130
"""Exit code of a command that the user stopped."""


STRUCTURE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of code that reads a document of another structure, such as damaged JSON."""


class AppError(Exception):
    """A failure for the user: a sentence about what failed, and a hint with the fix, which may be empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle would call the constructor without its keyword arguments.
        return Exception.__new__, (type(self), self.message), vars(self)

    @property
    def sentences(self) -> str:
        """Message and hint as one text."""
        return f"{self.message} {self.hint}".strip()


class UsageError(AppError):
    """The command line or a request is wrong."""

    exit_code = 2


class SettingsError(AppError):
    """The settings file cannot be read or written."""


class CatalogError(AppError):
    """models.toml has an invalid entry, or a list of pairs cannot be read or written."""


class HubError(AppError):
    """Hugging Face cannot be reached, refuses a request, or gives an invalid answer."""


class WaitError(HubError):
    """A temporary failure such as a rate limit; `after_s` is the wait that Hugging Face asks for, if any."""

    def __init__(self, message: str, hint: str = "", after_s: float | None = None) -> None:
        super().__init__(message, hint)
        self.after_s = after_s


class UnreachableError(WaitError):
    """The network does not respond; a long download waits for it."""


class HubTimeoutError(HubError):
    """A request to Hugging Face reached its deadline; another attempt would take as long."""


class NoRepositoryError(HubError):
    """Hugging Face has no such repository, or denies access to it."""


class FileChangedError(HubError):
    """The file of a pair was deleted or replaced on Hugging Face."""


class NoRevisionError(FileChangedError):
    """A repository has no branch, tag or commit of this name."""


class CacheError(HubError):
    """The folder of downloads cannot be read or written, or its disk is full."""


class PairError(AppError):
    """Two models are not compatible, or do not fit into memory."""


class DoesNotFitError(PairError):
    """A pair does not fit into memory; `offers` (see `app.hardware.offers`) would make it fit."""

    def __init__(self, message: str, offers: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.offers = offers


class StoreError(AppError):
    """The conversations cannot be read or stored."""


class ModelFileError(AppError):
    """A model file is missing, or not a GGUF model that llama.cpp can run."""


class DamagedFileError(ModelFileError):
    """A model file is truncated or damaged."""


class ModelLoadError(AppError):
    """llama.cpp refused to load a model or to create its context."""


class NoMemoryError(ModelLoadError):
    """Loading a model ran out of memory; `device` is its name in llama.cpp, or "cpu", if known."""

    def __init__(self, message: str, hint: str = "", device: str | None = None) -> None:
        super().__init__(message, hint)
        self.device = device


class TemplateError(AppError):
    """A chat template cannot be rendered, or exceeds its limits."""


class ContextOverflowError(AppError):
    """The target's input does not fit into the context.

    Attributes:
        whose: The text to shorten: "conversation"; "answer", if it is continued; "prompt", if it is too long even for
            an empty conversation, or "pictures", if they are most of it; "system" for the system prompt; "tools".
        n_prompt: Length of the whole prompt; `n_tokens` may count only its longest part.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        whose: str = "conversation",
        n_tokens: int = 0,
        n_prompt: int = 0,
        n_ctx: int = 0,
    ) -> None:
        super().__init__(message, hint)
        self.whose = whose
        self.n_tokens = n_tokens
        self.n_prompt = n_prompt
        self.n_ctx = n_ctx


class DecodeError(AppError):
    """llama.cpp refused a batch or failed to decode it."""


class PictureError(DecodeError):
    """A picture of a prompt is damaged."""


class ComputeError(DecodeError):
    """A batch failed during computation; the context may be unusable afterwards, as with Metal."""


class RemoteError(AppError):
    """An RPC server cannot be reached, or the address is no RPC server."""


class EngineLostError(AppError):
    """The process that runs the models ended or cannot be started."""


class StoppedError(AppError):
    """The user stopped an operation before it had a result, such as loading."""

    exit_code = INTERRUPTED


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked for it
    """Raised by a native call, or between two calls, after a cancellation."""
