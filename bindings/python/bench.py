"""Measures the cost of a call from Python, beside the Python packages of wasmtime and Extism in the same run.

    bindings/python/build release target/wheels
    python3 -m venv bench && bench/bin/pip install target/wheels/fumehood-*-abi3-*.whl wasmtime extism
    bench/bin/python bindings/python/bench.py

Each calls a function that returns its text, with 1 KB. A host of Fumehood makes a fresh instance for each call, checks the arguments, and
keeps a deadline, fuel and a memory limit. wasmtime makes a fresh store and instance, with fuel. Extism calls one instance again and
again, which keeps what a call left behind. A package that is not installed is left out, which is printed.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable

import fumehood

CALLS = 20_000
ROUNDS = 5
THREADS = 8
TEXT = "x" * 1024

ECHO = """
(component
  (core module $m
    (memory (export "memory") 2)
    (global $next (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at))
    (func (export "echo") (param i32 i32) (result i32)
      (i32.store (i32.const 16) (local.get 0))
      (i32.store (i32.const 20) (local.get 1))
      (i32.const 16)))
  (core instance $i (instantiate $m))
  (func (export "echo") (param "text" string) (result string)
    (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
"""

EXTISM_ECHO = """
(module
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "echo") (result i32)
    (call $output_set (call $input_offset) (call $input_length))
    (i32.const 0)))
"""


def report(name: str, calls: int, rounds: list[float]) -> None:
    """Prints the median of some rounds of calls, in microseconds for each call."""
    each = [seconds / calls * 1e6 for seconds in rounds]
    print(f"{name:<44} {statistics.median(each):8.1f} µs   {1e6 / statistics.median(each):10,.0f} calls/s")


def measure(name: str, call: Callable[[], object]) -> None:
    rounds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append(time.perf_counter() - begun)
    report(name, CALLS, rounds)


def measure_threads(name: str, call: Callable[[], object]) -> None:
    def work() -> None:
        for _ in range(CALLS // THREADS):
            call()

    rounds = []
    for _ in range(ROUNDS):
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rounds.append(time.perf_counter() - begun)
    report(f"{name}, {THREADS} threads", CALLS, rounds)


def bench_fumehood(component: bytes) -> None:
    host = fumehood.Host()
    host.load_sync(component, name="echo")
    name, arguments = host.tools()[0].name, {"text": TEXT}
    result = host.call_sync(name, arguments)
    assert result.text == TEXT or result.structured == TEXT, result
    inside = [host.call_sync(name, arguments).metadata["duration_ms"] * 1e3 for _ in range(1000)]
    print(f"{'fumehood: in the sandbox, of one call':<44} {statistics.median(inside):8.1f} µs")
    measure("fumehood, call_sync", lambda: host.call_sync(name, arguments))
    measure_threads("fumehood, call_sync", lambda: host.call_sync(name, arguments))

    async def measure_async() -> None:
        rounds = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            for _ in range(CALLS):
                await host.call(name, arguments)
            rounds.append(time.perf_counter() - begun)
        report("fumehood, await call", CALLS, rounds)

    asyncio.run(measure_async())


def bench_cancellation(spin: bytes) -> None:
    """Measures the time from `cancel` until the guest is gone."""
    host = fumehood.Host()
    host.load_sync(spin, name="spin", limits={"deadline": "60s", "fuel": "10000G"})

    async def stop() -> float:
        calling = asyncio.create_task(host.call("spin__run"))
        await asyncio.sleep(0.02)
        begun = time.perf_counter()
        calling.cancel()
        while host.running:
            await asyncio.sleep(0)
        return time.perf_counter() - begun

    async def measure_stops() -> list[float]:
        return [await stop() for _ in range(50)]

    stops = [seconds * 1e3 for seconds in asyncio.run(measure_stops())]
    print(f"{'fumehood: a loop that is cancelled is gone':<44} {statistics.median(stops):8.1f} ms   at most {max(stops):.1f} ms")


def bench_wasmtime(component: bytes) -> None:
    import wasmtime
    from wasmtime import component as components

    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    compiled = components.Component(engine, component)
    linker = components.Linker(engine)

    def call() -> object:
        store = wasmtime.Store(engine)
        store.set_fuel(10_000_000_000)
        echo = linker.instantiate(store, compiled).get_func(store, "echo")
        result = echo(store, TEXT)
        echo.post_return(store)
        return result

    assert call() == TEXT
    measure("wasmtime, a fresh instance", call)
    measure_threads("wasmtime, a fresh instance", call)


def bench_extism(module: bytes) -> None:
    import extism

    plugin = extism.Plugin({"wasm": [{"data": module}], "timeout_ms": 10_000}, wasi=False)
    assert bytes(plugin.call("echo", TEXT)) == TEXT.encode()
    measure("extism, one instance for all calls", lambda: plugin.call("echo", TEXT))


SPIN = """
(component
  (core module $m (func (export "run") (loop (br 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
"""


def main() -> None:
    try:
        from wasmtime import wat2wasm
    except ImportError:
        raise SystemExit("the programs of this bench are text, which the package `wasmtime` translates: install it") from None
    print(f"{CALLS} calls with 1 KB, the median of {ROUNDS} rounds")
    component = bytes(wat2wasm(ECHO))
    bench_fumehood(component)
    bench_cancellation(bytes(wat2wasm(SPIN)))
    bench_wasmtime(component)
    try:
        bench_extism(bytes(wat2wasm(EXTISM_ECHO)))
    except ImportError:
        print("SKIPPED extism: it is not installed")


if __name__ == "__main__":
    main()
