"""Modules of the standard library that are imported during a call, when there are no files of it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import marshal
import os
import zlib
from typing import Any

#: The folder of the library while a component is built.
FOLDER = os.path.dirname(os.path.dirname(json.__file__))
#: Parts of it that no tool uses.
UNUSED = {"__pycache__", "ensurepip", "idlelib", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtledemo"}


class Library(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The library, or one package of it, as compressed code."""

    def __init__(self, package: str = "") -> None:
        self._code: dict[str, tuple[bool, str, bytes]] = {}
        for folder, inner, files in os.walk(os.path.join(FOLDER, package)):
            inner[:] = [name for name in inner if name not in UNUSED]
            for file in files:
                if file.endswith(".py"):
                    self._keep(os.path.join(folder, file))

    def _keep(self, path: str) -> None:
        name = os.path.relpath(path, FOLDER)[: -len(".py")].replace("/", ".")
        is_package = name.endswith(".__init__")
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        name = name.removesuffix(".__init__")
        self._code[name] = (is_package, path, zlib.compress(marshal.dumps(code)))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = self._code.get(name)
        return found and make_spec(name, self, found[1], found[0])

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        code = marshal.loads(zlib.decompress(self._code[module.__name__][2]))
        exec(code, module.__dict__)


def make_spec(name: str, loader: Any, file: str, is_package: bool) -> Any:
    """Returns the spec of a module that has a file only by name."""
    spec = importlib.util.spec_from_loader(name, loader, origin=file, is_package=is_package)
    spec.has_location = True
    return spec
