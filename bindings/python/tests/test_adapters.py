"""Adapters of agent frameworks, each with the framework's own model for tests: it calls a tool, and reads what the tool said."""

import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import mcp
import pytest
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from conftest import ARGUMENTS
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import fumehood
import fumehood.langchain
import fumehood.mcp
import fumehood.openai_agents
import fumehood.pydantic_ai

models.ALLOW_MODEL_REQUESTS = False
set_tracing_disabled(True)


async def test_langchain_passes_arguments_of_all_names(echo: fumehood.Host) -> None:
    (tool,) = fumehood.langchain.tools(echo)
    assert tool.args == {}
    call = ToolCall(name=tool.name, args=ARGUMENTS, id="1", type="tool_call")
    for message in (await tool.ainvoke(call), tool.invoke(call), await tool.ainvoke(call, {"tags": ["a"]})):
        assert message.status == "success", message
        assert message.artifact.structured == ARGUMENTS
    assert (await tool.ainvoke({"self": 1, "config": 2})) == tool.invoke({"self": 1, "config": 2}) == '{"self":1,"config":2}'


async def test_pydantic_ai_passes_arguments_of_all_names(echo: fumehood.Host) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        last = messages[-1].parts[-1]
        if len(messages) == 1:
            return PydanticResponse(parts=[ToolCallPart("echo__echo", ARGUMENTS)])
        assert isinstance(last, ToolReturnPart)
        return PydanticResponse(parts=[TextPart(str(last.content))])

    run = await PydanticAgent(FunctionModel(model), tools=fumehood.pydantic_ai.tools(echo)).run("Echo.")
    assert json.loads(run.output) == ARGUMENTS


async def test_openai_agents_pass_arguments_of_all_names(echo: fumehood.Host) -> None:
    model = ScriptedModel(json.dumps(ARGUMENTS), "echo__echo")
    run = await Runner.run(Agent(name="a", model=model, tools=fumehood.openai_agents.tools(echo)), "Echo.")
    assert json.loads(str(run.final_output)) == ARGUMENTS


async def test_mcp_clients_pass_arguments_of_all_names(echo: fumehood.Host) -> None:
    async with mcp.Client(fumehood.mcp.server(echo)) as client:
        done = await client.call_tool("echo__echo", ARGUMENTS)
        assert done.structured_content == ARGUMENTS


async def test_langchain_calls_tools(calculator: fumehood.Host) -> None:
    tools = {tool.name: tool for tool in fumehood.langchain.tools(calculator)}
    add = tools["calculator__add"]
    assert add.args_schema == calculator.tools()[0].input_schema and add.description == "Adds two numbers: a + b."

    def call(**arguments: object) -> ToolCall:
        return ToolCall(name=add.name, args=arguments, id="1", type="tool_call")

    for message in (await add.ainvoke(call(a=3, b=5)), add.invoke(call(a=3, b=5))):
        assert isinstance(message, ToolMessage) and (message.status, message.content) == ("success", '{"result":8}')
        assert message.artifact.structured == {"result": 8}
    for message in (await add.ainvoke(call(a="x", b=5)), add.invoke(call(a="x", b=5))):
        assert isinstance(message, ToolMessage) and message.status == "error"
        assert "/a: expected a number" in str(message.content)


async def test_langchain_binds_tools_to_a_model(calculator: fumehood.Host) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    offered = [convert_to_openai_tool(tool) for tool in fumehood.langchain.tools(calculator)]
    add = next(tool["function"] for tool in offered if tool["function"]["name"] == "calculator__add")
    assert set(add["parameters"]["properties"]) == {"a", "b"} and add["parameters"]["required"] == ["a", "b"]


async def test_langchain_agent_answers_with_a_tool(calculator: fumehood.Host) -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            assert "calculator__add" in {tool.name for tool in tools}
            return self

    call = ToolCall(name="calculator__add", args={"a": 3, "b": 5}, id="1", type="tool_call")
    model = Scripted(messages=iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="It is 8.")]))
    agent = create_agent(model, fumehood.langchain.tools(calculator))
    state = await agent.ainvoke({"messages": [{"role": "user", "content": "3 + 5?"}]})
    assert [message.content for message in state["messages"]][2:] == ['{"result":8}', "It is 8."]


async def test_pydantic_ai_calls_every_tool(calculator: fumehood.Host) -> None:
    model = TestModel(call_tools=["calculator__add"])
    agent = PydanticAgent(model, tools=fumehood.pydantic_ai.tools(calculator))
    run = await agent.run("Add.")
    assert json.loads(run.output) == {"calculator__add": '{"result":0}'}


async def test_pydantic_ai_asks_again_for_refused_arguments(calculator: fumehood.Host) -> None:
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        last = messages[-1].parts[-1]
        if len(messages) == 1:
            return PydanticResponse(parts=[ToolCallPart("calculator__divide", {"a": "4", "b": 2})])
        assert isinstance(last, ToolReturnPart)
        content = str(last.content)
        if not content.startswith("invalid_arguments"):
            return PydanticResponse(parts=[TextPart(content)])
        seen.append(last.outcome)
        return PydanticResponse(parts=[ToolCallPart("calculator__divide", {"a": 4, "b": 2})])

    agent = PydanticAgent(FunctionModel(model), tools=fumehood.pydantic_ai.tools(calculator))
    run = await agent.run("Divide.")
    assert run.output == '{"result":2}' and seen != ["success"] and len(seen) == 1


