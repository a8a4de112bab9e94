"""Every module can be imported on Windows and macOS, without anything that only Linux has."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Libraries are imported first, because they choose their implementation by the real system.
_CODE = """
import importlib, os, pkgutil, signal, subprocess, sys, types
import asyncio, ctypes, mmap, multiprocessing, platform, selectors, shutil, socket, sqlite3, sysconfig, tempfile
import click, filelock, httpx2, jinja2, llama_cpp, numpy, platformdirs, psutil, pygments, tomli_w
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
    done = subprocess.run([sys.executable, "-c", _CODE, system], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
