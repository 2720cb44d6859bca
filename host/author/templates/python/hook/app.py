"""A hook: decides on calls of tools for the operator of a host."""

from fumehood_tool.hooks import Ask, Call, Deny, after, authorize, before


@authorize
def members_only(call: Call):
    """Refuses guests."""
    if call.actor is None:
        return Deny("guests may not call tools; name the actor")


@before
def careful(call: Call):
    """Asks a person about calls that may remove something."""
    if call.annotations.destructive:
        return Ask(f"May `{call.tool}` run?")


@after
def keep_everything(call: Call, result):
    """Keeps every result. `Replace` or `Reject` would change or withhold it."""
