"""Tools for language models, as plain functions of `wit/world.wit`: its comments are what a model reads."""

import wit_world
from componentize_py_types import Err

MAX_GREETINGS = 10


class WitWorld(wit_world.WitWorld):
    def greet(self, name, times):
        times = 1 if times is None else times
        if not 1 <= times <= MAX_GREETINGS:
            raise Err(f"{times} is not a number of greetings; give one from 1 to {MAX_GREETINGS}")
        return " ".join([f"Hello, {name}."] * times)
