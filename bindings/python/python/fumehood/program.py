"""The program `fumehood` of this package: it compiles components in a separate process, and runs workers."""

from __future__ import annotations

import functools
import importlib.metadata
import os

from ._fumehood import HostError


@functools.cache
def find_program() -> str:
    """Returns the path of the program that was installed with this package.

    It is found through the list of installed files, because where programs are installed depends on the installer. The program must
    be of the same build as the module, so that no other is looked for.
    """
    try:
        files = importlib.metadata.files("fumehood") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("fumehood", "fumehood.exe") and file.suffix != ".py":
            path = os.path.abspath(str(file.locate()))
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    raise HostError(
        "the program `fumehood` of this package, which compiles components, was not found; reinstall the package, "
        "or set a program of the same version with `Host(program=…)`"
    )
