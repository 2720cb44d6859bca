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
    CallEvent,
    CapabilityContext,
    Component,
    FumehoodError,
    HostError,
    Loaded,
    LoadError,
    LogLine,
    LogReport,
    Lost,
    Progress,
    Request,
    Result,
    Server,
    Started,
    Tool,
)
from .agent import Agent
from .capability import Capability, Denied, Err
from .host import Budget, Duration, Event, Grants, Host, HostEvent, Isolation, Limits, Registry, Secret, WriteFolder

__all__ = [
    "Agent",
    "AgentCall",
    "AgentResult",
    "Budget",
    "CallError",
    "CallEvent",
    "Capability",
    "CapabilityContext",
    "Component",
    "Denied",
    "Duration",
    "Err",
    "Event",
    "FumehoodError",
    "Grants",
    "Host",
    "HostError",
    "HostEvent",
    "Isolation",
    "Limits",
    "LoadError",
    "Loaded",
    "LogLine",
    "LogReport",
    "Lost",
    "Progress",
    "Registry",
    "Request",
    "Result",
    "Secret",
    "Server",
    "Started",
    "Tool",
    "WriteFolder",
    "__version__",
]
