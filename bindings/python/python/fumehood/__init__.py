"""Runs the tools of LLM agents as sandboxed WebAssembly components.

>>> host = fumehood.Host()
>>> await host.load("calculator.wasm")
>>> result = await host.call("calculator__add", {"a": 3, "b": 5})
>>> result.ok, result.structured
(True, {'result': 8})
"""

from ._fumehood import (
    VERSION as __version__,
)
from ._fumehood import (
    AgentCall,
    AgentResult,
    CallError,
    Component,
    FumehoodError,
    HostError,
    LoadError,
    LogLine,
    LogReport,
    Progress,
    Request,
    Result,
    Server,
    Tool,
)
from .agent import Agent
from .host import Budget, Duration, Event, Grants, Host, Isolation, Limits, Registry, Secret, WriteFolder

__all__ = [
    "Agent",
    "AgentCall",
    "AgentResult",
    "Budget",
    "CallError",
    "Component",
    "Duration",
    "Event",
    "FumehoodError",
    "Grants",
    "Host",
    "HostError",
    "Isolation",
    "Limits",
    "LoadError",
    "LogLine",
    "LogReport",
    "Progress",
    "Registry",
    "Request",
    "Result",
    "Secret",
    "Server",
    "Tool",
    "WriteFolder",
    "__version__",
]
