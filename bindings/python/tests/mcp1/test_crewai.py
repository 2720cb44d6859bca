"""The adapter of CrewAI, with a model of its base class: it calls a tool, and repeats what the tool said."""

import asyncio
import json
import os
import pathlib
from typing import Any

import pytest
from conftest import ARGUMENTS, FAILURES, OUTPUTS, until

import fumehood

# Before the import, or it would report the use of this machine.
os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import Agent, BaseLLM, Crew, Task  # noqa: E402
from crewai.tasks.task_output import TaskOutput  # noqa: E402
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason  # noqa: E402
from crewai.utilities.agent_utils import convert_tools_to_openai_schema  # noqa: E402
from crewai.utilities.string_utils import sanitize_tool_name  # noqa: E402
from pydantic import PrivateAttr  # noqa: E402

import fumehood.crewai  # noqa: E402

# CrewAI reads members of its own that it has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Scripted(BaseLLM):
    """A model that calls a tool, and then repeats what the tool said."""

    _call: dict[str, Any] = PrivateAttr(default={})

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, *_: Any, **__: Any) -> Any:
        said = [message["content"] for message in messages if message["role"] == "tool"]
        return said[-1] if said else [{"id": "1", "type": "function", "function": self._call}]


def run(host: fumehood.Host, tool: str, arguments: dict[str, Any]) -> TaskOutput:
    """Returns the output of a task that is what a tool said. CrewAI has its own form of names."""
    model = Scripted(model="m")
    model._call = {"name": sanitize_tool_name(tool), "arguments": json.dumps(arguments)}
    agent = Agent(role="r", goal="g", backstory="b", llm=model, tools=fumehood.crewai.tools(host))
    task = Task(description="Use a tool.", expected_output="What it says.", agent=agent)
    (output,) = Crew(agents=[agent], tasks=[task]).kickoff().tasks_output
    return output


@pytest.fixture(autouse=True)
def storage(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Keeps what CrewAI stores out of the user's folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


def test_agent_passes_arguments_of_all_names(echo: fumehood.Host) -> None:
    assert json.loads(run(echo, "echo__echo", ARGUMENTS).raw) == ARGUMENTS


def test_models_get_the_schema_of_the_tool(calculator: fumehood.Host) -> None:
    offered, _, tools = convert_tools_to_openai_schema(fumehood.crewai.tools(calculator))
    for definition in (tool["function"] for tool in offered):
        tool = calculator.tool(tools[definition["name"]].name)
        assert tool is not None and definition["description"] == tool.description
        # CrewAI takes the description of the arguments away.
        assert definition["parameters"] == {key: tool.input_schema[key] for key in tool.input_schema if key != "description"}


@pytest.mark.parametrize(("tool", "arguments"), OUTPUTS)
def test_agent_reads_results(conformance: fumehood.Host, tool: str, arguments: dict[str, Any]) -> None:
    output = run(conformance, tool, arguments)
    assert (output.raw, output.tool_failures) == (conformance.call_sync(tool, arguments).model_text, [])


@pytest.mark.parametrize(("tool", "arguments", "expected", "is_refused"), FAILURES)
def test_agent_reads_failures(
    calculator: fumehood.Host, tool: str, arguments: dict[str, Any], expected: str, is_refused: bool
) -> None:
    output = run(calculator, tool, arguments)
    assert output.raw.startswith(expected)
    (record,) = output.tool_failures
    assert (record.failure.reason == ToolFailureReason.INVALID_INPUT) == is_refused


def test_nulls_of_optional_arguments_are_left_out(host: fumehood.Host, components: pathlib.Path) -> None:
    host.load_sync(components / "text.wasm")
    arguments = {"text": "ab", "pattern": "a", "replacement": "c", "ignore_case": None, "limit": None}
    assert not host.call_sync("text__regex_replace", arguments).ok
    assert run(host, "text__regex_replace", arguments).raw == '{"replacements":1,"text":"cb"}'


def test_results_are_not_repeated_from_a_cache(calculator: fumehood.Host) -> None:
    assert not any(tool.cache_function({}, "") for tool in fumehood.crewai.tools(calculator))


def test_long_names_are_shortened(host: fumehood.Host, components: pathlib.Path) -> None:
    host.load_sync(components / "calculator.wasm", name="n" * 64)
    add = host.tool("n" * 64 + "__add")
    assert add is not None
    assert run(host, add.alias, {"a": 3, "b": 5}).raw == '{"result":8}'


async def test_cancelling_a_call_stops_the_guest(countdown: fumehood.Host) -> None:
    (tool,) = fumehood.crewai.tools(countdown)
    running = asyncio.ensure_future(tool.arun(**{"from": 1000, "step_ms": 50}))
    await until(lambda: countdown.running == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: countdown.running == 0)
    assert isinstance(await tool.arun(**{"from": "x"}), ToolFailure)
