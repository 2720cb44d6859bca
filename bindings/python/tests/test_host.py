"""Loading, calls, cancellation, events and faults of a host."""

import asyncio
import contextlib
import copy
import json
import math
import os
import pathlib
import pickle
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
import wasmtime
from conftest import skip

import fumehood


async def test_calls_return_values(calculator: fumehood.Host) -> None:
    result = await calculator.call("calculator__add", {"a": 3, "b": 5})
    assert (result.ok, result.error, result.structured) == (True, None, {"result": 8})
    assert result.content == ({"type": "json", "value": {"result": 8}},)
    assert result.text == result.model_text == '{"result":8}'
    assert result.tool == "calculator__add" and result.metadata["fuel_used"] > 0
    assert '"status":"ok"' in result.to_json()
    assert calculator.call_sync("calculator__add", '{"a": 3, "b": 5}').structured == {"result": 8}


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("calculator__add", {"a": "3", "b": 5}, "invalid_arguments"),
        ("calculator__add", {"a": 3}, "invalid_arguments"),
        ("calculator__add", {"a": math.nan, "b": 1}, "invalid_arguments"),
        ("calculator__add", {"a": "\ud800", "b": 1}, "invalid_arguments"),
        ("calculator__add", '{"a": 3, "b": 5', "invalid_arguments"),
        ("calculator__add", '{"a": "\ud800"}', "invalid_arguments"),
        ("calculator__divide", {"a": 1, "b": 0}, "tool_failed"),
        ("calculator__nothing", {}, "unknown_tool"),
        ("nothing__add", None, "unknown_tool"),
    ],
)
async def test_failures_of_tools_are_values(calculator: fumehood.Host, name: str, arguments: object, kind: str) -> None:
    result = await calculator.call(name, arguments)  # type: ignore[arg-type]
    assert result.error is not None
    assert (result.ok, result.error.kind, result.content, result.structured) == (False, kind, (), None)
    assert result.error.message and str(result.error) == result.model_text
    again = calculator.call_sync(name, arguments)  # type: ignore[arg-type]
    assert again.error is not None and again.error.kind == kind


async def test_arguments_that_are_no_json_are_an_error_of_the_program(calculator: fumehood.Host) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        await calculator.call("calculator__add", {"a": {1, 2}})


def test_tools_have_schemas(calculator: fumehood.Host) -> None:
    tools = {tool.name: tool for tool in calculator.tools()}
    add = tools["calculator__add"]
    assert add.description == "Adds two numbers: a + b."
    assert add.input_schema["required"] == ["a", "b"] and add.input_schema["type"] == "object"
    assert add.output_schema is not None and add.annotations["read_only"] is True and add.powers == []
    assert calculator.tool("calculator__nothing") is None


async def test_components_are_loaded_by_path_and_bytes(host: fumehood.Host, components: pathlib.Path) -> None:
    file = components / "calculator.wasm"
    component = await host.load(file)
    assert component.name == "calculator" and "calculator__add" in component.tools and not component.isolated
    other = await host.load(file.read_bytes(), name="other")
    assert other.digest == component.digest and component.digest.startswith("sha256:")
    assert host.unload("other") and not host.unload("other")
    for source, message in [
        (components / "nothing.wasm", "nothing.wasm: No such file"),
        (components, "not a regular file"),
        (components / "digests.toml", "WebAssembly"),
    ]:
        with pytest.raises(fumehood.LoadError, match=message):
            await host.load(source)
    for bad in (b"\0asm", b""):
        with pytest.raises(fumehood.LoadError):
            await host.load(bad, name="bad")
    with pytest.raises(ValueError, match="needs a `name`"):
        await host.load(b"\0asm")


