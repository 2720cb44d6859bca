"""Measures the cost of a call from Python, beside the Python packages of wasmtime and Extism in the same run.

    bindings/python/build release target/wheels
    python3 -m venv bench && bench/bin/pip install target/wheels/fumehood-*-abi3-*.whl wasmtime extism
    bench/bin/python bindings/python/bench.py

Each calls a function that returns its text, with 1 KB, and one that computes for some 50 µs, on one thread and on several: of a call that
returns at once, most of the time is Python's own, which holds the interpreter's lock, so that threads gain nothing there. A host of Fumehood makes a fresh instance for each call, checks the arguments, and
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
WORK_CALLS = 4_000
ROUNDS = 5
THREADS = (2, 8)
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

# Counts down from 100,000.
LOOP = """
      (local $left i32)
      (local.set $left (i32.const 100000))
      (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
"""

WORK = f"""
(component
  (core module $m (func (export "work") {LOOP}))
  (core instance $i (instantiate $m))
  (func (export "work") (canon lift (core func $i "work"))))
"""

EXTISM_WORK = f"""
(module (func (export "work") (result i32) {LOOP} (i32.const 0)))
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


def measure(name: str, call: Callable[[], object], calls: int = CALLS) -> None:
    """Measures calls from one thread."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append(time.perf_counter() - begun)
    report(name, calls, rounds)


def measure_threads(name: str, make: Callable[[], Callable[[], object]], calls: int = WORK_CALLS) -> None:
    """Measures calls from one thread and from several; `make` makes what a thread calls."""
    measure(f"{name}, 1 thread", make(), calls)
    for count in THREADS:
        rounds = []
        for _ in range(ROUNDS):
            ready = threading.Barrier(count + 1)

            def work(call: Callable[[], object], ready: threading.Barrier = ready, count: int = count) -> None:
                ready.wait()
                for _ in range(calls // count):
                    call()

            threads = [threading.Thread(target=work, args=(make(),)) for _ in range(count)]
            for thread in threads:
                thread.start()
            ready.wait()
            begun = time.perf_counter()
            for thread in threads:
                thread.join()
            rounds.append(time.perf_counter() - begun)
        report(f"{name}, {count} threads", calls, rounds)


def bench_fumehood(component: bytes, work: bytes) -> None:
    host = fumehood.Host()
    host.load_sync(component, name="echo")
    host.load_sync(work, name="work")
    name, arguments = "echo__echo", {"text": TEXT}
    result = host.call_sync(name, arguments)
    assert result.text == TEXT or result.structured == TEXT, result
    assert host.call_sync("work__work").ok
    for tool, given in ((name, arguments), ("work__work", {})):
        inside = [host.call_sync(tool, given).metadata["duration_ms"] * 1e3 for _ in range(1000)]
        print(f"{f'fumehood: in the sandbox, of one {tool}':<44} {statistics.median(inside):8.1f} µs")
    measure("fumehood, call_sync", lambda: host.call_sync(name, arguments))
    measure_threads("fumehood, work", lambda: lambda: host.call_sync("work__work"))

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


def bench_wasmtime(component: bytes, work: bytes) -> None:
    import wasmtime
    from wasmtime import component as components

    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)

    def caller(bytes: bytes, name: str, *arguments: object) -> Callable[[], object]:
        compiled, linker = components.Component(engine, bytes), components.Linker(engine)

        def call() -> object:
            store = wasmtime.Store(engine)
            store.set_fuel(10_000_000_000)
            function = linker.instantiate(store, compiled).get_func(store, name)
            result = function(store, *arguments)
            function.post_return(store)
            return result

        return call

    echo, loop = caller(component, "echo", TEXT), caller(work, "work")
    assert echo() == TEXT
    measure("wasmtime, a fresh instance", echo)
    measure_threads("wasmtime, work", lambda: loop)


def bench_extism(module: bytes, work: bytes) -> None:
    import extism

    def caller(bytes: bytes, name: str, text: str) -> Callable[[], object]:
        plugin = extism.Plugin({"wasm": [{"data": bytes}], "timeout_ms": 10_000}, wasi=False)
        return lambda: plugin.call(name, text)

    echo = caller(module, "echo", TEXT)
    assert bytes(echo()) == TEXT.encode()  # type: ignore[call-overload]
    measure("extism, one instance for all calls", echo)
    measure_threads("extism, work", lambda: caller(work, "work", ""))


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
    print(f"{CALLS} calls with 1 KB, {WORK_CALLS} with work, the median of {ROUNDS} rounds")
    component, work = bytes(wat2wasm(ECHO)), bytes(wat2wasm(WORK))
    bench_fumehood(component, work)
    bench_cancellation(bytes(wat2wasm(SPIN)))
    bench_wasmtime(component, work)
    try:
        bench_extism(bytes(wat2wasm(EXTISM_ECHO)), bytes(wat2wasm(EXTISM_WORK)))
    except ImportError:
        print("SKIPPED extism: it is not installed")


if __name__ == "__main__":
    main()
