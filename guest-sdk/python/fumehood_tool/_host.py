"""What the host offers to every tool. Outside a component there is a stand-in for each function."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

try:
    from wit_world.imports import context as _context
    from wit_world.imports import key_value as _key_value
    from wit_world.imports import log as _log
    from wit_world.imports import progress as _progress
    from wit_world.imports import secrets as _secrets
except ImportError:
    _context = _key_value = _log = _progress = _secrets = None


class _Log:
    """Lines for the operator of the tool. The model does not see them."""

    def trace(self, message: object) -> None:
        self._write("TRACE", message)

    def debug(self, message: object) -> None:
        self._write("DEBUG", message)

    def info(self, message: object) -> None:
        self._write("INFO", message)

    def warn(self, message: object) -> None:
        self._write("WARN", message)

    def error(self, message: object) -> None:
        self._write("ERROR", message)

    def _write(self, level: str, message: object) -> None:
        if _log is None:
            print(f"{level.lower()}: {message}", file=sys.stderr)
        else:
            _log.log(_log.Level[level], str(message))


class _LogHandler(logging.Handler):
    """Hands the records of `logging` to the host."""

    def emit(self, record: logging.LogRecord) -> None:
        levels = [(logging.ERROR, "ERROR"), (logging.WARNING, "WARN"), (logging.INFO, "INFO"), (logging.DEBUG, "DEBUG")]
        level = next((name for least, name in levels if record.levelno >= least), "TRACE")
        log._write(level, self.format(record))


def install_log_handler() -> None:
    """Sends what libraries log to the host, from the level `INFO` on unless the program has chosen another."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_LogHandler())
        root.setLevel(logging.INFO)


class _Context:
    """The current call."""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return "" if _context is None else str(_context.call_id())

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return "" if _context is None else str(_context.tool_name())

    @property
    def remaining(self) -> float:
        """The seconds until the deadline."""
        return float("inf") if _context is None else _context.remaining_ms() / 1000

    @property
    def actor(self) -> str | None:
        """The actor on whose behalf the call runs, if the host knows one."""
        return None if _context is None else _context.actor()

    @property
    def state(self) -> Any:
        """The agent's state, if the tool was granted it."""
        state = None if _context is None else _context.state()
        return None if state is None else json.loads(state)


class _Secrets:
    """The presence of secrets. Their values never enter a tool: the host adds them to requests."""

    def exists(self, name: str) -> bool:
        """Returns whether the tool was granted a secret of this name."""
        return _secrets is not None and bool(_secrets.exists(name))


class _KeyValues:
    """Keys and values that stay from one call to the next. Needs the grant `key_value`."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Returns a value; `None` if there is none."""
        if _key_value is None:
            return self._kept.get(key)
        value = self._call(_key_value.get, key)
        return None if value is None else bytes(value)

    def set(self, key: str, value: bytes | str) -> None:
        """Sets a value of at most 64 KiB."""
        data = value.encode() if isinstance(value, str) else bytes(value)
        if _key_value is None:
            self._kept[key] = data
        else:
            self._call(_key_value.set, key, data)

    def delete(self, key: str) -> bool:
        """Removes a key. Returns whether it was there."""
        if _key_value is None:
            return self._kept.pop(key, None) is not None
        return bool(self._call(_key_value.delete, key))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yields the keys that begin with a prefix, in order."""
        if _key_value is None:
            yield from sorted(key for key in self._kept if key.startswith(prefix))
            return
        cursor = None
        while True:
            page = self._call(_key_value.list, prefix, cursor, 0)
            yield from page.keys
            cursor = page.next
            if cursor is None:
                return

    @staticmethod
    def _call(function: Any, *arguments: Any) -> Any:
        from componentize_py_types import Err

        try:
            return function(*arguments)
        except Err as error:
            raise _key_value_error(error.value.name) from None


def _key_value_error(name: str) -> Exception:
    errors: dict[str, Exception] = {
        "DENIED": PermissionError("this tool has no store; the operator can grant `key_value`"),
        "INVALID_KEY": ValueError("a key has 1 to 256 bytes and no control characters"),
        "TOO_LARGE": ValueError("a value has at most 64 KiB"),
        "FULL": OSError("the store of this tool is full"),
    }
    return errors.get(name, ConnectionError("the store is unavailable"))


def progress(fraction: float | None = None, message: str | None = None) -> None:
    """Reports the progress of the call: the fraction that is done, 0.0 to 1.0, and what the tool does now."""
    if _progress is not None:
        _progress.report(_progress.Update(fraction=fraction, message=message, partial=[]))


class _Withheld:
    """Functions of the host while there is no call."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "requests, secrets, keys and values, progress and the context are only there during a call; top-level code runs when "
            "the component is built: do this in the function of the tool"
        )


@contextlib.contextmanager
def without_calls() -> Iterator[None]:
    """Refuses functions of the host, which would trap outside of a call. Log lines go to stderr."""
    from . import _transport

    places = [(globals(), name) for name in ("_context", "_key_value", "_log", "_progress", "_secrets")]
    places.append((vars(_transport), "wasi"))
    kept = [(names, name, names[name]) for names, name in places if names[name] is not None]
    for names, name, _ in kept:
        names[name] = None if name == "_log" else _Withheld()
    try:
        yield
    finally:
        for names, name, functions in kept:
            names[name] = functions


log = _Log()
context = _Context()
secrets = _Secrets()
kv = _KeyValues()
