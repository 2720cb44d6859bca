from collections.abc import Callable
from typing import Any, final

VERSION: str

class FumehoodError(Exception):
    """The base class of the errors of a host."""

class HostError(FumehoodError):
    """The host failed, not a tool."""

class LoadError(FumehoodError):
    """A component cannot be loaded, or a server cannot be used."""

@final
class Component:
    """A loaded component."""

    @property
    def name(self) -> str:
        """The name, which the full names of its tools begin with."""
    @property
    def digest(self) -> str:
        """The digest of its bytes, ``sha256:…``."""
    @property
    def isolated(self) -> bool:
        """Whether its calls run in a worker process."""
    @property
    def tools(self) -> list[str]:
        """The full names of its tools."""

@final
class Server:
    """An MCP server that was added to a host."""

    @property
    def name(self) -> str:
        """The name, which the full names of its tools begin with."""
    @property
    def tools(self) -> list[str]:
        """The full names of its tools."""
    @property
    def ignored(self) -> list[str]:
        """The tools that are left out, with the reasons."""

@final
class Tool:
    """A tool that can be called. All texts are sanitized: they are shown to models."""

    @property
    def name(self) -> str:
        """The full name, ``component__tool``."""
    @property
    def alias(self) -> str:
        """The name for models: the full name, or a similar one if not every provider accepts it."""
    @property
    def title(self) -> str | None: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of its structured result."""
    @property
    def annotations(self) -> dict[str, bool]:
        """What the tool says of its effects: `read_only`, `destructive`, `idempotent` and `open_world`."""
    @property
    def powers(self) -> list[str]:
        """Its powers beyond computing, one phrase for each."""

@final
class CallError:
    """A failed call."""

    @property
    def kind(self) -> str:
        """The kind, such as ``invalid_arguments``."""
    @property
    def message(self) -> str: ...
    @property
    def hint(self) -> str | None:
        """A suggested remedy."""
    @property
    def retry_after(self) -> float | None:
        """The delay after which the same call may be retried, in seconds."""
    @property
    def backtrace(self) -> list[str]:
        """The backtrace of a crashed guest, innermost frame first."""

@final
class Result:
    """The outcome of one call: parts of a result, or an error."""

    @property
    def id(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def ran(self) -> bool:
        """Whether any code of the tool ran. A refusal of the host has the same kind as that of a tool."""
    @property
    def content(self) -> tuple[dict[str, Any], ...]:
        """The parts of the result as the tool wrote them; none if the call failed."""
    @property
    def structured(self) -> Any:
        """The value of the first JSON part; `None` if there is none."""
    @property
    def text(self) -> str | None:
        """The first text or JSON part for a model, with hidden characters escaped; `None` if there is none."""
    @property
    def model_text(self) -> str:
        """All that a model should read: each part as text with hidden characters escaped, or the error."""
    @property
    def error(self) -> CallError | None: ...
    @property
    def metadata(self) -> dict[str, Any]:
        """Resource usage and observations."""
    def to_json(self) -> str:
        """Returns the result as one line of JSON, the same as that of ``fumehood call --json``."""
    @staticmethod
    def from_json(json: str) -> Result:
        """Creates a result from the text of `to_json`.

        :raises ValueError: if it is another text
        """
    def json(self) -> Any:
        """Returns the value of the first JSON part, or else of the first text part, which has to be JSON.

        :raises ValueError: if the call failed, or there is no JSON; the message says what there is
        """

@final
class Progress:
    """A progress report of a running call."""

    @property
    def fraction(self) -> float | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def partial(self) -> tuple[dict[str, Any], ...]:
        """Parts of the result that are ready."""

@final
class LogLine:
    """A log line of a running call."""

    @property
    def level(self) -> str: ...
    @property
    def message(self) -> str: ...

@final
class Request:
    """An HTTP request or a TCP connection of a running call that ended or was refused."""

    @property
    def method(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def status(self) -> int | None: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...

@final
class Loaded:
    """A component was loaded and its tools can be called."""

    @property
    def component(self) -> str:
        """The name of the component."""
    @property
    def digest(self) -> str: ...
    @property
    def tools(self) -> list[str]:
        """The full names of its tools."""

@final
class Started:
    """A call passed the gate and is sent to the sandbox."""

    @property
    def id(self) -> str:
        """The id of the call."""
    @property
    def tool(self) -> str:
        """The full name of the tool."""
    @property
    def actor(self) -> str | None: ...

@final
class CallEvent:
    """An event of one of the running calls."""

    @property
    def id(self) -> str:
        """The id of the call."""
    @property
    def event(self) -> Progress | LogLine | Request: ...

@final
class Lost:
    """A subscriber was too slow, and missed events."""

    @property
    def count(self) -> int:
        """The number of the events."""

@final
class LogReport:
    """The result of verifying an event log."""

    @property
    def ok(self) -> bool:
        """Whether nothing was changed, removed or reordered."""
    @property
    def rows(self) -> int:
        """Number of rows that were checked."""
    @property
    def sealed_up_to(self) -> int:
        """The last row with a valid seal: up to here, any change without the key is detected."""
    @property
    def finding(self) -> str | None:
        """The first problem, if any."""

@final
class AgentCall:
    """A call that a model requested."""

    @property
    def id(self) -> str:
        """The id that the model gave the call."""
    @property
    def tool(self) -> str:
        """The full name of the tool, or the name that the model wrote if there is no such tool."""
    @property
    def arguments(self) -> str:
        """The arguments as the model wrote them."""
    @property
    def status(self) -> str:
        """The status, such as ``ok``, ``rejected_schema`` or ``rejected_denied``."""
    @property
    def result(self) -> Result:
        """The result, as the model may see it."""

@final
class AgentResult:
    """The result of one run of an agent."""

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
    @property
    def text(self) -> str:
        """The answer, or the last text of the model; empty if there is none."""
    @property
    def status(self) -> str:
        """The way the run ended, such as ``answered`` or ``budget_exhausted``."""
    @property
    def reason(self) -> str | None:
        """The reason why there is no answer."""
    @property
    def turns(self) -> int:
        """The number of requests to the model."""
    @property
    def usage(self) -> dict[str, int]:
        """The tokens of these requests: `input`, `output`, `cache_read` and `cache_creation`."""
    @property
    def calls(self) -> tuple[AgentCall, ...]:
        """The calls that the model requested, in their order, refused ones included."""

@final
class AgentRun:
    @property
    def operation(self) -> Operation: ...
    def drain(self) -> list[str]: ...
    def answer(self, id: int, json: str) -> None: ...
    def fail(self, id: int, reason: str) -> bool: ...

@final
class NativeAgent:
    def run(self, message: str, callback: Callable[[], object]) -> AgentRun: ...

@final
class CapabilityContext:
    """The call of a tool that uses a capability. Functions of capabilities get it as their first argument."""

    @property
    def component(self) -> str | None:
        """The name of the component."""
    @property
    def tool(self) -> str:
        """The name of the tool within its component."""
    @property
    def call_id(self) -> str: ...
    @property
    def actor(self) -> str | None:
        """The actor on whose behalf the call runs."""
    @property
    def grant(self) -> Any:
        """What the component was granted, as `load` got it."""
    @property
    def time_left(self) -> float:
        """The time until the deadline of the call, in seconds."""
    @property
    def cancelled(self) -> bool:
        """Whether the tool has stopped: its deadline has passed, or its call was cancelled. A function on a thread may look."""
    def refuse(self, tried: str, because: str) -> None:
        """Records that the tool tried something that its grant does not cover. If the tool then fails, its caller gets this reason, and
        the call has the kind `denied`."""

@final
class FunctionCall:
    @property
    def capability(self) -> int: ...
    @property
    def function(self) -> int: ...
    def take_arguments(self) -> tuple[Any, ...]: ...
    def context(self) -> CapabilityContext: ...
    def finish(self, value: Any) -> None: ...
    def fail(self, kind: str, value: object) -> None: ...
    def on_stop(self, callback: Callable[[], object]) -> None: ...
    def is_done(self) -> bool: ...

@final
class Events:
    def drain(self) -> list[Progress | LogLine | Request]: ...

@final
class Operation:
    def on_end(self, callback: Callable[[], object]) -> None: ...
    def cancel(self) -> None: ...
    def is_done(self) -> bool: ...
    def take(self) -> Any: ...

@final
class Subscription: ...

@final
class NativeHost:
    def __new__(
        cls,
        settings: str,
        capabilities: list[tuple[str, str, str, list[str]]],
        start: Callable[[FunctionCall], None] | None,
    ) -> NativeHost: ...
    def load(self, settings: str, bytes: bytes | None) -> Operation: ...
    @staticmethod
    def wait(operation: Operation) -> Any: ...
    def start(self, name: str, arguments: str, options: str | None) -> Result | Operation: ...
    def start_observed(
        self, call: tuple[str, str, str | None], events: Events, callback: Callable[[], object]
    ) -> Operation: ...
    def call_sync(self, name: str, arguments: str, options: str | None) -> Result: ...
    def subscribe(self) -> Subscription: ...
    def next_events(self, subscription: Subscription) -> Operation: ...
    def unload(self, name: str) -> bool: ...
    def tools(self) -> list[Tool]: ...
    def tool(self, name: str) -> Tool | None: ...
    def running(self) -> int: ...
    def add_server(self, name: str, settings: str) -> Operation: ...
    def remove_server(self, name: str) -> Operation: ...
    def agent(self, settings: str, can_ask: bool) -> NativeAgent: ...
    def verify_log(self) -> Operation: ...
    def shutdown(self, grace: float) -> Operation: ...
