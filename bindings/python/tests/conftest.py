"""Fixtures: a host, and the components of the repository."""

import asyncio
import os
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

import fumehood

ROOT = pathlib.Path(os.environ["FUMEHOOD_ROOT"])
# Names that the frameworks, Python or this package may take for themselves.
NAMES = (
    "args arguments artifact callbacks color config context ctx func function host input input_data kwargs metadata model_config name "
    "run_context run_id run_manager run_name runtime self settings state store tags tool tool_call_id tool_input type verbose"
).split()
ARGUMENTS = {name: number for number, name in enumerate(NAMES)}
# Calls whose results are text, a picture, and JSON.
OUTPUTS: list[tuple[str, dict[str, object]]] = [
    ("mcp-conformance__test_simple_text", {}),
    ("mcp-conformance__test_image_content", {}),
    ("calculator__add", {"a": 3, "b": 5}),
]
# Failures of a call, and whether the host refused it: a tool can say of arguments what the host says.
FAILURES: list[tuple[str, dict[str, object], str, bool]] = [
    ("calculator__divide", {"a": 1, "b": 0}, "tool_failed: ", False),
    ("calculator__evaluate", {"expression": "1+"}, "invalid_arguments: ", False),
    ("calculator__evaluate", {"expression": 1}, "invalid_arguments: /expression", True),
]


def skip(what: str, why: str) -> NoReturn:
    """Leaves a test out because this machine lacks `what`; in the gate that is a failure, by the rule of `tests/skip`."""
    subprocess.run([ROOT / "tests" / "skip", what, why], check=True)
    pytest.skip(why)


async def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds. The limit is for a machine that is busy with other things."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


@pytest.fixture(scope="session")
def components() -> pathlib.Path:
    return ROOT / "example-tools" / "dist"


@pytest.fixture(scope="session")
def programs() -> pathlib.Path:
    return ROOT / "tests" / "programs"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Compiled code, so that each component is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def host(cache: pathlib.Path) -> Iterator[fumehood.Host]:
    yield fumehood.Host(cache=cache)


@pytest.fixture
def calculator(host: fumehood.Host, components: pathlib.Path) -> fumehood.Host:
    host.load_sync(components / "calculator.wasm")
    return host


@pytest.fixture
def countdown(host: fumehood.Host, components: pathlib.Path) -> fumehood.Host:
    host.load_sync(components / "countdown.wasm", limits={"deadline": "60s"})
    return host


@pytest.fixture
def echo(host: fumehood.Host) -> fumehood.Host:
    host.load_sync(pathlib.Path(__file__).parent.parent / "echo.wasm")
    return host


@pytest.fixture
def conformance(calculator: fumehood.Host, components: pathlib.Path) -> fumehood.Host:
    """A host with tools for each kind of output."""
    calculator.load_sync(components / "mcp-conformance.wasm")
    return calculator
