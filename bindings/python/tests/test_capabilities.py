"""Capabilities whose functions are written in Python, at the boundary: what a component gets, and what a program gets."""

import asyncio
import functools
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import fumehood

FOLDER = pathlib.Path(__file__).parent.parent
COMPONENT = FOLDER / "orders.wasm"
ORDER = {
    "id": 2**64 - 1,
    "title": "milk",
    "note": None,
    "status": "sent",
    "extras": ["express"],
    "cells": [
        {"tag": "null"},
        {"tag": "integer", "val": -(2**63)},
        {"tag": "text", "val": "é"},
        {"tag": "blob", "val": b"\x00\xff"},
    ],
    "size": [7, 0.5],
}
ARGUMENTS = {
    **ORDER,
    "id": str(2**64 - 1),
    "cells": [
        {"tag": "null"},
        {"tag": "integer", "val": str(-(2**63))},
        {"tag": "text", "val": "é"},
        {"tag": "blob", "val": [0, 255]},
    ],
}


@pytest.fixture(scope="session")
def wit(programs: pathlib.Path) -> str:
    """The WIT without the world of the component."""
    text = (programs.parent / "capability" / "orders.wit").read_text()
    return text[: text.index("world orders")]


class Orders:
    """A host with the component `orders`, whose functions a test replaces."""

    def __init__(self, cache: pathlib.Path, wit: str, isolation: fumehood.Isolation, **functions: Callable[..., Any]) -> None:
        all_functions: dict[str, Callable[..., Any]] = {
            "find": lambda context, id: ORDER,
            "save": lambda context, order: order,
            "nest": lambda context, results, twice, letter: [results, twice, letter],
            "count": lambda context, number: number,
            "wait": lambda context: None,
        }
        orders = fumehood.Capability("orders", "read orders of the service", wit, {**all_functions, **functions})
        self.host = fumehood.Host(cache=cache, isolation=isolation, capabilities=[orders], concurrency=4)

    def load(self, grant: Any = None) -> "Orders":
        self.host.load_sync(COMPONENT, capabilities={"orders": grant}, limits={"deadline": 30})
        return self

    def call(self, tool: str, arguments: dict[str, Any], **options: Any) -> fumehood.Result:
        return self.host.call_sync(f"orders__{tool}", arguments, **options)


@pytest.fixture(params=["in_process", "process"])
def orders(cache: pathlib.Path, wit: str, request: pytest.FixtureRequest) -> Callable[..., Orders]:
    return functools.partial(Orders, cache, wit, request.param)


def test_values_of_every_type_arrive_and_return(orders: Callable[..., Orders]) -> None:
    seen: list[Any] = []

    def save(context: fumehood.CapabilityContext, order: Any) -> Any:
        seen.append(order)
        return order

    stage = orders(save=save).load()
    result = stage.call("save", {"order": ARGUMENTS})
    assert result.ok, result.error
    assert seen == [ORDER]
    # Options without a value are left out in JSON.
    assert {"note": None, **result.structured} == ARGUMENTS
    arguments = {"results": [{"ok": 1}, {"err": "no"}], "twice": {"some": None}, "letter": "é"}
    nested = stage.call("nest", arguments)
    assert nested.structured == [[{"ok": 1}, {"err": "no"}], {"some": None}, "é"], nested.error
    assert stage.host.tool("orders__save").powers == ["read orders of the service"]  # type: ignore[union-attr]


def test_other_objects_of_python_are_values_too(orders: Callable[..., Orders]) -> None:
    def save(context: fumehood.CapabilityContext, order: Any) -> Any:
        del order["note"]
        return {**order, "extras": {"gift"}, "cells": [{"tag": "blob", "val": bytearray(b"a")}], "size": (1, 2)}

    result = orders(save=save).load().call("save", {"order": ARGUMENTS})
    assert result.ok, result.error
    assert result.structured["extras"] == ["gift"]
    assert result.structured["cells"] == [{"tag": "blob", "val": [97]}]
    assert result.structured["size"] == [1, 2]


def test_the_context_tells_of_the_call_and_its_grant(orders: Callable[..., Orders]) -> None:
    seen: list[Any] = []

    def count(context: fumehood.CapabilityContext, number: int) -> int:
        seen.append((context.component, context.tool, context.call_id, context.actor, context.grant, context.cancelled))
        assert 0 < context.time_left <= 30
        return number + 1

    stage = orders(count=count).load({"tables": ["orders"], "rows": 1.5})
    assert stage.call("count", {"number": 1}, id="7", actor="ann").structured == 2
    assert seen == [("orders", "count", "7", "ann", {"tables": ["orders"], "rows": 1.5}, False)]


def test_an_err_is_the_failure_that_the_wit_declares(orders: Callable[..., Orders]) -> None:
    async def find(context: fumehood.CapabilityContext, id: int) -> Any:
        raise fumehood.Err({"tag": "missing"})

    error = orders(find=find).load().call("find", {"id": 1}).error
    assert error is not None and error.kind == "tool_failed" and "missing" in error.message