async def test_loading_the_same_component_again_keeps_it(host: fumehood.Host, components: pathlib.Path) -> None:
    file = components / "calculator.wasm"
    first = await host.load(file, limits={"deadline": 2})
    for again in (await host.load(file, limits={"deadline": "2s"}), host.load_sync(file.read_bytes(), name="calculator", limits={"deadline": 2.0})):
        assert (again.digest, again.tools) == (first.digest, first.tools)
    both = await asyncio.gather(*(host.load(components / "text.wasm") for _ in range(2)))
    assert both[0].digest == both[1].digest
    for options, message in [
        ({}, "is already loaded with other limits; choose another name, or replace it with `replace=True`"),
        ({"limits": {"deadline": 2}, "grants": {"key_value": "1MiB"}}, "with another grant"),
    ]:
        with pytest.raises(fumehood.LoadError, match=message):
            await host.load(file, **options)  # type: ignore[arg-type]
    with pytest.raises(fumehood.LoadError, match="with other bytes"):
        await host.load(components / "text.wasm", name="calculator")
    assert (await host.call("calculator__add", {"a": 3, "b": 5})).ok


async def test_a_component_is_replaced_in_one_step(countdown: fumehood.Host, components: pathlib.Path) -> None:
    calling = asyncio.create_task(countdown.call("countdown__countdown", {"from": 20, "step_ms": 20}))
    while countdown.running == 0:
        await asyncio.sleep(0.001)
    replaced = await countdown.load(components / "calculator.wasm", name="countdown", replace=True)
    assert "countdown__add" in replaced.tools and not calling.done()
    assert (await countdown.call("countdown__add", {"a": 3, "b": 5})).structured == {"result": 8}
    assert (await calling).ok and countdown.tool("countdown__countdown") is None


async def test_results_and_errors_are_pickled(calculator: fumehood.Host) -> None:
    for arguments in ({"a": 4, "b": 2}, {"a": 1, "b": 0}, {"a": "1", "b": 0}):
        result = await calculator.call("calculator__divide", arguments)
        failure = pickle.loads(pickle.dumps(result.error))
        assert type(failure) is type(result.error) and repr(failure) == repr(result.error) and str(failure) == str(result.error)
        for copied in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), fumehood.Result.from_json(result.to_json())):
            assert copied.to_json() == result.to_json() and copied.structured == result.structured
            assert (copied.ok, copied.ran, copied.model_text) == (result.ok, result.ran, result.model_text)
    with pytest.raises(ValueError, match="invalid JSON of a result"):
        fumehood.Result.from_json("{}")
    for kind in (fumehood.HostError, fumehood.LoadError):
        error = pickle.loads(pickle.dumps(kind("what")))
        assert type(error) is kind and error.args == ("what",) and isinstance(error, fumehood.FumehoodError)
        assert kind.__module__ == "fumehood"


async def test_subscribers_get_the_events_of_all_calls(countdown: fumehood.Host, components: pathlib.Path) -> None:
    async def collect(events: AsyncIterator[fumehood.HostEvent]) -> list[fumehood.HostEvent]:
        return [event async for event in events]

    early, other = countdown.subscribe(), asyncio.create_task(collect(countdown.subscribe()))
    await countdown.load(components / "calculator.wasm")
    calls = [
        countdown.call("countdown__countdown", {"from": 2, "step_ms": 1}, id="slow", actor="ann"),
        countdown.call("calculator__add", {"a": 1}, id="refused"),
    ]
    await asyncio.gather(*calls)
    await countdown.shutdown()
    events = await collect(early)
    assert [repr(event) for event in await other] == [repr(event) for event in events]
    loaded = events[0]
    assert isinstance(loaded, fumehood.Loaded) and loaded.component == "calculator" and "calculator__add" in loaded.tools
    (started,) = [event for event in events if isinstance(event, fumehood.Started)]
    assert (started.id, started.tool, started.actor) == ("slow", "countdown__countdown", "ann")
    progress = [event for event in events if isinstance(event, fumehood.CallEvent)]
    assert {event.id for event in progress} == {"slow"} and all(type(event.event) is fumehood.Progress for event in progress)
    ended = {event.id: event.ok for event in events if isinstance(event, fumehood.Result)}
    assert ended == {"slow": True, "refused": False}


