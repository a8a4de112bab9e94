"""Where things live on this machine."""

from __future__ import annotations

from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("tandem", appauthor=False)


def config_dir() -> Path:
    """The user's own settings and catalogue."""
    return Path(_DIRS.user_config_dir)


def settings_file() -> Path:
    """The settings of all conversations."""
    return config_dir() / "settings.toml"


def cache_dir() -> Path:
    """What can be made again, such as the demo's draft model."""
    return Path(_DIRS.user_cache_dir)


def memory_dir() -> Path:
    """What automatic drafting has learned, a file a pair."""
    return Path(_DIRS.user_data_dir) / "drafting"


def pairs_file() -> Path:
    """The pairs that were set up, written by the program; the user's own catalogue is in `config_dir`."""
    return Path(_DIRS.user_data_dir) / "pairs.toml"


def conversations_file() -> Path:
    """Every conversation, in one SQLite database."""
    return Path(_DIRS.user_data_dir) / "conversations.db"


def log_file() -> Path:
    """Where the full-screen program writes what would spoil the screen."""
    return Path(_DIRS.user_log_dir) / "tandem.log"


def copied_file() -> Path:
    """What was copied last, for where the terminal's clipboard is out of reach."""
    return Path(_DIRS.user_data_dir) / "copied.txt"
