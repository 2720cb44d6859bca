"""Texts from templates."""

from typing import Annotated, Any, Literal

from fumehood_tool import ToolError, tool
from jinja2 import ChainableUndefined, StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

Template = Annotated[str, {"maxLength": 10_000}]


def environment(missing: str = "error", html: bool = False) -> ImmutableSandboxedEnvironment:
    undefined = StrictUndefined if missing == "error" else ChainableUndefined
    return ImmutableSandboxedEnvironment(autoescape=html, undefined=undefined, trim_blocks=True, lstrip_blocks=True)


@tool(title="Render a template", read_only=True, idempotent=True, open_world=False)
def render(template: Template, values: dict[str, Any], missing: Literal["error", "empty"] = "error", html: bool = False) -> str:
    """Renders a template of Jinja.

    Args:
        template: The template, such as `Dear {{ name }}`.
        values: The values of its variables.
        missing: What to do about a variable without a value.
        html: Whether to escape values for HTML.
    """
    try:
        return environment(missing, html).from_string(template).render(values)
    except TemplateSyntaxError as error:
        raise ToolError(f"line {error.lineno} of the template: {error.message}", "invalid_arguments") from error
    except TemplateError as error:
        raise ToolError(f"the template cannot be rendered: {error.message}", "invalid_arguments") from error


@tool(title="Variables of a template", read_only=True, idempotent=True, open_world=False)
def variables(template: Template) -> set[str]:
    """Returns the names of the variables that a template of Jinja needs."""
    try:
        return meta.find_undeclared_variables(environment().parse(template))
    except TemplateSyntaxError as error:
        raise ToolError(f"line {error.lineno} of the template: {error.message}", "invalid_arguments") from error