async def test_slow_subscribers_lose_events_and_learn_how_many(calculator: fumehood.Host) -> None:
    events = calculator.subscribe()
    for _ in range(1000):
        await calculator.call("unknown__tool")
    first = await anext(events)
    assert isinstance(first, fumehood.Lost) and first.count > 600
    assert isinstance(await anext(events), fumehood.Result)
    waiting = asyncio.ensure_future(anext(calculator.subscribe()))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_json_of_results_is_their_value(calculator: fumehood.Host) -> None:
    assert (await calculator.call("calculator__add", {"a": 3, "b": 5})).json() == {"result": 8}
    with pytest.raises(ValueError, match="tool_failed: "):
        (await calculator.call("calculator__divide", {"a": 1, "b": 0})).json()
    record = json.loads((await calculator.call("calculator__add", {"a": 3, "b": 5})).to_json())
    text = {"type": "text", "text": "[1, 2]"}
    for content, expected in [
        ([text], [1, 2]),
        ([text, {"type": "json", "value": {"a": None}}], {"a": None}),
        ([{"type": "text", "text": "NaN"}], "the text part of the result does not match"),
        ([{"type": "text", "text": "[" * 100_000}], "the text part of the result does not match"),
        ([{"type": "blob", "mime_type": "image/png", "data": "AAAA"}], "it has 1 blob"),
    ]:
        result = fumehood.Result.from_json(json.dumps({**record, "content": content}))
        if isinstance(expected, str):
            with pytest.raises(ValueError, match=expected):
                result.json()
        else:
            assert result.json() == expected


async def test_results_say_whether_the_tool_ran(calculator: fumehood.Host) -> None:
    for expression, ran in [("1+1", True), ("1+", True), (1, False)]:
        result = await calculator.call("calculator__evaluate", {"expression": expression})
        assert result.ran is ran
        assert result.error is None or result.error.kind == "invalid_arguments"


async def test_times_are_seconds_or_timedeltas(host: fumehood.Host, programs: pathlib.Path) -> None:
    spin = bytes(wasmtime.wat2wasm((programs / "spin.wat").read_text()))
    await host.load(spin, name="spin", limits={"deadline": 60, "fuel": "1000G"})
    for deadline in (0.1, timedelta(milliseconds=100), "100ms"):
        result = await host.call("spin__run", limits={"deadline": deadline})
        assert result.error is not None and result.error.kind == "deadline"
        assert result.metadata["deadline_ms"] == 100
    limits: fumehood.Limits = {"deadline": timedelta(seconds=-1)}
    with pytest.raises(ValueError, match="expected a number of seconds"):
        await host.call("spin__run", limits=limits)
    await host.shutdown(timedelta(milliseconds=1))


async def test_calls_have_an_id_and_a_state(host: fumehood.Host) -> None:
    file = pathlib.Path(__file__).parent.parent / "tell-context.wasm"
    await host.load(file, grants={"state": True})
    await host.load(file, name="bare")
    state = {"city": "Bern", "visits": [1, 2]}
    result = await host.call("tell-context__state", id="request-7", actor="ann", state=state)
    assert result.id == "request-7" and result.json() == state
    assert host.call_sync("tell-context__state", state=state).json() == state
    *_, last = [event async for event in host.stream("tell-context__state", id="request-8", state=state)]
    assert isinstance(last, fumehood.Result) and last.id == "request-8" and last.json() == state
    assert (await host.call("tell-context__state")).text == "none"
    assert (await host.call("bare__state", state=state)).text == "none"
    with pytest.raises(ValueError, match="JSON compliant"):
        await host.call("tell-context__state", state=math.nan)


