"""A program that uses these adapters, for the type checker."""

from crewai.tools import BaseTool
from semantic_kernel.functions import KernelPlugin

import fumehood
import fumehood.crewai
import fumehood.semantic_kernel


def use(host: fumehood.Host) -> tuple[list[BaseTool], KernelPlugin]:
    return fumehood.crewai.tools(host), fumehood.semantic_kernel.plugin(host, "sums")
