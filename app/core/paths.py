"""Paths of settings, data, cache and logs."""

from pathlib import Path

from platformdirs import PlatformDirs

from app.core.errors import AppError

_PLATFORM_FOLDERS = PlatformDirs("tandem", appauthor=False)


def config_dir() -> Path:
    """Return the folder of the user's settings and catalog."""
    return _folder("user_config_dir")


def settings_file() -> Path:
    """Return the file with the settings of all conversations."""
    return config_dir() / "settings.toml"


def mcp_file() -> Path:
    """Return the file with the user's MCP servers."""
    return config_dir() / "mcp.json"


def cache_dir() -> Path:
    """Return the folder of files that can be recreated, such as the demo's draft model."""
    return _folder("user_cache_dir")


def states_dir() -> Path:
    """Return the folder with saved states of conversations, one folder per pair."""
    return cache_dir() / "states"


def server_file() -> Path:
    """Return the file with the address of this user's running server."""
    return cache_dir() / "server.json"


def memory_dir() -> Path:
    """Return the folder with measurements of automatic drafting, one file per pair."""
    return _folder("user_data_dir") / "drafting"


def benchmarks_dir() -> Path:
    """Return the folder with results of benchmarks, one file per pair."""
    return _folder("user_data_dir") / "benchmarks"


def pairs_file() -> Path:
    """Return the file with the registered pairs."""
    return _folder("user_data_dir") / "pairs.toml"


def allowed_tools_file() -> Path:
    """Return the file with the tools that the user always allows."""
    return _folder("user_data_dir") / "tools.json"


def conversations_file() -> Path:
    """Return the SQLite database of all conversations."""
    return _folder("user_data_dir") / "conversations.db"


def log_file() -> Path:
    """Return the log of the chat and the server."""
    return _folder("user_log_dir") / "tandem.log"


def _folder(kind: str) -> Path:
    """Return a folder by its name in platformdirs. Raises AppError if the user has no home folder."""
    try:
        return Path(getattr(_PLATFORM_FOLDERS, kind))
    except RuntimeError:
        raise AppError("This user has no home folder.", "Set HOME to one of your folders.") from None