async def test_aliases_are_names_that_every_provider_accepts(host: fumehood.Host, components: pathlib.Path) -> None:
    await host.load(components / "calculator.wasm", name="n" * 64)
    tool = host.tool("n" * 64 + "__add")
    assert tool is not None and len(tool.alias) == 64 and tool.alias != tool.name
    found = host.tool(tool.alias)
    assert found is not None and found.name == tool.name
    result = await host.call(tool.alias, {"a": 3, "b": 5})
    assert result.structured == {"result": 8} and result.tool == tool.name
    await host.load(components / "calculator.wasm")
    assert all(tool.alias == tool.name for tool in host.tools() if tool.name.startswith("calculator__"))


async def test_cancelling_the_task_stops_the_guest(countdown: fumehood.Host) -> None:
    calling = asyncio.create_task(countdown.call("countdown__countdown", {"from": 1000, "step_ms": 50}))
    while countdown.running == 0:
        await asyncio.sleep(0.001)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    # The time is for the bench; a guest that went on would run for 50 s.
    async with asyncio.timeout(5):
        while countdown.running:
            await asyncio.sleep(0.001)


async def test_a_loop_ends_at_its_deadline_or_when_it_is_cancelled(host: fumehood.Host, programs: pathlib.Path) -> None:
    spin = wasmtime.wat2wasm((programs / "spin.wat").read_text())
    await host.load(bytes(spin), name="spin", limits={"deadline": "60s", "fuel": "1000G"})
    (tool,) = host.tools()
    result = await host.call(tool.name, {}, limits={"deadline": "100ms"})
    assert result.error is not None and result.error.kind == "deadline"
    assert 90 <= result.metadata["duration_ms"] < 5000
    result = host.call_sync(tool.name, {}, limits={"fuel": "1M"})
    assert result.error is not None and result.error.kind == "fuel"
    calling = asyncio.create_task(host.call(tool.name))
    while host.running == 0:
        await asyncio.sleep(0.001)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(calling, 0.01)
    async with asyncio.timeout(5):
        while host.running:
            await asyncio.sleep(0.001)


async def test_the_loop_goes_on_while_a_call_runs(countdown: fumehood.Host) -> None:
    calling = asyncio.create_task(countdown.call("countdown__countdown", {"from": 10, "step_ms": 20}))
    turns = 0
    while not calling.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await calling).ok and turns >= 5


async def test_calls_that_start_at_once_do_not_hold_the_loop(host: fumehood.Host, programs: pathlib.Path) -> None:
    spin = wasmtime.wat2wasm((programs / "spin.wat").read_text())
    await host.load(bytes(spin), name="spin", limits={"deadline": "50ms", "fuel": "1000G"})
    calls = [asyncio.create_task(host.call("spin__run")) for _ in range(100)]
    begun = time.thread_time()
    await asyncio.sleep(0)
    # A first slice of each on this thread would take 0.2 s of it.
    assert time.thread_time() - begun < 0.1
    results = await asyncio.gather(*calls)
    assert {result.error.kind for result in results if result.error} <= {"deadline", "unavailable"}


async def test_quick_calls_begin_on_the_thread_of_the_loop(calculator: fumehood.Host, countdown: fumehood.Host) -> None:
    async def begins_here(name: str, arguments: str) -> bool:
        # The machine may be so busy that a call of some microseconds is not quick.
        for _ in range(100):
            await calculator.call(name, arguments)
            if type(calculator._native.start(name, arguments, None)) is fumehood.Result:
                return True
        return False

    assert not await begins_here("countdown__countdown", '{"from": 1, "step_ms": 5}')
    assert await begins_here("calculator__add", '{"a": 1, "b": 1}')