def test_a_refusal_is_explained(orders: Callable[..., Orders]) -> None:
    def find(context: fumehood.CapabilityContext, id: int) -> Any:
        context.refuse(f"reading the order {id}", "its grant does not cover it")
        raise fumehood.Err({"tag": "denied", "val": "not granted"})

    def count(context: fumehood.CapabilityContext, number: int) -> Any:
        raise fumehood.Denied("counting was not granted")

    stage = orders(find=find, count=count).load()
    error = stage.call("find", {"id": 1}).error
    assert error is not None and error.kind == "denied" and "its grant does not cover it" in str(error)
    error = stage.call("count", {"number": 1}).error
    assert error is not None and error.kind == "denied" and "counting was not granted" in str(error)


def test_an_exception_ends_the_call_as_a_failure_of_the_host(orders: Callable[..., Orders]) -> None:
    def count(context: fumehood.CapabilityContext, number: int) -> Any:
        raise KeyError("a\x1b[31m" + "b" * 5000)

    stage = orders(count=count).load()
    with pytest.raises(fumehood.HostError, match="function `count` of the capability `orders` failed: KeyError") as raised:
        stage.call("count", {"number": 1})
    assert "\x1b" not in str(raised.value) and len(str(raised.value)) < 2000
    assert stage.call("save", {"order": ARGUMENTS}).ok


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"count": lambda context, number: "7"}, "`count` .* returned a value of another type: expected u32, got a text"),
        ({"count": lambda context, number: 2**32}, "expected u32, got the number 4294967296"),
        ({"count": lambda context, number: True}, "expected u32, got `true`"),
        ({"count": lambda context, number: object()}, "expected u32, got an object of the type object"),
        ({"count": lambda context: 7}, "`count` .* failed: TypeError"),
        ({"find": lambda context, id: {**ORDER, "id": -1}}, "expected u64 at `.id`, got the number -1"),
        ({"find": lambda context, id: {**ORDER, "cells": [{"tag": "real"}]}}, "expected a variant, .* at `.cells\\[0\\]`"),
        ({"find": lambda context, id: {"id": 1}}, "expected a record with `id`, .* got none with `title`"),
        ({"wait": lambda context: 1}, "expected no value, got the number 1"),
    ],
)
def test_a_value_of_another_type_names_the_function_and_the_type(
    cache: pathlib.Path, wit: str, functions: dict[str, Callable[..., Any]], message: str
) -> None:
    stage = Orders(cache, wit, "in_process", **functions).load()
    (tool,) = functions
    arguments: dict[str, dict[str, Any]] = {"count": {"number": 1}, "find": {"id": 1}, "wait": {}}
    with pytest.raises(fumehood.HostError, match=message):
        stage.call(tool, arguments[tool])


def test_objects_that_contain_themselves_are_refused(cache: pathlib.Path, wit: str) -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    stage = Orders(cache, wit, "in_process", count=lambda context, number: endless).load()
    with pytest.raises(fumehood.HostError, match="expected u32, got a list"):
        stage.call("count", {"number": 1})


def test_an_err_without_a_result_is_a_failure_of_the_host(cache: pathlib.Path, wit: str) -> None:
    def count(context: fumehood.CapabilityContext, number: int) -> Any:
        raise fumehood.Err("no")

    with pytest.raises(fumehood.HostError, match="`count` .* its WIT declares no `result`"):
        Orders(cache, wit, "in_process", count=count).load().call("count", {"number": 1})


def test_without_a_grant_the_component_is_not_loaded(orders: Callable[..., Orders]) -> None:
    stage = orders()
    with pytest.raises(fumehood.LoadError, match="capability `orders`"):
        stage.host.load_sync(COMPONENT)
    with pytest.raises(ValueError, match="`capabilities`: unknown capability `order`; expected orders"):
        stage.host.load_sync(COMPONENT, capabilities={"order": None})
    with pytest.raises(ValueError, match="`capabilities`: .* the maximum is 65536"):
        stage.host.load_sync(COMPONENT, capabilities={"orders": "x" * 70_000})
    assert stage.host.tools() == []


def test_another_grant_is_another_load(orders: Callable[..., Orders]) -> None:
    stage = orders().load(1).load(1)
    with pytest.raises(fumehood.LoadError, match="already loaded"):
        stage.load(2)
    with pytest.raises(ValueError, match="the host has none"):
        fumehood.Host().load_sync(COMPONENT, capabilities={"orders": None})


