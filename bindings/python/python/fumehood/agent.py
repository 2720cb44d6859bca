"""Agents: a model of the program that calls the tools of a host."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from ._fumehood import AgentCall, AgentResult, AgentRun, NativeAgent

if TYPE_CHECKING:
    from .host import Host


class ToolCall(TypedDict):
    """A call in a message of the assistant."""

    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it."""


class _Message(TypedDict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class Message(_Message, total=False):
    """A message of a conversation."""

    tool_calls: list[ToolCall]
    """The calls that a message of the assistant requests."""
    tool_call_id: str
    """The call whose result a message of a tool is."""
    is_error: bool
    """Whether that call failed."""
    thoughts: list[Any]
    """What the reply with these calls had as `thoughts`."""


class ToolDefinition(TypedDict):
    """A tool that a model may call."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of its arguments."""


class ModelRequest(TypedDict):
    """A request to a model."""

    messages: list[Message]
    """The conversation, oldest first."""
    tools: list[ToolDefinition]
    tool_choice: Union[Literal["auto", "required", "none"], dict[str, str]]
    """Whether the model may, must or must not call tools, or the `name` of the tool that it must call."""
    max_tokens: int | None
    """The tokens of answers that are left of the budget."""


class _RequestedCall(TypedDict):
    name: str
    arguments: Union[str, Mapping[str, Any]]


class RequestedCall(_RequestedCall, total=False):
    """A call in a reply. Its arguments are JSON text as the model wrote it, or the value."""

    id: str


class Usage(TypedDict, total=False):
    """Tokens of a request and its reply."""

    input: int
    output: int
    cache_read: int
    cache_creation: int


class ModelReply(TypedDict, total=False):
    """A reply of a model: a text, calls, or both."""

    role: Literal["assistant"]
    content: Union[str, None]
    tool_calls: Union[Sequence[RequestedCall], None]
    usage: Union[Usage, None]
    stop: Literal["done", "length", "filtered", "refused", "paused", "failed"]
    """Why the model stopped. Calls of a reply that was cut are not made. Default: "done"."""
    thoughts: Sequence[Any]
    """JSON values that the provider wants back with the calls, such as blocks of reasoning."""


class ProposedCall(TypedDict):
    """A call that needs approval."""

    tool: str
    arguments: Any
    """The arguments that the tool would get."""
    annotations: dict[str, bool]
    """What the tool says of its effects: `read_only`, `destructive`, `idempotent` and `open_world`."""
    actor: str | None
    question: str


Reply = Union[str, ModelReply]
Model = Callable[[ModelRequest], Union[Reply, Awaitable[Reply]]]
# True, False, or the reason for a denial.
Answer = Union[bool, str]
Approve = Callable[[ProposedCall], Union[Answer, Awaitable[Answer]]]


async def _call(function: Callable[[Any], Any], argument: Any) -> Any:
    """Calls a function of the program. One that is not asynchronous runs on another thread, so that it may block."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):
        return await function(argument)
    value = await asyncio.to_thread(function, argument)
    return await value if inspect.isawaitable(value) else value


class _Answering:
    """The questions of one run, each answered by a task."""

    def __init__(self, run: AgentRun, model: Model, approve: Approve | None) -> None:
        self._run = run
        self._model = model
        self._approve = approve
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.failure: BaseException | None = None

    def take_questions(self) -> None:
        for text in self._run.drain():
            question = json.loads(text)
            id: int = question["id"]
            if question["type"] == "withdrawn":
                task = self._tasks.pop(id, None)
                if task is not None:
                    task.cancel()
            elif question["type"] == "model":
                self._begin(id, self._model, question["request"])
            elif self._approve is not None:
                self._begin(id, self._approve, question["call"])

    def _begin(self, id: int, function: Callable[[Any], Any], argument: Any) -> None:
        self._tasks[id] = asyncio.create_task(self._answer(id, function, argument))

    async def _answer(self, id: int, function: Callable[[Any], Any], argument: Any) -> None:
        try:
            answer = json.dumps(await _call(function, argument), allow_nan=False)
            self._run.answer(id, answer)
        except BaseException as error:
            # A question that was withdrawn is not open, and its task was cancelled for that.
            if self._run.fail(id, f"{type(error).__name__}: {error}"):
                self.failure = self.failure or error
                # A run whose model failed ends by itself, and other calls may run beside one that waits for approval.
                if function is self._approve:
                    self._run.operation.cancel()
            if not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
        finally:
            self._tasks.pop(id, None)

    async def stop(self) -> None:
        self._run.operation.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Agent:
    """A conversation of a model with the tools of a host, made by :meth:`Host.agent`."""

    def __init__(self, host: Host, native: NativeAgent, model: Model, approve: Approve | None) -> None:
        # Kept, because a host that is collected ends what runs in it.
        self._host = host
        self._native = native
        self._model = model
        self._approve = approve

    async def run(self, message: str) -> AgentResult:
        """Runs one message to its end, and returns the result. The next message continues the conversation.

        Cancelling the task stops the guests and the functions that are running. A run that begins while another one is under way
        waits for its end.

        :raises HostError: if the host itself failed, such as to record the run
        :raises ValueError: if the reply of the model, or the answer about a call, has another form than expected
        :raises BaseException: what the model, or `approve`, raised; the run is stopped then
        """
        changed = asyncio.Event()
        notify = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set)
        run = self._native.run(message, notify)
        run.operation.on_end(notify)
        answering = _Answering(run, self._model, self._approve)
        try:
            while True:
                changed.clear()
                # Looked at first: no question comes after the end.
                is_done = run.operation.is_done()
                answering.take_questions()
                if is_done:
                    break
                await changed.wait()
            if answering.failure is not None:
                raise answering.failure
            result: AgentResult = run.operation.take()
            return result
        finally:
            await answering.stop()


__all__ = [
    "Agent",
    "AgentCall",
    "AgentResult",
    "Answer",
    "Approve",
    "Message",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ProposedCall",
    "Reply",
    "RequestedCall",
    "ToolCall",
    "ToolDefinition",
    "Usage",
]
