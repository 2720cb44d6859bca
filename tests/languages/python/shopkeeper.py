"""The shop in Python: what componentize-py makes a component of."""

# Modules that are not imported at the top are not in the component.
import socket
from urllib.parse import urlsplit

import wit_world
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import orders


class WitWorld(wit_world.WitWorld):
    def add(self, a, b):
        return a + b

    def spin(self):
        while True:
            pass

    def hoard(self):
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    def reach(self, target):
        url = urlsplit(target)
        try:
            if url.scheme == "file":
                with open(url.path) as file:
                    return file.read()
            with socket.socket() as connection:
                connection.connect((url.hostname, url.port))
            return "connected"
        except OSError as error:
            raise Err(str(error))


class Orders(exports.Orders):
    def add_up(self, lines):
        if not lines:
            raise Err("an order has at least one line")
        total = sum(line.quantity * line.price for line in lines)
        return orders.Receipt(total=total, items=[line.item for line in lines])
