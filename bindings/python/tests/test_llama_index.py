"""The adapter of LlamaIndex, with the framework's own model for tests: it calls a tool, and repeats what the tool said."""

import asyncio
import json
import pathlib
from typing import Any

import pytest
from conftest import ARGUMENTS, FAILURES, OUTPUTS, until
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import ToolOutput
from llama_index.core.tools.calling import acall_tool, call_tool

import fumehood
import fumehood.llama_index

# LlamaIndex looks at all members of its models, also the deprecated ones.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Scripted(MockFunctionCallingLLM):
    """A model that calls a tool, and then repeats what the tool said."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        def respond(messages: list[ChatMessage], tools: Any = None, **_: Any) -> ChatMessage:
            if messages[-1].role == MessageRole.TOOL:
                return ChatMessage(role=MessageRole.ASSISTANT, content=messages[-1].content)
            call = ToolCallBlock(tool_call_id="1", tool_name=tool, tool_kwargs=arguments)
            return ChatMessage(role=MessageRole.ASSISTANT, blocks=[call])

        super().__init__(response_generator=respond)


async def run(host: fumehood.Host, tool: str, arguments: dict[str, Any]) -> ToolOutput:
    """Returns what an agent read of a call."""
    agent = FunctionAgent(tools=fumehood.llama_index.tools(host), llm=Scripted(tool, arguments))
    done = await agent.run("Go.")
    (call,) = done.tool_calls
    assert str(done) == call.tool_output.content
    return call.tool_output


async def test_agent_passes_arguments_of_all_names(echo: fumehood.Host) -> None:
    output = await run(echo, "echo__echo", ARGUMENTS)
    assert output.raw_output["content"] == [{"type": "json", "value": ARGUMENTS}]


async def test_single_arguments_are_passed_by_name(host: fumehood.Host, components: pathlib.Path) -> None:
    host.load_sync(components / "calculator.wasm")
    (evaluate,) = [tool for tool in fumehood.llama_index.tools(host) if tool.metadata.name == "calculator__evaluate"]
    for output in (
        call_tool(evaluate, {"expression": "1+1"}),
        await acall_tool(evaluate, {"expression": "1+1"}),
        evaluate(expression="1+1"),
    ):
        assert (output.content, output.is_error) == ('{"result":2}', False)


def test_models_get_the_schema_of_the_tool(host: fumehood.Host, components: pathlib.Path) -> None:
    host.load_sync(components / "chart.wasm")
    (tool,) = host.tools()
    (adapted,) = fumehood.llama_index.tools(host)
    assert adapted.metadata.to_openai_tool()["function"] == {
        "name": tool.alias,
        "description": tool.description,
        "parameters": tool.input_schema,
    }


@pytest.mark.parametrize(("tool", "arguments"), OUTPUTS)
async def test_agent_reads_results(conformance: fumehood.Host, tool: str, arguments: dict[str, Any]) -> None:
    output = await run(conformance, tool, arguments)
    assert (output.content, output.is_error) == (conformance.call_sync(tool, arguments).model_text, False)


@pytest.mark.parametrize(("tool", "arguments", "expected", "is_refused"), FAILURES)
async def test_agent_reads_failures(
    calculator: fumehood.Host, tool: str, arguments: dict[str, Any], expected: str, is_refused: bool
) -> None:
    output = await run(calculator, tool, arguments)
    assert output.is_error and output.content.startswith(expected)
    assert output.content.endswith("the tool did not run)") == is_refused


async def test_react_agent_reads_the_schema_as_text(calculator: fumehood.Host) -> None:
    agent = ReActAgent(tools=fumehood.llama_index.tools(calculator), llm=Scripted("", {}))
    (prompt, *_) = agent.formatter.format(fumehood.llama_index.tools(calculator), [], [])
    assert '"description": "The first number."' in str(prompt.content)


async def test_output_can_be_saved_as_json(calculator: fumehood.Host) -> None:
    output = await run(calculator, "calculator__add", {"a": 3, "b": 5})
    saved = json.loads(output.model_dump_json())
    assert fumehood.Result.from_json(json.dumps(saved["raw_output"])).structured == {"result": 8}


async def test_long_names_are_shortened(host: fumehood.Host, components: pathlib.Path) -> None:
    await host.load(components / "calculator.wasm", name="n" * 64)
    add = host.tool("n" * 64 + "__add")
    assert add is not None and len(add.alias) == 64
    assert (await run(host, add.alias, {"a": 3, "b": 5})).content == '{"result":8}'


async def test_cancelling_a_run_stops_the_guest(countdown: fumehood.Host) -> None:
    running = asyncio.ensure_future(run(countdown, "countdown__countdown", {"from": 1000, "step_ms": 50}))
    await until(lambda: countdown.running == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: countdown.running == 0)
