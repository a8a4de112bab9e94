"""Libraries that a command loads, and modules that import on every system; import-linter cannot check these."""

import inspect
from pathlib import Path
from pkgutil import resolve_name

import pytest

import app
from app.cli.command import Command, Group
from tests.cli.commands import every_command
from tests.tandem import run_python

HEAVY = {"llama_cpp", "textual", "numpy", "jinja2", "rich", "asyncio", "platformdirs"}


def loaded_by(code: str) -> set[str]:
    """Return the modules that are loaded after some code has run."""
    return set(run_python("-c", f"{code}\nimport sys; print(*sys.modules)").out.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (["--help"], HEAVY | {"hashlib"}),
        (["pairs", "list"], {"llama_cpp", "numpy", "huggingface_hub", "httpx2"}),
        (["pairs", "show", "demo"], {"llama_cpp", "numpy", "huggingface_hub", "httpx2"}),
    ],
    ids=["--help", "pairs list", "pairs show demo"],
)
def test_a_command_loads_only_its_own_libraries(words: list[str], forbidden: set[str]) -> None:
    code = f"from app.cli import main\ntry: main({words})\nexcept SystemExit: pass"

    assert not loaded_by(code) & forbidden


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("app.engine.generator", HEAVY - {"numpy"}),
        ("app.worker.responder", HEAVY - {"numpy"}),
        ("app.worker.engine_worker", HEAVY),
        ("app.models.catalog", {"llama_cpp", "textual"}),
        ("app.models.hub", {"email", "http"}),
        ("app.cli.options", {"llama_cpp", "textual", "rich", "numpy", "psutil", "filelock"}),
        ("app.worker.pair_loader", {"llama_cpp", "textual", "rich", "numpy", "psutil", "filelock"}),
        ("app.worker.loading", {"textual", "rich", "huggingface_hub", "httpx2", "filelock"}),
        ("app.ui.app, app.ui.models.setup_screen", {"huggingface_hub", "httpx2", "app.models.hub"}),
        ("app.llama", {"llama_cpp"}),
        ("app.llama.matcher", {"llama_cpp"}),
        ("app.server.app", {"llama_cpp", "llguidance", "numpy"}),
    ],
)
def test_a_module_loads_only_its_own_libraries(module: str, forbidden: set[str]) -> None:
    assert not loaded_by(f"import {module}") & forbidden


def test_only_packages_and_the_bindings_reexport_names() -> None:
    reexporting = {path for path in Path(app.__path__[0]).rglob("*.py") if "__all__ = " in path.read_text("utf-8")}

    assert {path.name for path in reexporting} <= {"__init__.py", "library.py"}


@pytest.mark.parametrize("command", [one for one in every_command() if not isinstance(one, Group)], ids=str)
def test_the_function_of_a_command_takes_its_options(command: Command) -> None:
    signature = inspect.signature(resolve_name(f"app.cli.{command.function}"))
    given = {param.name for param in command.params if param.expose_value}

    signature.bind(**dict.fromkeys(map(str, given)))
    own = {name for name, one in signature.parameters.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
    assert own <= given


def test_no_command_imports_another() -> None:
    modules = {command.function.partition(":")[0] for command in every_command() if not isinstance(command, Group)}
    importing = {
        (name, module)
        for name in modules
        for module in modules
        if f"from app.cli.{module} import" in Path(app.__path__[0], "cli", f"{name}.py").read_text("utf-8")
    }
    assert importing == set()


_FIRST_FRAME = """
import app.cli.chat
from app.core.paths import settings_file
from app.session.session import Session
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui import event_queue
from app.ui.app import TandemApp
from app.ui.models.opener import Opener
from app.worker.known_pairs import ProcessOptions

# Whatever waits for a while would happen at once, as on a busy machine.
event_queue._SAMPLE_S = 0.0
TandemApp._after_first_frame = TandemApp._leave
engine = type("Engine", (), {"cancel": lambda self: None})()
pairs = type("Pairs", (), {"close": lambda self, timeout: None})()
opener = Opener(LiveSettings(SettingsFile(settings_file())), None, ProcessOptions())
tools = type("Tools", (), {"question": None, "offer": lambda self, names: ""})()
session = Session(engine, "A pair", opener.live, tools, None, lambda emit: None)
TandemApp(session, event_queue.EventQueue(), opener, pairs).run(headless=True, size=(200, 60))
"""


def test_the_first_frame_loads_only_what_it_shows() -> None:
    later = {"llama_cpp", "numpy", "jinja2", "psutil", "filelock", "huggingface_hub", "httpx2", "sqlite3"}
    later |= {"markdown_it", "pygments", "pathspec", "email", "hashlib"}
    later |= {"app.engine.text.call_reader", "app.hardware.fit"}

    assert loaded_by(_FIRST_FRAME) & later == set()


# Libraries are imported first, because they choose their implementation by the real system.
_CODE = """
import importlib, os, pkgutil, signal, subprocess, sys, types
import asyncio, ctypes, mmap, multiprocessing, platform, selectors, shutil, socket, sqlite3, sysconfig, tempfile
import click, filelock, httpx2, jinja2, llama_cpp.mtmd_cpp, numpy, platformdirs, psutil, pygments, tomli_w
import huggingface_hub.file_download, huggingface_hub.hf_api, markdown_it
import starlette.middleware.cors, uvicorn.server
import textual.app, textual.command, textual.drivers.linux_driver, textual.screen, textual.theme, textual.widgets
import app

system = sys.platform = sys.argv[1]
missing = {os: ["sched_getaffinity"], signal: []}
if system == "win32":
    for name in ("fcntl", "termios", "resource", "pwd", "grp", "tty", "pty", "readline"):
        sys.modules[name] = None
    sys.modules["msvcrt"], sys.modules["winreg"] = types.ModuleType("msvcrt"), types.ModuleType("winreg")
    missing[os] += ["fork", "getloadavg", "getpriority", "getuid", "killpg", "mkfifo", "O_NONBLOCK", "preadv", "uname"]
    missing[signal] += ["SIGKILL", "SIGHUP", "SIGWINCH", "SIGTSTP", "SIGCONT", "SIGUSR1", "SIGALRM", "SIGQUIT"]
for module, names in missing.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for found in pkgutil.walk_packages(app.__path__, "app."):
    importlib.import_module(found.name)
"""


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_every_module_is_importable(system: str) -> None:
    assert run_python("-c", _CODE, system).err == ""