def test_a_capability_that_cannot_be_used_is_refused(wit: str, programs: pathlib.Path) -> None:
    functions = dict.fromkeys(["find", "save", "nest", "count", "wait"], lambda *_: None)
    misuse = (programs.parent / "capability" / "misuse.wit").read_text()
    two = "package a:b; interface c { f: func(); } interface d { f: func(); }"

    def check(name: str, wit: str, functions: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            fumehood.Host(capabilities=[fumehood.Capability(name, "a", wit, functions)])

    check("Orders", wit, functions, "invalid name of a capability `Orders`")
    check("orders", "interface", functions, "the capability `orders`: ")
    check("orders", wit, {}, "the function `find` of `test:orders/store@0.1.0` is missing")
    check("orders", wit, {**functions, "finds": print}, "`finds` is not a function of its WIT; expected `find`, ")
    check("probe", misuse[: misuse.index("world")], {}, "has the resource `item`, which only a capability in Rust can provide")
    check("orders", two, {"f": print}, "the function `c.f` of `a:b/c` is missing")
    fumehood.Host(capabilities=[fumehood.Capability("orders", "a", two, {"c.f": print, "d.f": print})])


async def test_coroutines_run_on_the_event_loop_that_uses_the_host(cache: pathlib.Path, wit: str) -> None:
    loops = []

    async def count(context: fumehood.CapabilityContext, number: int) -> int:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return number

    stage = Orders(cache, wit, "in_process", count=count, save=lambda context, order: count(context, order["id"]))
    await stage.host.load(COMPONENT, capabilities={"orders": None})
    results = await asyncio.gather(*[stage.host.call("orders__count", {"number": number}) for number in range(20)])
    assert [result.structured for result in results] == list(range(20))
    assert set(loops) == {asyncio.get_running_loop()}
    with pytest.raises(RuntimeError, match="await the call"):
        stage.call("count", {"number": 1})
    with pytest.raises(fumehood.HostError, match="expected a record"):
        await stage.host.call("orders__save", {"order": ARGUMENTS})


def test_without_an_event_loop_coroutines_run_on_a_thread(cache: pathlib.Path, wit: str) -> None:
    threads = []

    async def count(context: fumehood.CapabilityContext, number: int) -> int:
        threads.append(threading.current_thread().name)
        return number

    stage = Orders(cache, wit, "in_process", count=count).load()
    for number in range(3):
        assert stage.call("count", {"number": number}).structured == number
    assert threads == ["fumehood-functions"] * 3
    # A loop that was closed is followed by the next one.
    for _ in range(2):
        assert asyncio.run(stage.host.call("orders__count", {"number": 5})).structured == 5
    assert stage.call("count", {"number": 6}).structured == 6
    assert threads[-1] == "fumehood-functions" and threads[-2] == "MainThread"


def test_a_coroutine_is_cancelled_at_the_deadline(orders: Callable[..., Orders]) -> None:
    ended = threading.Event()

    async def wait(context: fumehood.CapabilityContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            assert context.cancelled
            ended.set()

    stage = orders(wait=wait).load()
    began = time.monotonic()
    error = stage.call("wait", {}, limits={"deadline": 0.3}).error
    assert error is not None and error.kind == "deadline"
    assert time.monotonic() - began < 5
    assert ended.wait(5)


async def test_a_coroutine_is_cancelled_with_its_call(cache: pathlib.Path, wit: str) -> None:
    began = asyncio.Event()
    ended = asyncio.Event()

    async def wait(context: fumehood.CapabilityContext) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    stage = Orders(cache, wit, "in_process", wait=wait)
    await stage.host.load(COMPONENT, capabilities={"orders": None}, limits={"deadline": 60})
    task = asyncio.create_task(stage.host.call("orders__wait"))
    await asyncio.wait_for(began.wait(), 10)
    task.cancel()
    await asyncio.wait_for(ended.wait(), 10)


def test_functions_that_never_return_are_left_behind(cache: pathlib.Path, wit: str) -> None:
    release = threading.Event()
    stopped = []

    def wait(context: fumehood.CapabilityContext) -> None:
        release.wait(60)
        stopped.append(context.cancelled)

    stage = Orders(cache, wit, "in_process", wait=wait).load()
    for _ in range(3):
        began = time.monotonic()
        error = stage.call("wait", {}, limits={"deadline": 0.2}).error
        assert error is not None and error.kind == "deadline"
        assert time.monotonic() - began < 5
    assert stage.call("count", {"number": 1}).structured == 1
    release.set()
    until = time.monotonic() + 10
    while len(stopped) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert stopped == [True] * 3


def test_a_component_that_calls_in_a_loop_is_stopped(orders: Callable[..., Orders]) -> None:
    counted = []
    stage = orders(count=lambda context, number: counted.append(number) or number).load()
    began = time.monotonic()
    error = stage.call("count-forever", {}, limits={"deadline": 1}).error
    assert error is not None and error.kind == "deadline"
    assert time.monotonic() - began < 6
    assert counted
    assert stage.call("count", {"number": 1}).structured == 1


def test_functions_on_threads_run_at_once(cache: pathlib.Path, wit: str) -> None:
    barrier = threading.Barrier(4, timeout=20)

    def wait(context: fumehood.CapabilityContext) -> None:
        barrier.wait()

    stage = Orders(cache, wit, "in_process", wait=wait).load()
    callers = [threading.Thread(target=stage.call, args=("wait", {})) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert not barrier.broken
