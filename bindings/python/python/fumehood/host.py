"""The host: components, their tools, and calls of them."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Union

from ._fumehood import (
    CallEvent,
    Component,
    Events,
    Loaded,
    LogLine,
    LogReport,
    Lost,
    NativeHost,
    Operation,
    Progress,
    Request,
    Result,
    Server,
    Started,
    Subscription,
    Tool,
)
from .agent import Agent, Approve, Model
from .capability import Capability, Runner
from .program import find_program
from .settings import (
    Amount,
    Budget,
    Duration,
    Grants,
    HttpLimits,
    Isolation,
    Limits,
    Path,
    Registry,
    Secret,
    TcpLimits,
    WriteFolder,
)

Event = Union[Progress, LogLine, Request, Result]
HostEvent = Union[Loaded, Started, CallEvent, Result, Lost]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def _arguments(arguments: Mapping[str, Any] | str | None) -> str:
    if arguments is None:
        return "{}"
    text = arguments if isinstance(arguments, str) else _encode(arguments)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair is no text. As an escape it gets to the gate, which refuses it as it refuses other arguments.
        return text.encode("ascii", "backslashreplace").decode() if text is arguments else _encode_ascii(arguments)
    return text


def _plain(value: Any) -> Any:
    """Converts a value that JSON lacks. Times are numbers of seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else os.fspath(value)


def _settings(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, default=_plain, allow_nan=False)


