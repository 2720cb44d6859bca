"""The adapter of Semantic Kernel, with a service as connectors have it: it calls a tool, and repeats what the tool said."""

import asyncio
import json
import pathlib
from typing import Any, ClassVar

import pytest
from conftest import ARGUMENTS, FAILURES, OUTPUTS, until
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_calling_utils import update_settings_from_function_call_configuration
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import AuthorRole, ChatHistory, ChatMessageContent, FunctionCallContent, FunctionResultContent

import fumehood
import fumehood.semantic_kernel


class Settings(PromptExecutionSettings):
    tools: Any = None
    tool_choice: Any = None


class Scripted(ChatCompletionClientBase):
    """A service that calls a function, and then repeats what the function said."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    function: str
    arguments: str
    offered: dict[str, Any] = {}

    def get_prompt_execution_settings_class(self) -> type[PromptExecutionSettings]:
        return Settings

    def _update_function_choice_settings_callback(self) -> Any:
        return update_settings_from_function_call_configuration

    async def _inner_get_chat_message_contents(
        self, chat_history: ChatHistory, settings: PromptExecutionSettings
    ) -> list[ChatMessageContent]:
        assert isinstance(settings, Settings)
        self.offered |= {tool["function"]["name"]: tool["function"] for tool in settings.tools}
        (last,) = chat_history.messages[-1].items
        if isinstance(last, FunctionResultContent):
            return [ChatMessageContent(role=AuthorRole.ASSISTANT, content=str(last.result))]
        call = FunctionCallContent(id="1", name=self.function, arguments=self.arguments)
        return [ChatMessageContent(role=AuthorRole.ASSISTANT, items=[call])]


async def run(host: fumehood.Host, function: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns what an agent read of a call, and the definitions of functions that its service got."""
    service = Scripted(ai_model_id="m", function=f"fumehood-{function}", arguments=json.dumps(arguments), offered={})
    plugin = fumehood.semantic_kernel.plugin(host)
    agent = ChatCompletionAgent(service=service, name="a", instructions="Use tools.", plugins=[plugin])
    return str(await agent.get_response(messages="Go.")), service.offered


async def test_agent_passes_arguments_of_all_names(echo: fumehood.Host) -> None:
    said, offered = await run(echo, "echo__echo", {"arguments": ARGUMENTS})
    assert json.loads(said) == ARGUMENTS
    (tool,) = echo.tools()
    assert offered["fumehood-echo__echo"]["parameters"]["properties"] == {"arguments": tool.input_schema}
    assert (await run(echo, "echo__echo", {}))[0] == "{}"
    assert (await run(echo, "echo__echo", {"arguments": 5}))[0].startswith("invalid_arguments: ")


async def test_models_get_the_schema_of_the_tool(calculator: fumehood.Host) -> None:
    _, offered = await run(calculator, "calculator__add", {"a": 3, "b": 5})
    assert len(offered) == len(calculator.tools())
    for tool in calculator.tools():
        definition = offered[f"fumehood-{tool.alias}"]
        assert definition["description"] == tool.description
        for member in ("type", "properties", "required"):
            assert definition["parameters"][member] == tool.input_schema[member]


async def test_schemas_with_definitions_stay_whole(host: fumehood.Host, components: pathlib.Path) -> None:
    host.load_sync(components / "chart.wasm")
    said, offered = await run(host, "chart__draw", {"arguments": {"title": "T", "labels": ["a"], "values": [1]}})
    assert '"values":[1.0]' in said
    parameters = offered["fumehood-chart__draw"]["parameters"]
    reference = parameters["properties"]["arguments"]["properties"]["kind"]["$ref"]
    part: Any = parameters
    for member in reference.removeprefix("#/").split("/"):
        part = part[member]
    assert [kind["const"] for kind in part["oneOf"]] == ["bar", "line"]


@pytest.mark.parametrize(("tool", "arguments"), OUTPUTS)
async def test_agent_reads_results(conformance: fumehood.Host, tool: str, arguments: dict[str, Any]) -> None:
    said, _ = await run(conformance, tool, arguments)
    assert said == conformance.call_sync(tool, arguments).model_text


@pytest.mark.parametrize(("tool", "arguments", "expected", "is_refused"), FAILURES)
async def test_agent_reads_failures(
    calculator: fumehood.Host, tool: str, arguments: dict[str, Any], expected: str, is_refused: bool
) -> None:
    said, _ = await run(calculator, tool, arguments)
    assert said.startswith(expected)
    assert said.endswith("the tool did not run)") == is_refused


async def test_tools_get_no_other_arguments_of_the_kernel(calculator: fumehood.Host) -> None:
    kernel = Kernel()
    kernel.add_plugin(fumehood.semantic_kernel.plugin(calculator, "sums"))
    add = kernel.get_function("sums", "calculator__add")
    assert str(await kernel.invoke(add, a=3, b=5, user="ann")) == '{"result":8}'
    assert [str(part) async for part in kernel.invoke_stream(add, a=3, b=5, user="ann")] == ['{"result":8}']


async def test_long_names_are_shortened(host: fumehood.Host, components: pathlib.Path) -> None:
    await host.load(components / "calculator.wasm", name="n" * 64)
    plugin = fumehood.semantic_kernel.plugin(host)
    names = {function.description: function.name for function in plugin}
    said, offered = await run(host, names["Adds two numbers: a + b."], {"a": 3, "b": 5})
    assert said == '{"result":8}'
    assert len(offered) == len(host.tools()) and {len(name) for name in offered} == {64}


async def test_cancelling_a_run_stops_the_guest(countdown: fumehood.Host) -> None:
    running = asyncio.ensure_future(run(countdown, "countdown__countdown", {"from": 1000, "step_ms": 50}))
    await until(lambda: countdown.running == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: countdown.running == 0)