def test_other_threads_go_on_while_a_call_blocks(countdown: fumehood.Host) -> None:
    def call() -> None:
        results.append(countdown.call_sync("countdown__countdown", {"from": 10, "step_ms": 100}))

    results: list[fumehood.Result] = []
    threads = [threading.Thread(target=call) for _ in range(8)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One after another they would take 8 s.
    assert len(results) == 8 and all(result.ok for result in results) and time.monotonic() - begun < 7


async def test_events_are_streamed(countdown: fumehood.Host) -> None:
    events = [event async for event in countdown.stream("countdown__countdown", {"from": 3, "step_ms": 5})]
    *reports, result = events
    assert isinstance(result, fumehood.Result) and result.structured == {"from": 3, "waited_ms": 15}
    progress = [report for report in reports if isinstance(report, fumehood.Progress)]
    assert [report.message for report in progress] == ["1 of 3", "2 of 3", "3 of 3"]
    assert progress[-1].fraction == 1.0 and progress[0].partial == ({"type": "text", "text": "3"},)
    (refused,) = [event async for event in countdown.stream("countdown__countdown", {"from": 0})]
    assert isinstance(refused, fumehood.Result) and refused.error is not None


async def test_events_come_while_the_call_runs(countdown: fumehood.Host) -> None:
    stream = countdown.stream("countdown__countdown", {"from": 1000, "step_ms": 20})
    async with contextlib.aclosing(stream):
        async for event in stream:
            assert isinstance(event, fumehood.Progress) and event.message == "1 of 1000"
            assert countdown.running == 1
            break
    async with asyncio.timeout(5):
        while countdown.running:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grants": {"raed": ["./a:/a"]}}, "`grants.raed`: unknown field `raed`, expected one of `state`, `read`, `write`"),
        ({"grants": {"read": ["docs"]}}, r"`grants`: read\[0\]: `docs` has no path for the tool"),
        ({"grants": {"read": "./docs:/docs"}}, "`grants.read`: invalid type: string"),
        ({"grants": {"write": [{"folder": "a"}]}}, r"`grants.write\[0\]`: missing field `guest`"),
        ({"grants": {"http": ["GET example.com"]}}, r"`grants`: http\[0\]: invalid rule `GET example.com`"),
        ({"grants": {"http_limits": {"requests": 1}}}, "`http_limits` has no effect without `http`"),
        ({"grants": {"private_addresses": ["here"], "http": ["GET http://a/"]}}, "invalid address `here`"),
        ({"grants": {"env": {"A=B": "1"}}}, r"`grants`: env\[A=B\]: "),
        ({"grants": {"clock": []}}, "`grants.clock`: invalid type: sequence"),
        ({"grants": {"key_value": "1"}}, "`grants`: key_value: "),
        ({"limits": {"deadlin": "1s"}}, "`limits.deadlin`: unknown field `deadlin`"),
        ({"limits": {"deadline": -1}}, "`limits.deadline`: invalid time `-1`; expected a number of seconds"),
        ({"limits": {"deadline": True}}, "`limits.deadline`: invalid type: boolean `true`, expected a string with a number and a unit"),
        ({"limits": {"deadline": "soon"}}, "`limits.deadline`: invalid time `soon`"),
    ],
)
async def test_misspelt_settings_are_refused(
    host: fumehood.Host, components: pathlib.Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        await host.load(components / "calculator.wasm", **options)  # type: ignore[arg-type]
    assert host.tools() == []


async def test_granted_folders_are_read_and_no_others(
    host: fumehood.Host, components: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a.txt").write_text("granted")
    file = components / "files.wasm"
    await host.load(file, name="granted", grants={"read": [f"{tmp_path}:/docs"]})
    await host.load(file, name="bare")
    names = sorted(tool.name for tool in host.tools())
    reader = next(name for name in names if name.startswith("granted__") and "read" in name)
    granted = await host.call(reader, {"path": "/docs/a.txt"})
    assert granted.ok and "granted" in granted.model_text, granted.model_text
    refused = await host.call(reader.replace("granted__", "bare__"), {"path": "/docs/a.txt"})
    assert refused.error is not None and refused.error.kind == "denied", refused.model_text
    assert "files" in " ".join(next(tool for tool in host.tools() if tool.name == reader).powers)


async def test_calls_run_in_worker_processes(components: pathlib.Path, cache: pathlib.Path) -> None:
    host = fumehood.Host(isolation="process", cache=cache)
    component = await host.load(components / "calculator.wasm")
    assert component.isolated
    assert (await host.call("calculator__add", {"a": 1, "b": 1})).structured == {"result": 2}
    await host.shutdown()


async def test_a_forked_process_is_refused_clearly(calculator: fumehood.Host, components: pathlib.Path) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            for attempt in (
                lambda: calculator.call_sync("calculator__add", {"a": 1, "b": 1}),
                lambda: calculator.load_sync(components / "text.wasm"),
                calculator.tools,
            ):
                with pytest.raises(fumehood.HostError, match="forked"):
                    attempt()
            # One of its own works.
            host = fumehood.Host()
            host.load_sync(components / "calculator.wasm")
            code = 0 if host.call_sync("calculator__add", {"a": 1, "b": 1}).ok else 2
        finally:
            os._exit(code)
    status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status[1]) == 0
    assert (await calculator.call("calculator__add", {"a": 1, "b": 1})).ok


async def test_operations_end_clearly_in_a_forked_process(countdown: fumehood.Host) -> None:
    events = fumehood._fumehood.Events()
    call = ("countdown__countdown", '{"from": 100, "step_ms": 50}', None)
    operation = countdown._native.start_observed(call, events, lambda: None)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            for attempt in (
                lambda: countdown._native.wait(operation),
                lambda: operation.on_end(lambda: None),
                operation.is_done,
                operation.take,
                events.drain,
            ):
                with pytest.raises(fumehood.HostError, match="forked"):
                    attempt()
            operation.cancel()
            del operation, events
            code = 0
        finally:
            os._exit(code)
    status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status[1]) == 0
    assert not operation.is_done() and countdown.running == 1
    operation.cancel()


