"""The modules of a component: what they import, and where their errors are."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import _data, _host, _library, _urllib
from ._errors import ToolError

#: Modules that Python imports by itself when they are needed, which is too late in a component. Other encodings are kept as code.
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


def explain(error: Exception) -> str:
    """Returns where the module of the project fails, why, and what to do. Its own files come first, and those of packages after."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: {error.msg}"
    trace = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    hidden = ("/fumehood_tool/", "/fumehood_entry.py", "importlib", "/python/")
    trace = [(code, line) for code, line in trace if not any(part in code.co_filename for part in hidden)]
    own = [(code, line) for code, line in trace if code.co_filename.startswith("/0/")]
    place = f"{_shown(own[-1][0].co_filename)}:{own[-1][1]}: " if own else ""
    name = f"{type(error).__name__}: " if own or not isinstance(error, RuntimeError) else ""
    frames = [f"    at {_shown(code.co_filename)}:{line} in {code.co_name}" for code, line in reversed(trace)]
    return "\n".join([f"{place}{name}{error}{_remedy(error)}", *(frames if len(frames) > 1 else [])])


#: Packages that have another name than their module.
PACKAGES = {"PIL": "pillow", "bs4": "beautifulsoup4", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "yaml": "pyyaml"}
#: Clients of HTTP that open sockets.
CLIENTS = ("aiohttp", "httpx", "requests", "urllib3")


def _remedy(error: Exception) -> str:
    if isinstance(error, ImportError) and error.name:
        root = error.name.partition(".")[0]
        if root in CLIENTS:
            return f"; `{root}` needs sockets, which components do not have: send requests with `fumehood_tool.http`"
        if root in sys.stdlib_module_names:
            return f"; components have no `{error.name}`, which is part of Python elsewhere: leave it out"
        if root in sys.modules or not isinstance(error, ModuleNotFoundError):
            return f"; if `{root}` has native code, components cannot run it: use a package in Python alone"
        package = PACKAGES.get(root, root)
        return f"; add the file {root}.py, or install it where componentize-py is, such as `.venv/bin/pip install {package}`"
    if isinstance(error, OSError):
        return "; top-level code runs when the component is built, without files and network: do this in the function of the tool"
    return ""


def keep_source(file: str, text: str) -> None:
    """Keeps the lines of a module of the project, for tracebacks."""
    _sources[file] = text.splitlines()


class BuildError(Exception):
    """A fault of the module of the project, in words. The build shows its text between the two lines, and not the traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(f"begin\n{text}\nend of BuildError")


def begin(load: Callable[[str], None], module: str) -> None:
    """Loads the module of the project. Functions of the host are only there during a call."""
    with _host.without_calls():
        load(module)


def prepare(load: Callable[[str], None], module: str) -> None:
    """Loads the module of the project, and imports all that it imports later: a component has no other files.

    Called while the component is built.
    """
    try:
        begin(load, module)
    except Exception as error:
        raise BuildError(explain(error)) from None
    for name in LATE_MODULES:
        _import(name)
    seen: set[str] = set()
    while new := [name for name in sys.modules if name not in seen]:
        seen.update(new)
        for name in new:
            for imported in _later_imports(sys.modules[name]):
                _import(imported)
    _data.keep()
    sys.meta_path.append(_library.Library("encodings"))
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
