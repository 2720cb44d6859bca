"""Tools for language models, as functions of `wit/world.wit`. Models read the comments there."""

import wit_world
from componentize_py_types import Err

MAX_GREETINGS = 10


class WitWorld(wit_world.WitWorld):
    def greet(self, name, times):
        times = 1 if times is None else times
        if not 1 <= times <= MAX_GREETINGS:
            raise Err(f"times is {times}; expected a number from 1 to {MAX_GREETINGS}")
        return " ".join([f"Hello, {name}."] * times)
