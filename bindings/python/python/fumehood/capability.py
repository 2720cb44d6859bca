"""Capabilities: interfaces of WIT that this program implements."""

from __future__ import annotations

import asyncio
import collections
import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from ._fumehood import CapabilityContext, FunctionCall

# Functions that block run on at most this many threads of a host.
_MAX_THREADS = 32
# Maximum number of calls of functions that wait for a thread. Further calls fail.
_MAX_WAITING = 1024
# Time after which a thread without work ends, in seconds.
_IDLE_SECONDS = 10.0

_logger = logging.getLogger("fumehood")

Function = Callable[..., Union[Any, Awaitable[Any]]]


class Err(Exception):
    """Raised by a function of a capability: the tool gets `value` as the `err` of the `result` that the WIT declares."""

    def __init__(self, value: Any = None) -> None:
        super().__init__(value)
        self.value = value


class Denied(Exception):
    """Raised by a function of a capability: the call of the tool ends with the kind `denied`, and this message."""


@dataclass(frozen=True)
class Capability:
    """An interface of this program that components may import, each with a grant.

    >>> async def select(context: CapabilityContext, table: str, limit: int) -> list[dict[str, Any]]: ...
    >>> database = Capability("database", "read tables", WIT, {"select": select})
    >>> host = Host(capabilities=[database])
    >>> await host.load("reader.wasm", capabilities={"database": {"tables": ["orders"]}})
    """

    name: str
    """The name in grants and messages: lowercase words with hyphens."""
    description: str
    """What a tool can do with it, as a phrase for people: `read tables of the service`."""
    wit: str
    """The WIT package with the interfaces. Resources, async functions, streams, futures and maps are not supported."""
    functions: Mapping[str, Function]
    """The functions by their names in WIT; `interface.name` if two interfaces have one. Each gets a :class:`CapabilityContext` and the
    arguments. Coroutine functions run on an event loop, others on a thread."""


class Runner:
    """Runs the functions of the capabilities of one host."""

    def __init__(self, capabilities: Sequence[Capability]) -> None:
        self._functions = [list(capability.functions.values()) for capability in capabilities]
        self._threads = _Threads()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def follow_loop(self) -> None:
        """Lets coroutines run on the event loop of this thread, unless they run on another one already."""
        if self._loop is None or self._loop.is_closed():
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                pass

    def check_sync(self) -> None:
        """Checks that a call may block this thread.

        :raises RuntimeError: on the thread of the event loop, where a coroutine of a capability could not run meanwhile
        """
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return
        if is_here and any(map(inspect.iscoroutinefunction, sum(self._functions, []))):
            raise RuntimeError("this call would block the event loop that the functions of capabilities run on; await the call")

    def start(self, call: FunctionCall) -> None:
        """Starts a function. Called on any thread, and does not wait.

        :raises RuntimeError: if it cannot run now
        """
        function = self._functions[call.capability][call.function]
        if inspect.iscoroutinefunction(function):
            self._start_coroutine(call, function)
        else:
            self._threads.submit(call, functools.partial(self._run_blocking, call, function))

    def _run_blocking(self, call: FunctionCall, function: Function) -> None:
        try:
            value = function(call.context(), *call.take_arguments())
            if inspect.isawaitable(value):
                # A function such as a lambda around a coroutine function, which nothing says before it is called.
                self._start_coroutine(call, lambda *_: value)
                return
        except BaseException as error:
            _fail(call, error)
        else:
            call.finish(value)

    def _start_coroutine(self, call: FunctionCall, function: Function) -> None:
        loop = self._running_loop()
        loop.call_soon_threadsafe(_create_task, loop, call, function)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not self._loop.is_closed():
            return self._loop
        with self._lock:
            if self._own_loop is None:
                self._own_loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run_loop, args=(self._own_loop,), name="fumehood-functions", daemon=True)
                thread.start()
                weakref.finalize(self, _stop_loop, self._own_loop)
            return self._own_loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _stop_loop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


# Event loops keep no strong references to their tasks.
_tasks: set[asyncio.Task[None]] = set()


def _create_task(loop: asyncio.AbstractEventLoop, call: FunctionCall, function: Function) -> None:
    if call.is_done():
        return
    task = loop.create_task(_run_coroutine(call, function))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    call.on_stop(functools.partial(loop.call_soon_threadsafe, task.cancel))


async def _run_coroutine(call: FunctionCall, function: Function) -> None:
    try:
        value = await function(call.context(), *call.take_arguments())
    except BaseException as error:
        _fail(call, error)
        if not isinstance(error, Exception):
            raise
    else:
        call.finish(value)


def _fail(call: FunctionCall, error: BaseException) -> None:
    if isinstance(error, Err):
        call.fail("err", error.value)
    elif isinstance(error, Denied):
        call.fail("denied", error)
    elif isinstance(error, asyncio.CancelledError):
        call.fail("unavailable", "it was cancelled")
    else:
        # Its trace is for the operator of this program; callers get the message.
        _logger.error("a function of a capability failed", exc_info=error)
        call.fail("failed", f"{type(error).__name__}: {error}")


class _Threads:
    """Threads for functions that block. They do not keep the process running, so that a function that never returns does not either."""

    def __init__(self) -> None:
        self._jobs: collections.deque[tuple[FunctionCall, Callable[[], None]]] = collections.deque()
        # Guards the jobs and the counts: a thread that has taken a job is not idle, so that no job waits for it.
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0

    def submit(self, call: FunctionCall, run: Callable[[], None]) -> None:
        """Runs a function on a thread.

        :raises RuntimeError: if too many functions wait for one
        """
        with self._changed:
            waiting = len(self._jobs)
            if waiting >= _MAX_WAITING:
                raise RuntimeError(f"{waiting} functions wait for a thread, because {self._threads} others have not returned")
            self._jobs.append((call, run))
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif self._threads < _MAX_THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name="fumehood-function", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                has_job = self._changed.wait_for(lambda: self._jobs, _IDLE_SECONDS)
                self._idle -= 1
                if not has_job:
                    self._threads -= 1
                    return
                call, run = self._jobs.popleft()
            if not call.is_done():
                run()
            # Not kept while the thread is idle: they have the arguments and the host's functions.
            del call, run


__all__ = ["Capability", "CapabilityContext", "Denied", "Err"]
