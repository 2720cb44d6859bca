"""The modules of a component: what they import, and where their errors are."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import _host, _urllib
from ._errors import ToolError

#: Modules that Python imports by itself when they are needed, which is too late in a component.
LATE_MODULES = ("encodings.idna", "encodings.ascii", "encodings.latin_1", "encodings.cp1252", "encodings.punycode", "_strptime")

#: The lines of the modules of the project, by the name of the file. There are no files later, and opening one would be refused.
_sources: dict[str, list[str]] = {}


def report(error: Exception) -> None:
    """Tells the operator where the tool failed. A failure that the tool chose itself is no fault."""
    trace = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    trace = [(code, line) for code, line in trace if "/fumehood_tool/" not in code.co_filename]
    own = [(code, line) for code, line in trace if code.co_filename in _sources]
    place = f" at {_shown(own[-1][0].co_filename)}:{own[-1][1]}" if own else ""
    if isinstance(error, ToolError):
        _host.log.info(f"failed{place}: {error}")
        return
    _host.log.error(f"{type(error).__name__}{place}")
    print("Traceback (most recent call last):", file=sys.stderr)
    for code, line in trace:
        print(f'  File "{_shown(code.co_filename)}", line {line}, in {code.co_name}', file=sys.stderr)
        lines = _sources.get(code.co_filename, [])
        if line <= len(lines):
            print(f"    {lines[line - 1].strip()}", file=sys.stderr)
    print("".join(traceback.format_exception_only(error)), end="", file=sys.stderr)


def _shown(file: str) -> str:
    """Returns the name of a file in the project: a component has its folders as /0, /1 and so on."""
    return re.sub(r"^/[0-9]+/", "", file)


def keep_source(file: str, text: str) -> None:
    """Keeps the lines of a module of the project, for tracebacks."""
    _sources[file] = text.splitlines()


def prepare(load: Callable[[str], None], module: str) -> None:
    """Loads the module of the project, and imports all that it imports later: a component has no other files.

    Called while the component is built.
    """
    load(module)
    for name in LATE_MODULES:
        _import(name)
    seen: set[str] = set()
    while new := [name for name in sys.modules if name not in seen]:
        seen.update(new)
        for name in new:
            for imported in _later_imports(sys.modules[name]):
                _import(imported)
    _host.install_log_handler()
    _urllib.install()


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # It is not there, or not for WebAssembly: the import fails where the tool needs it.
        pass


def _later_imports(module: Any) -> list[str]:
    """Keeps the lines of a module, and returns what it imports anywhere, unless it belongs to Python itself."""
    file = getattr(module, "__file__", None) or ""
    if not file.endswith(".py") or module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return []
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return []
    keep_source(file, text)
    package = getattr(module, "__package__", None) or ""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [name for name in names if name and not name.endswith("*")]
