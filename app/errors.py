"""Every failure that a user, a file or the network can cause, as one tree.

AppError                 message for people, hint what to do, exit code
├── UsageError           the command line or a request is wrong (exit code 2)
├── CatalogError         a models.toml entry is wrong, or names no known pair
├── ModelFileError       a file is missing, cut short, or not a GGUF model that can be run
├── ModelLoadError       llama.cpp refused a model or a context
├── TemplateError        the chat template of a model cannot be rendered
├── ContextOverflowError the prompt alone is longer than the context
├── DecodeError          llama.cpp refused or failed a batch
└── StoppedError         the user stopped it before there was anything to keep (exit code 130)

`Interrupted` is apart: it is how a cancelled native call returns, never something to report as a failure.
"""


class AppError(Exception):
    """A failure with a sentence for the user and a way out.

    Args:
        message: What happened, as one plain sentence.
        hint: What the user can do about it; empty when there is nothing to add.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AppError):
    """The command line or a request asks for something that cannot be meant."""

    exit_code = 2


class CatalogError(AppError):
    """A catalogue entry is wrong, or a pair is not in any catalogue."""


class ModelFileError(AppError):
    """A model file is missing, cut short, or not something llama.cpp can run."""


class ModelLoadError(AppError):
    """llama.cpp refused to load a model or to make a context for it."""


class TemplateError(AppError):
    """A chat template cannot be rendered, or asked for more than a template may."""


class ContextOverflowError(AppError):
    """The prompt alone does not fit into the context."""


class DecodeError(AppError):
    """A batch was refused or failed in the native library."""


class StoppedError(AppError):
    """The user stopped something that leaves nothing behind, such as loading."""

    exit_code = 130


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked for it
    """Raised out of a native call, or between two, after a cancel was asked for."""