def test_a_signal_handler_that_forks_leaves_no_child_waiting(components: pathlib.Path) -> None:
    code = f"""
import fumehood, os, signal, threading, time
children = []
def fork(*_):
    children.append(os.fork())
    if children[-1] == 0:
        signal.alarm(30)
signal.signal(signal.SIGUSR1, fork)
host = fumehood.Host()
host.load_sync({str(components / "countdown.wasm")!r}, limits={{"deadline": "60s"}})
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    result = host.call_sync("countdown__countdown", {{"from": 20, "step_ms": 50}})
except fumehood.HostError:
    os._exit(0 if children == [0] else 1)
print(result.ok, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("True 0\n", 0), done.stderr


def test_ctrl_c_stops_a_blocking_call(components: pathlib.Path) -> None:
    code = f"""
import fumehood, os, signal, threading
# A shell starts programs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
host = fumehood.Host()
host.load_sync({str(components / "countdown.wasm")!r}, limits={{"deadline": "60s"}})
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    host.call_sync("countdown__countdown", {{"from": 1000, "step_ms": 50}})
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_an_interpreter_ends_with_calls_under_way(components: pathlib.Path) -> None:
    code = f"""
import asyncio, fumehood
async def main():
    host = fumehood.Host()
    await host.load({str(components / "countdown.wasm")!r})
    asyncio.create_task(host.call("countdown__countdown", {{"from": 100, "step_ms": 50}}))
    await asyncio.sleep(0.05)
    print("end")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr


def test_no_thread_is_in_the_interpreter_when_it_ends(components: pathlib.Path) -> None:
    code = f"""
import fumehood, time
class Slow:
    def __del__(self):
        # The interpreter is ending; the thread that sleeps below comes back meanwhile.
        time.sleep(1)
slow = Slow()
host = fumehood.Host()
host.load_sync({str(components / "countdown.wasm")!r})
operation = host._native.start("countdown__countdown", '{{"from": 1, "step_ms": 10}}', None)
operation.on_end(lambda: (time.sleep(0.5), print("back", flush=True)))
time.sleep(0.25)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.returncode) == ("back\n", 0), done.stderr


