"""Paths of settings, data, cache and logs."""

from __future__ import annotations

from pathlib import Path

from platformdirs import PlatformDirs

from app.core.errors import AppError

_DIRS = PlatformDirs("tandem", appauthor=False)


def config_dir() -> Path:
    """The user's own settings and catalogue."""
    return _folder("user_config_dir")


def settings_file() -> Path:
    """The settings of all conversations."""
    return config_dir() / "settings.toml"


def cache_dir() -> Path:
    """Files that can be made again, such as the demo's draft model."""
    return _folder("user_cache_dir")


def memory_dir() -> Path:
    """Measurements of automatic drafting, one file per pair."""
    return _folder("user_data_dir") / "drafting"


def benchmarks_dir() -> Path:
    """Results of benchmarks and comparisons, a file per pair and suite."""
    return _folder("user_data_dir") / "benchmarks"


def pairs_file() -> Path:
    """The pairs that were set up, written by the program; the user's own catalogue is in `config_dir`."""
    return _folder("user_data_dir") / "pairs.toml"


def conversations_file() -> Path:
    """Every conversation, in one SQLite database."""
    return _folder("user_data_dir") / "conversations.db"


def log_file() -> Path:
    """Return where the full-screen program writes what would spoil the screen."""
    return _folder("user_log_dir") / "tandem.log"


def copied_file() -> Path:
    """The last copied text, where the clipboard cannot be reached."""
    return _folder("user_data_dir") / "copied.txt"


def _folder(kind: str) -> Path:
    """A folder by platformdirs' name of its kind.

    Raises:
        AppError: The user has no home folder, as in some containers.
    """
    try:
        return Path(getattr(_DIRS, kind))
    except RuntimeError:
        raise AppError("This user has no home folder to keep anything in.", "Set HOME to a folder of yours.") from None
