"""A program that uses all of the interface, for the type checker: each line with `type: ignore` must be an error."""

from datetime import timedelta

import fumehood
import fumehood.agent
import fumehood.langchain
import fumehood.llama_index
import fumehood.mcp
import fumehood.openai_agents
import fumehood.pydantic_ai


async def select(context: fumehood.CapabilityContext, table: str) -> int:
    if table not in context.grant["tables"]:
        context.refuse(f"reading {table}", "it was not granted")
        raise fumehood.Err("denied")
    seconds: float = context.time_left
    return int(seconds)


async def use() -> None:
    database = fumehood.Capability("database", "read tables", "package a:b;", {"select": select, "size": len})
    host = fumehood.Host(
        limits={"deadline": "2s", "memory": "64MiB"}, isolation="process", cache="cache", capabilities=[database]
    )
    await host.load("b.wasm", capabilities={"database": {"tables": ["orders"]}})
    async for observed in host.subscribe():
        if isinstance(observed, fumehood.CallEvent) and isinstance(observed.event, fumehood.LogLine):
            print(observed.id, observed.event.message)
        elif isinstance(observed, fumehood.Lost):
            lost: int = observed.count
            print(lost)
    grants: fumehood.Grants = {
        "read": ["./docs:/docs"],
        "write": [{"folder": "./out", "guest": "/out", "bytes": "10MiB"}],
        "http": ["GET https://api.example.com/v1/**"],
        "secrets": [{"name": "a", "from": {"env": "A"}, "for": "https://api.example.com/**", "header": "Authorization"}],
        "key_value": "1MiB",
    }
    component = await host.load("a.wasm", name="a", grants=grants, limits={"deadline": timedelta(seconds=5)}, replace=True)
    digest: str = component.digest
    result = await host.call("a__b", {"c": digest}, limits={"deadline": 2.5}, id="7", actor="ann", state={"d": 1})
    value = result.json()
    print(value, result.ran, fumehood.Result.from_json(result.to_json()).ok)
    if result.error is not None:
        kind: str = result.error.kind
        print(kind)
    async for event in host.stream("a__b"):
        if isinstance(event, fumehood.Progress):
            fraction: float | None = event.fraction
            print(fraction)
    server = await host.add_server("s", command=["server"], env={"A": "b"}, timeout=2.5, tools=["a"])
    print(server.tools, await host.remove_server("s"))

    async def model(request: fumehood.agent.ModelRequest) -> fumehood.agent.Reply:
        return {"content": request["messages"][0]["content"], "usage": {"input": 1}}

    agent = host.agent(model, allow=["a__b"], ask=[], approve=lambda call: call["tool"] == "a", budget={"turns": 2, "wall_time": 2.5})
    done: fumehood.AgentResult = await agent.run("Hello.")
    print(done.text, [call.result.ok for call in done.calls])
    host.agent(lambda request: 5)  # type: ignore[arg-type, return-value]
    fumehood.langchain.tools(host)
    fumehood.llama_index.tools(host)
    fumehood.pydantic_ai.tools(host)
    fumehood.openai_agents.tools(host)
    fumehood.mcp.server(host)
    await host.load("a.wasm", grants={"raed": []})  # type: ignore[arg-type]
    await host.load("a.wasm", limits={"deadline": b"5"})  # type: ignore[arg-type]
    fumehood.Host(isolation="jail")  # type: ignore[arg-type]
    result.ok = False  # type: ignore[misc]
    await host.call(1)  # type: ignore[arg-type]
