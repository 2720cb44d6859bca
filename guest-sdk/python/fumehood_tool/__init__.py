"""Tools for language models: functions with type hints, which run in the sandbox of Fumehood.

>>> from fumehood_tool import tool
>>>
>>> @tool
... def add(a: float, b: float) -> float:
...     '''Adds two numbers.'''
...     return a + b

A tool is also an ordinary function, for tests and for other tools. Outside a component, requests go out directly, keys and values are
kept in memory, and progress goes nowhere.
"""

from . import http
from ._content import Blob, Link
from ._errors import ToolError
from ._host import context, kv, log, progress, secrets
from ._tool import tool

__all__ = ["Blob", "Link", "ToolError", "context", "http", "kv", "log", "progress", "secrets", "tool"]
