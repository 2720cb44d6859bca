"""Data files of packages: a component has no files of its own, so that what a package reads beside its modules is kept in memory."""

from __future__ import annotations

import builtins
import importlib
import importlib.resources
import io
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.resources.abc import Traversable, TraversableResources
from typing import Any

#: Maximum size of all data files together, in bytes. They are part of the memory of each call.
MAX_BYTES = 8 << 20
#: Endings of files that are no data.
CODE = (".py", ".pyc", ".pyi", ".pyd", ".so", ".c", ".h", ".pyx", "py.typed")
#: Folders without data that a tool reads.
UNUSED = ("__pycache__", "tests", "test")

#: The files, by their paths.
_files: dict[str, bytes] = {}
#: The folders of the packages.
_folders: set[str] = set()


class Entry(Traversable):
    """A file or folder that was kept."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return os.path.basename(self._path)

    def is_file(self) -> bool:
        return self._path in _files

    def is_dir(self) -> bool:
        return self._path in _folders

    def iterdir(self) -> Iterator[Entry]:
        inside = {path for path in (*_files, *_folders) if os.path.dirname(path) == self._path}
        return iter([Entry(path) for path in sorted(inside)])

    def joinpath(self, *names: Any) -> Entry:
        return Entry(os.path.normpath(os.path.join(self._path, *map(str, names)))) if names else self

    __truediv__ = joinpath

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not self.is_file():
            raise FileNotFoundError(self._path)
        file = io.BytesIO(_files[self._path])
        return file if "b" in mode else io.TextIOWrapper(file, *arguments, **{"encoding": "utf-8", **options})

    def __str__(self) -> str:
        return self._path


class Reader(TraversableResources):
    """The data files of one package, for `importlib.resources`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def files(self) -> Entry:
        return Entry(self._folder)


def keep() -> None:
    """Keeps the data files of the packages that were imported, and lets them be read as files.

    Called while the component is built, at its end.
    """
    if "zoneinfo" in sys.modules:
        # It looks there for time zones.
        _keep_package("tzdata")
    roots = {name.partition(".")[0] for name in sys.modules}
    for root in sorted(roots - sys.stdlib_module_names - {__package__}):
        _keep_package(root)
    size = sum(map(len, _files.values()))
    if size > MAX_BYTES:
        print(f"the data files of packages have {size} bytes; at most {MAX_BYTES} become part of a component, so that they are left out", file=sys.stderr)
        _files.clear()
    if _files:
        _install()
        # Python imports parts of this when it is first used.
        importlib.resources.files(__package__).joinpath("py.typed").is_file()


def _keep_package(name: str) -> None:
    try:
        folders = list(getattr(importlib.import_module(name), "__path__", []))
    except ImportError:
        return
    for top in folders:
        for folder, inner, files in os.walk(top):
            inner[:] = [one for one in inner if one not in UNUSED]
            data = [file for file in files if not file.endswith(CODE)]
            _folders.add(folder)
            for file in data:
                with open(os.path.join(folder, file), "rb") as opened:
                    _files[os.path.join(folder, file)] = opened.read()
            if data and "__init__.py" in files and folder != top:
                # So that it can be named as a package later.
                inside = os.path.relpath(folder, top).replace(os.sep, ".")
                _try_import(f"{name}.{inside}")


def _try_import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # It is not for WebAssembly, or no package.
        pass


def _install() -> None:
    """Lets loaders and `open` find the files."""
    get_data = SourceFileLoader.get_data
    SourceFileLoader.get_data = lambda self, path: _files[path] if path in _files else get_data(self, path)  # type: ignore[method-assign]
    SourceFileLoader.get_resource_reader = lambda self, module: Reader(os.path.dirname(self.path))  # type: ignore[assignment]
    builtins.open = io.open = _opening(io.open)  # type: ignore[assignment]


def _opening(real: Callable[..., Any]) -> Callable[..., Any]:
    def open(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None, newline: Any = None, *rest: Any, **options: Any) -> Any:
        path = os.path.normpath(os.fspath(file)) if isinstance(file, (str, os.PathLike)) else None
        if path in _files and not set(mode) & set("wax+"):
            text = {} if "b" in mode else {"encoding": encoding or "utf-8", "errors": errors, "newline": newline}
            return Entry(path).open(mode, **text)
        return real(file, mode, buffering, encoding, errors, newline, *rest, **options)

    return open
