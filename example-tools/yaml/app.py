"""YAML to JSON, and back."""

from typing import Annotated, Any

import yaml
from fumehood_tool import ToolError, tool


@tool(title="YAML to JSON", read_only=True, idempotent=True, open_world=False)
def to_json(text: Annotated[str, {"minLength": 1}]) -> Any:
    """Converts YAML to JSON. Of several documents, all are returned in a list.

    Args:
        text: One document of YAML, or several with `---` between them.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ToolError(f"{line}{error.problem}", "invalid_arguments") from error
    return documents[0] if len(documents) == 1 else documents


@tool(title="JSON to YAML", read_only=True, idempotent=True, open_world=False)
def from_json(value: Annotated[Any, "Any value."]) -> str:
    """Converts a JSON value to YAML."""
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
