"""Every failure that a user, a file or the network can cause, as one tree.

AppError                 message for people, hint what to do, exit code
├── UsageError           the command line or a request is wrong (exit code 2)
├── SettingsError        the settings file cannot be read, or not written
├── CatalogError         a models.toml entry is wrong, or a list of pairs cannot be read or written
├── HubError             Hugging Face cannot be reached, refuses, or answers nonsense
│   ├── WaitError        rate limited; the same request may succeed later
│   │   └── UnreachableError no answer; the network may come back
│   ├── HubTimeoutError  a Hugging Face request reached its deadline
│   └── CacheError       downloads cannot be written or read here
├── PairError            two models are not compatible, or do not fit
├── StoreError           the conversations cannot be read or kept on this disk
├── ModelFileError       a file is missing, or not a GGUF model that can be run
│   └── DamagedFileError it is one, and cut short or damaged
├── ModelLoadError       llama.cpp refused a model or a context
│   └── NoMemoryError    memory ran out while it was loaded
├── TemplateError        the chat template of a model cannot be rendered
├── ContextOverflowError what is to be read is longer than the context
├── DecodeError          llama.cpp refused or failed a batch
│   └── ComputeError     it failed while it was computed, and what is loaded may fail from here on
├── RemoteError          a server of remote devices is not there, or not what it should be
├── EngineLostError      the process that runs the models has ended
└── StoppedError         the user stopped it before there was anything to keep (exit code 130)

`Interrupted` is apart: it is how a cancelled native call returns, never something to report as a failure.
"""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code of what the user has stopped."""


class AppError(Exception):
    """A failure with a message and a fix for the user.

    Args:
        message: What happened, as one plain sentence.
        hint: What the user can do about it; empty when there is nothing to add.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def sentences(self) -> str:
        """Message and hint in one text."""
        return f"{self.message} {self.hint}".strip()


class UsageError(AppError):
    """The command line or a request asks for something that cannot be meant."""

    exit_code = 2


class SettingsError(AppError):
    """The settings file cannot be read, or cannot be written."""


class CatalogError(AppError):
    """A catalogue entry is wrong, or a list of pairs cannot be read or written."""


class HubError(AppError):
    """The hub, or the network on the way to it, did not give what was asked for."""


class WaitError(HubError):
    """A failure that may pass.

    Args:
        message: What happened.
        hint: What the user can do if it does not pass.
        after_s: Seconds that the hub asks to wait; None leaves it to us.
    """

    def __init__(self, message: str, hint: str = "", after_s: float | None = None) -> None:
        super().__init__(message, hint)
        self.after_s = after_s


class UnreachableError(WaitError):
    """Nothing answers in the place of the hub: anyone who has begun a long download waits until the network is back."""


class HubTimeoutError(HubError):
    """A Hugging Face request reached its deadline; another attempt would wait as long."""


class CacheError(HubError):
    """The folder that holds the hub's files refused, or is full."""


class PairError(AppError):
    """Two models that are not compatible, or do not fit into this machine."""


class StoreError(AppError):
    """The conversations cannot be read, or cannot be kept on this disk."""


class ModelFileError(AppError):
    """A model file is missing, cut short, or not something llama.cpp can run."""


class DamagedFileError(ModelFileError):
    """The named file is a model, but truncated or damaged."""


class ModelLoadError(AppError):
    """llama.cpp refused to load a model or to make a context for it."""


class NoMemoryError(ModelLoadError):
    """Memory ran out while a model was loaded.

    Args:
        message: What happened.
        hint: What the user can do.
        device: Whose memory, by llama.cpp's name or "cpu"; "" if that is not known.
    """

    def __init__(self, message: str, hint: str = "", device: str = "") -> None:
        super().__init__(message, hint)
        self.device = device


class TemplateError(AppError):
    """A chat template cannot be rendered, or asked for more than a template may."""


class ContextOverflowError(AppError):
    """The input of the target does not fit into the context.

    Args:
        message: What happened.
        hint: What the user can do.
        whose: What is to be shorter: "conversation"; "answer", one that is to go on; "prompt", where it would not fit
            into an empty conversation either; "system", where it would without a system prompt; "file", that it names.
        n_tokens: What would have to fit.
    """

    def __init__(self, message: str, hint: str = "", *, whose: str = "conversation", n_tokens: int = 0) -> None:
        super().__init__(message, hint)
        self.whose = whose
        self.n_tokens = n_tokens


class DecodeError(AppError):
    """A batch was refused or failed in the native library."""


class ComputeError(DecodeError):
    """A batch failed while it was computed. Metal computes nothing more for a context that it has failed once."""


class RemoteError(AppError):
    """A server of remote devices cannot be reached, or is not what it should be."""


class EngineLostError(AppError):
    """The process that runs the models has ended, or cannot be started."""


class StoppedError(AppError):
    """The user stopped something that leaves nothing behind, such as loading."""

    exit_code = INTERRUPTED


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked for it
    """Raised out of a native call, or between two, after a cancel was asked for."""