@pytest.mark.parametrize(
    ("arguments", "retried"),
    [({"expression": "1+"}, [False] * 5), ({"expression": 1}, [True, True, True, False, True])],
)
async def test_pydantic_ai_retries_only_what_the_host_refused(
    calculator: fumehood.Host, arguments: dict[str, object], retried: list[bool]
) -> None:
    returned: list[ToolReturnPart] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            returned.append(last)
        if len(returned) == 5:
            return PydanticResponse(parts=[TextPart("I give up.")])
        return PydanticResponse(parts=[ToolCallPart("calculator__evaluate", arguments)])

    # A tool that always refuses arguments, and a model that never corrects them: neither ends the run.
    tools = fumehood.pydantic_ai.tools(calculator, max_retries=3)
    run = await PydanticAgent(FunctionModel(model), tools=tools).run("Calculate.")
    assert run.output == "I give up."
    assert all(str(part.content).startswith("invalid_arguments: ") for part in returned)
    # The retries come back as failures; the answer of a tool is a result.
    assert [part.outcome != "success" for part in returned] == retried


async def test_long_names_are_shortened_for_providers(host: fumehood.Host, components: pathlib.Path) -> None:
    await host.load(components / "calculator.wasm", name="n" * 64)
    aliases = [tool.alias for tool in host.tools()]
    assert all(len(alias) == 64 for alias in aliases)
    langchain_tools = {tool.name: tool for tool in fumehood.langchain.tools(host)}
    add = next(alias for alias in aliases if host.tool(alias) and "__add" in host.tool(alias).name)  # type: ignore[union-attr]
    assert await langchain_tools[add].ainvoke({"a": 3, "b": 5}) == '{"result":8}'
    model = TestModel(call_tools=[add])
    run = await PydanticAgent(model, tools=fumehood.pydantic_ai.tools(host)).run("Add.")
    assert json.loads(run.output) == {add: '{"result":0}'}
    scripted = ScriptedModel('{"a":3,"b":5}', add)
    done = await Runner.run(Agent(name="a", model=scripted, tools=fumehood.openai_agents.tools(host)), "3 + 5?")
    assert str(done.final_output) == '{"result":8}'
    async with mcp.Client(fumehood.mcp.server(host)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(aliases)
        for name in (add, "n" * 64 + "__add"):
            assert (await client.call_tool(name, {"a": 3, "b": 5})).structured_content == {"result": 8}


async def test_mcp_clients_get_the_progress_that_they_ask_for(countdown: fumehood.Host) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async with mcp.Client(fumehood.mcp.server(countdown)) as client:
        arguments = {"from": 3, "step_ms": 5}
        done = await client.call_tool("countdown__countdown", arguments, progress_callback=report)
        assert done.structured_content == {"from": 3, "waited_ms": 15}
        assert [(total, message) for _, total, message in reports] == [(1.0, "1 of 3"), (1.0, "2 of 3"), (1.0, "3 of 3")]
        assert sorted({progress for progress, *_ in reports}) == [progress for progress, *_ in reports]
        refused = await client.call_tool("countdown__countdown", {"from": "x"}, progress_callback=report)
        assert refused.is_error and len(reports) == 3


class ScriptedModel(Model):
    """A model of the OpenAI Agents SDK that calls a tool and then repeats what it said."""

    def __init__(self, arguments: str, tool: str = "calculator__add") -> None:
        self.arguments, self.tool = arguments, tool
        self.offered: set[str] = set()

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        input, tools = options.get("input", args[1] if len(args) > 1 else None), options.get("tools", args[3:4])
        self.offered |= {tool.name for tool in (tools[0] if isinstance(tools, tuple) else tools)}
        last = input[-1] if isinstance(input, list) else {}
        output: Any
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(annotations=[], text=str(last["output"]), type="output_text")
            output = ResponseOutputMessage(
                id="2", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                arguments=self.arguments, call_id="1", name=self.tool, type="function_call"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@pytest.mark.parametrize(("arguments", "expected"), [('{"a":3,"b":5}', '{"result":8}'), ('{"a":3', "invalid_arguments")])
async def test_openai_agents_call_tools(calculator: fumehood.Host, arguments: str, expected: str) -> None:
    model = ScriptedModel(arguments)
    agent = Agent(name="a", model=model, tools=fumehood.openai_agents.tools(calculator))
    run = await Runner.run(agent, "3 + 5?")
    assert expected in str(run.final_output) and "calculator__evaluate" in model.offered


async def test_mcp_clients_list_and_call_tools(calculator: fumehood.Host) -> None:
    async with mcp.Client(fumehood.mcp.server(calculator)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        add = tools["calculator__add"]
        assert add.annotations is not None and add.annotations.read_only_hint is True
        assert add.input_schema["required"] == ["a", "b"]
        done = await client.call_tool("calculator__add", {"a": 3, "b": 5})
        assert (done.is_error, done.structured_content) == (False, {"result": 8})
        refused = await client.call_tool("calculator__add", {"a": "x", "b": 5})
        assert refused.is_error and "/a: expected a number" in str(refused.content)