async def test_a_host_that_was_shut_down_accepts_no_calls(components: pathlib.Path, cache: pathlib.Path) -> None:
    async with fumehood.Host(cache=cache) as host:
        await host.load(components / "calculator.wasm")
    result = await host.call("calculator__add", {"a": 1, "b": 1})
    assert result.error is not None and result.error.kind == "unavailable"


def test_settings_of_a_host_are_checked(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="unknown variant `jail`"):
        fumehood.Host(isolation="jail")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid size `much`"):
        fumehood.Host(memory_ceiling="much")
    with pytest.raises(fumehood.HostError, match="the deadline limit is zero"):
        fumehood.Host(limits={"deadline": "0s"})
    host = fumehood.Host(program=tmp_path / "nothing")
    with pytest.raises(fumehood.LoadError, match="nothing"):
        host.load_sync(b"\0asm\x0d\0\1\0", name="empty")


async def test_references_need_settings_of_registries(components: pathlib.Path, tmp_path: pathlib.Path) -> None:
    reference = "oci://localhost:1/acme/calculator:1.0"
    with pytest.raises(ValueError, match="is a reference; set `registry`"):
        await fumehood.Host().load(reference)
    with pytest.raises(ValueError, match="`registry.trusted_keys`: "):
        fumehood.Host(registry={"store": tmp_path / "store", "trusted_keys": ["no key"]})
    with pytest.raises(ValueError, match="`registry.signature`: unknown field"):
        fumehood.Host(registry={"store": tmp_path / "store", "signature": "off"})  # type: ignore[typeddict-unknown-key]
    host = fumehood.Host(registry={"store": tmp_path / "store", "offline": True})
    with pytest.raises(fumehood.LoadError, match="calculator"):
        await host.load(reference)


def fumehood_command(home: pathlib.Path, *arguments: str | pathlib.Path) -> "subprocess.CompletedProcess[str]":
    program = pathlib.Path(sys.executable).parent / "fumehood"
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "FUMEHOOD_KEY_PASSPHRASE": "correct horse"}
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def registry(tmp_path: pathlib.Path) -> Iterator[str]:
    """The address of a registry that is empty."""
    if shutil.which("docker-registry") is None:
        skip("docker-registry", "there is no docker-registry here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{}".format(free.getsockname()[1])
    settings = f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\nhttp: {{addr: '{address}'}}\n"
    (tmp_path / "config.yml").write_text(settings)
    with open(tmp_path / "registry.log", "w") as log:
        server = subprocess.Popen(["docker-registry", "serve", tmp_path / "config.yml"], stdout=log, stderr=log)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(address.split(":")[1]))):
                break
            assert server.poll() is None, (tmp_path / "registry.log").read_text()
            time.sleep(0.05)
        yield address
    finally:
        server.terminate()
        server.wait()


