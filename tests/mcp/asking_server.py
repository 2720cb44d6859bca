"""A server over standard streams that asks its client, for the conformance suite behind a gateway.

Its tools, prompts and resources have the names that the suite expects. It speaks revisions with a handshake, and needs
nothing but Python.
"""

import json
import queue
import sys
import threading
from itertools import count

NUMBERS = count(1)
WRITING = threading.Lock()
ANSWERS = {}


def send(message):
    with WRITING:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params):
    """Sends a request to the client, and returns its result, or its error as a text."""
    request = f"question-{next(NUMBERS)}"
    ANSWERS[request] = queue.Queue()
    send({"id": request, "method": method, "params": params})
    answer = ANSWERS[request].get()
    return answer.get("result") or json.dumps(answer.get("error"))


def elicit(message, properties, required=()):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ask("elicitation/create", {"message": message, "requestedSchema": schema})


def sample(text):
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return ask("sampling/createMessage", {"messages": messages, "maxTokens": 100})


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def several_rounds(_arguments):
    name = elicit("Which name?", {"name": {"type": "string"}}, ["name"])
    colour = elicit("Which colour?", {"color": {"type": "string"}}, ["color"])
    return text([name, colour])


def defaults(_arguments):
    return text(elicit("Please look at these.", {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }))


def choices(_arguments):
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    options = [f"option{n}" for n in (1, 2, 3)]
    return text(elicit("Please choose.", {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }))


USER = {"username": {"type": "string"}, "email": {"type": "string"}}
NAME = {"name": {"type": "string"}}
TOOLS = {
    "test_sampling": lambda arguments: text(sample(arguments["prompt"])),
    "test_elicitation": lambda arguments: text(elicit(arguments["message"], USER, USER)),
    "test_elicitation_sep1034_defaults": defaults,
    "test_elicitation_sep1330_enums": choices,
    "test_input_required_result_elicitation": lambda _: text(elicit("Which name?", NAME, NAME)),
    "test_input_required_result_request_state": lambda _: text(elicit("Which name?", NAME, NAME)),
    "test_input_required_result_tampered_state": lambda _: text(elicit("Which name?", NAME, NAME)),
    "test_input_required_result_sampling": lambda _: text(sample("Which city is the capital of France?")),
    "test_input_required_result_multi_round": several_rounds,
}
ARGUMENTS = {"test_sampling": "prompt", "test_elicitation": "message"}


def definition(name):
    argument = ARGUMENTS.get(name)
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"name": name, "description": "Asks the client.", "inputSchema": schema if argument else {"type": "object"}}


def read(params):
    uri = params["uri"]
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"This is {uri}."}]}


METHODS = {
    "initialize": lambda params: {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}, "resources": {"subscribe": True}},
        "serverInfo": {"name": "asking", "version": "1"},
    },
    "ping": lambda _: {},
    "tools/list": lambda _: {"tools": [definition(name) for name in TOOLS]},
    "tools/call": lambda params: TOOLS[params["name"]](params.get("arguments") or {}),
    "resources/list": lambda _: {"resources": [{"uri": "test://watched-resource", "name": "watched"}]},
    "resources/templates/list": lambda _: {
        "resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "data"}]
    },
    "resources/read": read,
    "resources/subscribe": lambda _: {},
    "resources/unsubscribe": lambda _: {},
}

def answer(request):
    method = METHODS.get(request["method"])
    if method is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "there is no such method"}})
    else:
        send({"id": request["id"], "result": method(request.get("params") or {})})


for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") in ANSWERS:
        ANSWERS[message["id"]].put(message)
    elif "method" in message and "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
