"""Tools for language models."""

import json

import wit_world
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import (
    Annotations,
    Content_Text,
    Failure,
    FailureKind,
    ToolDefinition,
)

MAX_GREETINGS = 10

GREET = ToolDefinition(
    name="greet",
    title="Greet",
    description="Greets somebody by name.",
    input_schema=json.dumps({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the person."},
            "times": {"type": "integer", "description": "The number of greetings, from 1 to 10.", "default": 1},
        },
        "required": ["name"],
    }),
    output_schema=None,
    annotations=Annotations(read_only=True, destructive=False, idempotent=True, open_world=False),
)


def greet(arguments):
    times = arguments.get("times", 1)
    if not 1 <= times <= MAX_GREETINGS:
        message = f"times is {times}; expected a number from 1 to {MAX_GREETINGS}"
        raise Err(Failure(kind=FailureKind.INVALID_ARGUMENTS, message=message, retry_after_ms=None))
    return [Content_Text(" ".join([f"Hello, {arguments['name']}."] * times))]


class Tools(exports.Tools):
    def describe(self):
        return [GREET]

    def call(self, request):
        return greet(json.loads(request.arguments))


class WitWorld(wit_world.WitWorld):
    pass