async def test_components_of_a_registry_are_loaded(
    registry: str, components: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    reference = f"oci://{registry}/acme/calculator:1.0.0"
    done = fumehood_command(tmp_path, "publish", reference, components / "calculator.wasm")
    assert done.returncode == 0, done.stderr
    host = fumehood.Host(registry={"store": tmp_path / "store", "signatures": "off"})
    component = await host.load(reference)
    assert component.name == "calculator"
    assert (await host.call("calculator__add", {"a": 3, "b": 5})).structured == {"result": 8}
    with pytest.raises(fumehood.LoadError, match="sign"):
        await fumehood.Host(registry={"store": tmp_path / "other"}).load(reference)


async def test_signed_components_are_loaded_if_their_key_is_trusted(
    registry: str, components: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("acme", "stranger"):
        made = fumehood_command(tmp_path, "key", "new", name)
        assert made.returncode == 0, made.stderr
        exported = fumehood_command(tmp_path, "key", "export", name)
        (tmp_path / f"{name}.pem").write_text(exported.stdout)
    reference = f"oci://{registry}/acme/calculator:1.0.0"
    done = fumehood_command(tmp_path, "publish", reference, components / "calculator.wasm", "--sign", "acme")
    assert done.returncode == 0, done.stderr
    trusted: fumehood.Registry = {"store": tmp_path / "store", "trusted_keys": [{"file": tmp_path / "acme.pem"}]}
    host = fumehood.Host(registry=trusted)
    component = await host.load(reference)
    assert component.name == "calculator" and component.digest.startswith("sha256:")
    assert (await host.call("calculator__add", {"a": 3, "b": 5})).structured == {"result": 8}
    # From the store, where the signature is kept as well.
    offline: fumehood.Registry = {**trusted, "offline": True}
    assert (await fumehood.Host(registry=offline).load(reference)).digest == component.digest
    stranger: fumehood.Registry = {"store": tmp_path / "other", "trusted_keys": [{"file": tmp_path / "stranger.pem"}]}
    with pytest.raises(fumehood.LoadError, match="sign"):
        await fumehood.Host(registry=stranger).load(reference)


async def test_a_lock_decides_what_can_be_called(components: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.copy(components / "calculator.wasm", tmp_path)
    host = fumehood.Host(lock=tmp_path / "fumehood.lock")
    await host.load(tmp_path / "calculator.wasm")
    refused = await host.call("calculator__add", {"a": 1, "b": 1})
    assert refused.error is not None and refused.error.kind == "needs_approval"
    (tmp_path / "fumehood.toml").write_text('[tools.calculator]\ncomponent = "calculator.wasm"\n')
    config = ["--config", tmp_path / "fumehood.toml", "--trust-config"]
    done = fumehood_command(tmp_path, *config, "approve", "calculator", "--yes")
    assert done.returncode == 0, done.stderr
    host = fumehood.Host(lock=tmp_path / "fumehood.lock")
    await host.load(tmp_path / "calculator.wasm")
    assert (await host.call("calculator__add", {"a": 1, "b": 1})).ok


async def test_keys_and_values_are_kept_in_a_file(
    components: pathlib.Path, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for expected in (0, 1):
        host = fumehood.Host(cache=cache, key_value_store=tmp_path / "notes.db")
        await host.load(components / "notes.wasm", grants={"key_value": "1MiB"})
        listed = await host.call("notes__list", {})
        assert listed.ok and listed.model_text.count("milk") == expected, listed.model_text
        assert (await host.call("notes__write", {"title": "milk", "text": "two"})).ok
        await host.shutdown()


async def test_calls_are_recorded_in_a_log_that_is_verified(
    components: pathlib.Path, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "events.db"
    async with fumehood.Host(cache=cache, log=file, log_key=tmp_path / "seal.key") as host:
        await host.load(components / "calculator.wasm")
        for arguments in ({"a": 3, "b": 5}, {"a": "3"}):
            await host.call("calculator__add", arguments, id="request-7", actor="ann")
        report = await host.verify_log()
        assert report.ok and report.finding is None and report.rows == host.verify_log_sync().rows == 5
    del host
    logged = fumehood_command(tmp_path, "log", "--log", file, "--log-key", tmp_path / "seal.key", "--json")
    assert logged.returncode == 0 and "calculator__add" in logged.stdout and "ann" in logged.stdout, logged.stderr
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert "records" in tables, tables
        connection.execute("UPDATE records SET actor = 'bob' WHERE actor = 'ann'")
    changed = fumehood.Host(log=file, log_key=tmp_path / "seal.key").verify_log_sync()
    assert not changed.ok and "was edited" in str(changed.finding)
    with pytest.raises(ValueError, match="`log`: this host records no calls"):
        fumehood.Host().verify_log_sync()


def test_the_command_is_installed() -> None:
    program = pathlib.Path(sys.executable).parent / "fumehood"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["fumehood", fumehood.__version__]
