"""Tools for language models."""

from typing import Annotated

from fumehood_tool import ToolError, tool

MAX_GREETINGS = 10


@tool(title="Greet", read_only=True, destructive=False, idempotent=True, open_world=False)
def greet(name: str, times: Annotated[int, "The number of greetings, from 1 to 10."] = 1) -> str:
    """Greets somebody by name.

    Args:
        name: The name of the person.
    """
    if not 1 <= times <= MAX_GREETINGS:
        raise ToolError(f"times is {times}; expected a number from 1 to {MAX_GREETINGS}", "invalid_arguments")
    return " ".join([f"Hello, {name}."] * times)