def _options(limits: Limits | None, id: str | None, actor: str | None, state: Any) -> str | None:
    if limits is None and id is None and actor is None and state is None:
        return None
    text = None if state is None else json.dumps(state, allow_nan=False)
    return _settings({"limits": limits, "id": id, "actor": actor, "state": text})


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _outcome(operation: Operation) -> Any:
    """Awaits an operation. It is stopped if the task that awaits it is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    operation.on_end(functools.partial(loop.call_soon_threadsafe, _wake, future))
    try:
        await future
    except BaseException:
        operation.cancel()
        raise
    return operation.take()


class Host:
    """A set of loaded components and the sandbox that runs them.

    Every call runs in a fresh WebAssembly instance, with fuel, an enforced deadline, a memory ceiling, and none of the powers that
    were not granted. Failures of tools are values, see :class:`Result`; failures of the host raise :class:`HostError`.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        isolation: Isolation = "in_process",
        cache: Path | None = None,
        key_value_store: Path | None = None,
        concurrency: int | None = None,
        queue: int | None = None,
        http_in_flight: int | None = None,
        memory_ceiling: Amount | None = None,
        registry: Registry | None = None,
        lock: Path | None = None,
        log: Path | None = None,
        log_key: Path | None = None,
        capabilities: Sequence[Capability] = (),
        program: Path | None = None,
    ) -> None:
        """Creates a host.

        :param limits: limits of calls without separate limits
        :param isolation: where calls run: "in_process", "process" for worker processes in a kernel jail, or
            "process_required" to require a complete jail
        :param cache: a folder for compiled code; without one it is in memory
        :param key_value_store: a file for the keys and values of tools; without one they are in memory
        :param concurrency: maximum number of running calls; further calls wait
        :param queue: maximum number of waiting calls; further calls are refused
        :param http_in_flight: maximum number of running HTTP requests of all calls together
        :param memory_ceiling: the largest memory limit that a call may have
        :param registry: components of registries; without it none can be loaded
        :param lock: the file with the approvals that `fumehood approve` writes; with one, only approved
            tools can be called
        :param log: a file for the event log, in which every call is recorded before it runs; without one nothing is recorded
        :param log_key: the file with the key that seals the log; the default is the file of the log with `.key`
        :param capabilities: interfaces of this program that components may import with a grant
        :param program: the program `fumehood` that compiles components and runs workers; the default is the program of this package
        """
        settings = {
            "program": find_program() if program is None else os.path.abspath(program),
            "isolation": isolation,
            "limits": limits or {},
            "cache": cache,
            "key_value_store": key_value_store,
            "concurrency": concurrency,
            "queue": queue,
            "http_in_flight": http_in_flight,
            "memory_ceiling": memory_ceiling,
            "registry": registry,
            "lock": lock,
            "log": log,
            "log_key": log_key,
        }
        self._runner = Runner(capabilities) if capabilities else None
        self._follow_loop()
        described = [(it.name, it.description, it.wit, list(it.functions)) for it in capabilities]
        start = None if self._runner is None else self._runner.start
        self._native = NativeHost(_settings(settings), described, start)

    def _follow_loop(self) -> None:
        if self._runner is not None:
            self._runner.follow_loop()

    def _check_sync(self) -> None:
        if self._runner is not None:
            self._runner.check_sync()

    def _load(
        self,
        source: Path | bytes,
        name: str | None,
        grants: Grants | None,
        capabilities: Mapping[str, Any] | None,
        limits: Limits | None,
        strict_imports: bool,
        allow_slow_compile: bool,
        isolated: bool,
        replace: bool,
    ) -> Operation:
        component = source if isinstance(source, bytes) else None
        path = None if isinstance(source, bytes) else os.fspath(source)
        settings = {
            "path": path,
            "name": name,
            "grants": grants,
            "capabilities": capabilities or {},
            "limits": limits,
            "strict_imports": strict_imports,
            "allow_slow_compile": allow_slow_compile,
            "isolated": isolated,
            "replace": replace,
        }
        return self._native.load(_settings(settings), component)

    async def load(
        self,
        source: Path | bytes,
        *,
        name: str | None = None,
        grants: Grants | None = None,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        strict_imports: bool = False,
        allow_slow_compile: bool = False,
        isolated: bool = False,
        replace: bool = False,
    ) -> Component:
        """Loads a component from a file, a reference such as ``oci://ghcr.io/acme/greeter:1.0``, or bytes.

        Its tools can be called as ``name__tool``. If it is loaded already, from the same bytes with the same grants and limits, it stays.

        :param name: the name of the component; the default is that of the file
        :param grants: its powers; the default is none
        :param capabilities: the capabilities of the host that it may use, each with its grant: plain data without secrets
        :param limits: limits of its calls, in place of the host's
        :param strict_imports: refuse it if it imports a power that it is not granted
        :param allow_slow_compile: compile it even if that takes many seconds
        :param isolated: run its calls in a worker process, whatever the host's `isolation`
        :param replace: replace the component that has its name, if there is one, in one step; running calls continue with the old one
        :raises LoadError: if it cannot be loaded, or another component has its name; what was loaded before stays
        :raises ValueError: if a grant or a limit is malformed
        """
        self._follow_loop()
        operation = self._load(
            source, name, grants, capabilities, limits, strict_imports, allow_slow_compile, isolated, replace
        )
        component: Component = await _outcome(operation)
        return component

    def load_sync(
        self,
        source: Path | bytes,
        *,
        name: str | None = None,
        grants: Grants | None = None,
        capabilities: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        strict_imports: bool = False,
        allow_slow_compile: bool = False,
        isolated: bool = False,
        replace: bool = False,
    ) -> Component:
        """Like :meth:`load`, and blocks the thread."""
        operation = self._load(
            source, name, grants, capabilities, limits, strict_imports, allow_slow_compile, isolated, replace
        )
        component: Component = self._native.wait(operation)
        return component

    def unload(self, name: str) -> bool:
        """Unloads a component, and returns whether it was loaded. Running calls continue to their end."""
        return self._native.unload(name)

    def tools(self) -> list[Tool]:
        """Returns all tools, sorted by their names."""
        return self._native.tools()

    def tool(self, name: str) -> Tool | None:
        """Returns the tool with this name, ``component__tool``, or with this alias."""
        return self._native.tool(name)

    @property
    def running(self) -> int:
        """The number of calls that are running guest code right now."""
        return self._native.running()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        limits: Limits | None = None,
        id: str | None = None,
        actor: str | None = None,
        state: Any = None,
    ) -> Result:
        """Calls a tool. Every outcome of the tool is a value.

        Cancelling the task stops the guest within milliseconds. The call begins on this thread, with the interpreter released, only if the
        last call of that tool took less than 0.25 ms.

        :param name: the full name of the tool, or its alias
        :param arguments: a mapping, or JSON text as a model wrote it
        :param limits: limits of this call, in place of the tool's
        :param id: the id of the call in its result; the default is one that the host generates
        :param actor: the actor on whose behalf the call runs
        :param state: the agent's state, a JSON value, which only a tool with the grant `state` can read
        :raises HostError: if the host itself failed
        """
        self._follow_loop()
        started = self._native.start(name, _arguments(arguments), _options(limits, id, actor, state))
        if type(started) is Result:
            return started
        result: Result = await _outcome(started)
        return result

    def call_sync(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        limits: Limits | None = None,
        id: str | None = None,
        actor: str | None = None,
        state: Any = None,
    ) -> Result:
        """Like :meth:`call`, and blocks the thread. Other threads go on, and Ctrl-C stops the call."""
        self._check_sync()
        return self._native.call_sync(name, _arguments(arguments), _options(limits, id, actor, state))

    async def stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        limits: Limits | None = None,
        id: str | None = None,
        actor: str | None = None,
        state: Any = None,
    ) -> AsyncGenerator[Event, None]:
        """Calls a tool, and yields its progress, log lines and requests, and at last its :class:`Result`.

        Closing the iterator before its end stops the guest.
        """
        self._follow_loop()
        changed = asyncio.Event()
        notify = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set)
        events = Events()
        call = (name, _arguments(arguments), _options(limits, id, actor, state))
        operation = self._native.start_observed(call, events, notify)
        operation.on_end(notify)
        try:
            while True:
                changed.clear()
                # Looked at first: no event comes after the end.
                is_done = operation.is_done()
                for event in events.drain():
                    yield event
                if is_done:
                    break
                await changed.wait()
            yield operation.take()
        finally:
            operation.cancel()

    async def add_server(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        folder: Path | None = None,
        isolation: Literal["jail", "required", "none"] | None = None,
        read: Sequence[Path] = (),
        write: Sequence[Path] = (),
        http: Sequence[str] = (),
        private_addresses: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        secret_env: Mapping[str, Mapping[str, Path]] | None = None,
        url: str | None = None,
        bearer: Mapping[str, Path] | None = None,
        headers: Mapping[str, str] | None = None,
        secret_headers: Mapping[str, Mapping[str, Path]] | None = None,
        timeout: Duration | None = None,
        max_timeout: Duration | None = None,
        start_timeout: Duration | None = None,
        prefer: Literal["text", "structured"] | None = None,
        output: Amount | None = None,
        string: Amount | None = None,
        tools: Sequence[str] | None = None,
        max_tools: Amount | None = None,
        descriptions: Amount | None = None,
    ) -> Server:
        """Starts an MCP server with a `command`, or connects to a `url`, and adds its tools as ``name__tool``.

        They follow the server's list, and end with the host. A program runs in a kernel jail. Its home is a folder that is
        removed with it.

        :param command: the program and its arguments; no shell is involved
        :param folder: the working folder of the program
        :param isolation: "jail" (default), "required" to start it only in a complete jail, or "none"
        :param read: files and folders that the program can read, in addition to its package and the system's libraries
        :param write: folders that the program may read and change
        :param http: requests that the program may make, such as ``* https://api.example.com/**``
        :param private_addresses: private addresses that its requests may reach
        :param env: environment variables of the program, in addition to PATH, LANG and TZ
        :param secret_env: environment variables with secret values, and their sources, such as ``{"env": "TOKEN"}``
        :param url: the URL of its endpoint
        :param bearer: the source of the bearer token
        :param headers: headers of requests to the server
        :param secret_headers: headers with secret values, and their sources
        :param timeout: maximum time of a call without progress; the default is 60 s
        :param max_timeout: maximum time of a call; the default is 10 min
        :param start_timeout: maximum time to start and list its tools; the default is 10 s, and 60 s for programs such as npx
        :param prefer: the form that models read of a result that has both; the default is "text"
        :param output: maximum size of a result; the default is 1 MiB
        :param string: maximum size of a string in the arguments; the default is 1 MiB
        :param tools: the tools to use, by the server's own names; the default is all
        :param max_tools: maximum number of tools; the default is 1000
        :param descriptions: maximum size of all descriptions together; the default is 1 MiB
        :raises LoadError: if it cannot be used, its name is taken, or it is not what the host's `lock` approves
        :raises ValueError: if an option is malformed
        """
        settings = {
            "command": command,
            "folder": folder,
            "isolation": isolation,
            "read": list(read),
            "write": list(write),
            "http": list(http),
            "private_addresses": list(private_addresses),
            "env": env or {},
            "secret_env": secret_env or {},
            "url": url,
            "bearer": bearer,
            "headers": headers or {},
            "secret_headers": secret_headers or {},
            "timeout": timeout,
            "max_timeout": max_timeout,
            "start_timeout": start_timeout,
            "prefer": prefer,
            "output": output,
            "string": string,
            "tools": tools,
            "max_tools": max_tools,
            "descriptions": descriptions,
        }
        server: Server = await _outcome(self._native.add_server(name, _settings(settings)))
        return server

    async def remove_server(self, name: str) -> bool:
        """Removes an MCP server with its tools, ends its program, and returns whether it was there."""
        was_there: bool = await _outcome(self._native.remove_server(name))
        return was_there

    def agent(
        self,
        model: Model,
        *,
        system: str | None = None,
        allow: Sequence[str] | None = None,
        ask: Sequence[str] | None = None,
        approve: Approve | None = None,
        budget: Budget | None = None,
        actor: str | None = None,
        state: Any = None,
    ) -> Agent:
        """Creates an agent: `model` gets the conversation with the tools, and its calls run in this host.

        :param model: a function, asynchronous or not, from a :class:`~fumehood.agent.ModelRequest` to the reply: a text, or a
            :class:`~fumehood.agent.ModelReply`
        :param system: the system prompt
        :param allow: the tools that the model may call; the default is all
        :param ask: the tools whose calls need approval by `approve`; the default is all if there is an `approve`
        :param approve: a function, asynchronous or not, from a :class:`~fumehood.agent.ProposedCall` to true, false, or the reason of
            a no; without it, calls that need approval are refused
        :param budget: limits of its runs and of the whole conversation
        :param actor: the actor on whose behalf its calls run
        :param state: the agent's state, a JSON value, which only a tool with the grant `state` can read
        :raises ValueError: if a tool is unknown, or a limit is malformed
        """
        settings = {
            "system": system,
            "allow": allow,
            "ask": ask,
            "budget": budget or {},
            "actor": actor,
            "state": None if state is None else json.dumps(state, allow_nan=False),
        }
        return Agent(self, self._native.agent(_settings(settings), approve is not None), model, approve)

    def subscribe(self) -> AsyncGenerator[HostEvent, None]:
        """Subscribes to the events of all calls from now on, until the host is shut down.

        Yields :class:`Loaded`, :class:`Started`, :class:`CallEvent` with a log line, progress or request of a call, and the
        :class:`Result` of each call. Calls do not wait for a slow subscriber: it loses events, and gets :class:`Lost` with their number.
        """
        return self._observe(self._native.subscribe())

    async def _observe(self, subscription: Subscription) -> AsyncGenerator[HostEvent, None]:
        while True:
            events: list[HostEvent] | None = await _outcome(self._native.next_events(subscription))
            if events is None:
                return
            for event in events:
                yield event

    async def verify_log(self) -> LogReport:
        """Verifies the event log: nothing was changed, removed or reordered.

        :raises ValueError: if the host has no `log`
        """
        report: LogReport = await _outcome(self._native.verify_log())
        return report

    def verify_log_sync(self) -> LogReport:
        """Like :meth:`verify_log`, and blocks the thread."""
        report: LogReport = self._native.wait(self._native.verify_log())
        return report

    async def shutdown(self, grace: float | timedelta = 1.0) -> None:
        """Accepts no more calls, and stops those that still run after `grace`, a number of seconds or a `timedelta`."""
        seconds = grace.total_seconds() if isinstance(grace, timedelta) else grace
        await _outcome(self._native.shutdown(seconds))

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()


__all__ = [
    "Budget",
    "Duration",
    "Event",
    "Grants",
    "Host",
    "HostEvent",
    "HttpLimits",
    "Isolation",
    "Limits",
    "Registry",
    "Secret",
    "TcpLimits",
    "WriteFolder",
]
