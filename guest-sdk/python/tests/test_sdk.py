"""The SDK as its tools use it, outside a component."""

import dataclasses
import datetime
import decimal
import enum
import http.server
import importlib
import importlib.util
import pathlib
import sys
import tempfile
import threading
import typing
import unittest
import uuid
from unittest import mock
from typing import Annotated, Any, Literal

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from fumehood_tool import Blob, ToolError, hooks, http as requests, kv, tool  # noqa: E402
from fumehood_tool import _tool, _types  # noqa: E402
from fumehood_tool._documentation import Documentation  # noqa: E402
from fumehood_tool._errors import failure_of  # noqa: E402


# The exports of a component, over stand-ins for the bindings that componentize-py makes.
BINDINGS = ("wit_world", "wit_world.exports", "wit_world.imports", "componentize_py_types")
for name in BINDINGS:
    sys.modules[name] = mock.MagicMock(WitWorld=object, Tools=object, Err=Exception)
sys.modules["wit_world"].exports = sys.modules["wit_world.exports"]
from fumehood_tool import _component, _data, _host, _library, _program  # noqa: E402

for name in BINDINGS:
    del sys.modules[name]


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclasses.dataclass
class Line:
    """A line of an invoice."""

    item: str
    price: decimal.Decimal
    count: int = 1


class Address(typing.TypedDict):
    street: str
    city: typing.NotRequired[str] if hasattr(typing, "NotRequired") else str


@dataclasses.dataclass
class Tree:
    name: str
    children: list["Tree"] = dataclasses.field(default_factory=list)


class Field:
    """A note as Pydantic makes it: constraints are in `metadata`."""

    def __init__(self, description: str, **bounds: Any) -> None:
        self.description = description
        self.metadata = [type("Bound", (), {name: value})() for name, value in bounds.items()]


def made(function: Any, **options: Any) -> Any:
    _tool.tools.clear()
    tool(**options)(function) if options else tool(function)
    return next(iter(_tool.tools.values()))


class Schemas(unittest.TestCase):
    def check(self, hint: Any, schema: Any) -> None:
        self.assertEqual(_types.Schemas().of(hint), schema)

    def test_types_become_schemas(self) -> None:
        self.check(str, {"type": "string"})
        self.check(int | None, {"type": ["integer", "null"]})
        self.check(typing.Optional[Literal["a"]], {"anyOf": [{"enum": ["a"]}, {"type": "null"}]})
        self.check(list[float], {"type": "array", "items": {"type": "number"}})
        self.check(dict[str, Any], {"type": "object"})
        self.check(dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}})
        self.check(set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True})
        self.check(tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2})
        self.check(tuple[int, ...], {"type": "array", "items": {"type": "integer"}})
        self.check(Unit, {"enum": ["c", "f"]})
        self.check(datetime.date, {"type": "string", "format": "date"})
        self.check(Annotated[int, "How many.", {"minimum": 1}], {"type": "integer", "description": "How many.", "minimum": 1})
        self.check(Annotated[str, Field("A name.", max_length=9, pattern="^a")], {"type": "string", "description": "A name.", "maxLength": 9, "pattern": "^a"})
        self.check(Annotated[list[int], Field("Some.", min_length=1)], {"type": "array", "items": {"type": "integer"}, "description": "Some.", "minItems": 1})
        self.check(Annotated[int, Field("One.", ge=1, lt=9)], {"type": "integer", "description": "One.", "minimum": 1, "exclusiveMaximum": 9})

    def test_a_type_without_a_schema_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "has no JSON Schema"):
            _types.Schemas().of(threading.Thread)

    def test_classes_are_definitions(self) -> None:
        schemas = _types.Schemas()
        self.assertEqual(schemas.of(list[Line]), {"type": "array", "items": {"$ref": "#/$defs/Line"}})
        line = schemas.definitions()["$defs"]["Line"]
        self.assertEqual((line["required"], line["description"]), (["item", "price"], "A line of an invoice."))
        self.assertEqual(line["properties"]["count"], {"type": "integer", "default": 1})
        schemas.of(Tree)
        tree = schemas.definitions()["$defs"]["Tree"]
        self.assertEqual(tree["properties"]["children"]["items"], {"$ref": "#/$defs/Tree"})
        self.assertNotIn("description", tree)

    def test_members_of_classes_are_described(self) -> None:
        @dataclasses.dataclass
        class Place:
            """A place.

            Somewhere on Earth.

            Attributes:
                name: Its name,
                    in German.
                line: Its line.
            """

            name: str
            line: Line
            note: Annotated[str, "A note."] = ""

        schemas = _types.Schemas()
        schemas.of(Place)
        place = schemas.definitions()["$defs"]["Place"]
        self.assertEqual(place["description"], "A place.")
        described = {name: member.get("description") for name, member in place["properties"].items()}
        self.assertEqual(described, {"name": "Its name, in German.", "line": "Its line.", "note": "A note."})

    def test_schema_of_a_result_is_an_object_at_the_top(self) -> None:
        def parse() -> Line:
            """Parses."""

        def grow() -> Tree:
            """Grows."""

        line = made(parse).output_schema
        self.assertEqual((line["type"], line["required"], "$defs" in line), ("object", ["item", "price"], False))
        tree = made(grow).output_schema
        self.assertEqual((tree["type"], tree["properties"]["children"]["items"]), ("object", {"$ref": "#/$defs/Tree"}))
        self.assertIn("Tree", tree["$defs"])

    def test_named_types_are_those_that_they_name(self) -> None:
        number = typing.NewType("number", int)
        self.check(list[number], {"type": "array", "items": {"type": "integer"}})
        self.assertEqual(_types.from_json(typing.NewType("Day", datetime.date), "2026-01-02"), datetime.date(2026, 1, 2))
        if alias := getattr(typing, "TypeAliasType", None):
            self.check(alias("Names", Annotated[list[str], "Names."]), {"type": "array", "items": {"type": "string"}, "description": "Names."})

    def test_sets_have_an_order(self) -> None:
        self.assertEqual(_types.to_json({"b", "a", "c"}), ["a", "b", "c"])
        self.assertEqual(_types.to_json(frozenset({(2, 1), (1, 2)})), [[1, 2], [2, 1]])

    def test_values_come_back_as_they_were(self) -> None:
        for hint, value in [
            (Line, Line("a", decimal.Decimal("1.50"), 2)),
            (list[Line] | None, [Line("a", decimal.Decimal("1"))]),
            (Address, {"street": "a", "city": "b"}),
            (Unit, Unit.CELSIUS),
            (dict[str, set[int]], {"a": {1, 2}}),
            (tuple[int, str], (1, "a")),
            (datetime.datetime, datetime.datetime(2026, 1, 2, 3, 4)),
            (uuid.UUID, uuid.UUID(int=7)),
            (bytes, b"\x00\xff"),
            (pathlib.Path, pathlib.Path("/a")),
            (int | str, 3),
            (int | str, "3"),
            (Line | Address, {"street": "a"}),
            (Tree, Tree("a", [Tree("b")])),
        ]:
            self.assertEqual(_types.from_json(hint, _types.to_json(value)), value)
        self.assertIsInstance(_types.from_json(float, 3), float)
        with self.assertRaisesRegex(TypeError, "`Thread` cannot be JSON"):
            _types.to_json(threading.current_thread().__class__.__new__(threading.Thread))


class Tools(unittest.TestCase):
    def test_a_function_becomes_a_tool(self) -> None:
        def add_lines(lines: list[Line], *, unit: Unit = Unit.CELSIUS, note: str | None = None) -> dict[str, float]:
            """Adds lines.

            Of an invoice.

            Args:
                lines: The lines,
                    each with a price.
                note (str): A note: for people.

            Returns:
                The sum.
            """
            return {"sum": float(sum(line.price * line.count for line in lines))}

        one = made(add_lines, title="Add", read_only=True)
        self.assertEqual((one.name, one.title, one.description), ("add_lines", "Add", "Adds lines.\n\nOf an invoice."))
        properties = one.input_schema["properties"]
        self.assertEqual(properties["lines"]["description"], "The lines, each with a price.")
        self.assertEqual(properties["note"], {"type": ["string", "null"], "description": "A note: for people."})
        self.assertEqual(properties["unit"]["default"], "c")
        self.assertEqual(one.input_schema["required"], ["lines"])
        self.assertEqual(one.output_schema, {"type": "object", "additionalProperties": {"type": "number"}})
        self.assertEqual(one.annotations["read_only"], True)
        arguments = {"lines": [{"item": "a", "price": "1.5", "count": 2}]}
        self.assertEqual(one.call(arguments), {"sum": 3.0})
        self.assertEqual(add_lines([Line("a", decimal.Decimal(2))]), {"sum": 2.0}, "it is an ordinary function still")

    def test_text_and_data_have_no_schema(self) -> None:
        def text() -> str:
            return ""

        def image() -> Blob:
            return Blob(b"", "image/png")

        def nothing() -> None:
            """Does nothing."""

        for function in (text, image, nothing):
            self.assertIsNone(made(function).output_schema)

    def test_what_cannot_be_a_tool_is_refused_in_words(self) -> None:
        def untyped(a):  # type: ignore[no-untyped-def]
            pass

        def many(*a: int) -> None:
            pass

        def misspelt(city: str) -> None:
            """Looks.

            Args:
                town: Its name.
            """

        async def later() -> None:
            pass

        for function, message in [
            (untyped, "the parameter `a` has no type; write `a: str`"),
            (many, "cannot be filled by name"),
            (misspelt, "describes `town`, which is no parameter"),
            (later, "a tool is an ordinary function"),
        ]:
            with self.assertRaisesRegex(TypeError, message):
                made(function)
        for name in ("größe", "Big Name!", "a" * 65):
            with self.assertRaisesRegex(ValueError, f"`{name}` cannot be the name of a tool; give it one of up to 64"):
                made(lambda: None, name=name)
        made(lambda: None, name="one")
        with self.assertRaisesRegex(ValueError, "two tools have the name `one`"):
            tool(name="one")(lambda: None)

    def test_docstrings_have_three_styles(self) -> None:
        for text in [
            "Does.\n\nArgs:\n    a: One.\n    b (int): Two\n        lines.\n\nRaises:\n    ValueError: never.",
            "Does.\n\nParameters\n----------\na : int\n    One.\nb\n    Two\n    lines.\n\nReturns\n-------\nint\n    Three.",
            "Does.\n\n:param a: One.\n:param int b: Two\n    lines.\n:returns: Three.",
        ]:
            documentation = Documentation.parse(text)
            self.assertEqual((documentation.summary, documentation.parameters), ("Does.", {"a": "One.", "b": "Two lines."}))

    def test_exceptions_become_failures(self) -> None:
        self.assertEqual(failure_of(ToolError("try b", "invalid_arguments")), ("invalid_arguments", "try b", None))
        self.assertEqual(failure_of(ValueError("no good")), ("failed", "ValueError: no good", None))
        self.assertEqual(failure_of(KeyError())[1], "KeyError")
        self.assertEqual(failure_of(PermissionError("no"))[0], "denied")
        self.assertEqual(failure_of(TimeoutError("late"))[0], "unavailable")


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/there": (302, "location", "/?a=1"), "/busy": (503, "retry-after", "7"), "/other": (307, "location", "http://localhost:1/")}
        status, name, value = answers.get(self.path, (200, "content-type", "text/plain; charset=latin-1"))
        body = f"{self.path} {self.headers['authorization']} ä".encode("latin-1")
        self.answer(status, name, value, body)

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.answer(201, "content-type", "application/json", self.rfile.read(length))

    def answer(self, status: int, name: str, value: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.shutdown()
        cls.server.server_close()

    def test_responses_are_read(self) -> None:
        reply = requests.get(self.url, params={"q": ["a b", 2], "none": None}, headers={"Authorization": "me"})
        self.assertEqual((reply.status, reply.ok, reply.text), (200, True, "/?q=a+b&q=2 me ä"))
        reply = requests.post(self.url, json={"a": [1]})
        self.assertEqual((reply.status, reply.json(), reply.headers["Content-Type"]), (201, {"a": [1]}, "application/json"))
        reply = requests.post(self.url, data={"a": "b c"})
        self.assertEqual((reply.content, list(reply.iter_bytes())), (b"a=b+c", [b"a=b+c"]))
        with self.assertRaisesRegex(ToolError, "returned no JSON"):
            reply.json()

    def test_redirects_are_followed(self) -> None:
        reply = requests.get(self.url + "/there", headers={"authorization": "me"})
        self.assertEqual((reply.text, reply.url), ("/?a=1 me ä", self.url + "/?a=1"))
        self.assertEqual(requests.get(self.url + "/there", follow_redirects=False).status, 302)

    def test_failures_have_kinds(self) -> None:
        with self.assertRaises(requests.StatusError) as caught:
            requests.get(self.url + "/busy").raise_for_status()
        self.assertEqual((caught.exception.kind, caught.exception.retry_after), ("unavailable", 7.0))
        with self.assertRaises(requests.RequestError) as refused:
            requests.get(self.url + "/other")
        self.assertEqual(refused.exception.kind, "unavailable")
        with self.assertRaisesRegex(ValueError, "is no address of HTTP"):
            requests.get("file:///etc/passwd")


class Values(unittest.TestCase):
    def test_keys_are_kept(self) -> None:
        kv.set("a/1", "one")
        kv.set("a/2", b"two")
        self.assertEqual((kv.get("a/1"), list(kv.keys("a/")), kv.get("b")), (b"one", ["a/1", "a/2"], None))
        self.assertEqual((kv.delete("a/1"), kv.delete("a/1")), (True, False))


class Hooks(unittest.TestCase):
    def test_functions_stay_functions_and_are_there_once(self) -> None:
        @hooks.before
        def careful(call: hooks.Call) -> Any:
            return None if call.annotations.read_only else hooks.Ask(f"May `{call.tool}` run?")

        self.assertEqual(careful(hooks.Call("a__b")), hooks.Ask("May `a__b` run?"))
        self.assertIsNone(careful(hooks.Call("a__b", annotations=hooks.Annotations(read_only=True))))
        self.assertIs(hooks.functions["before"], careful)
        with self.assertRaisesRegex(ValueError, "two functions have `@before`; write one that calls both"):
            hooks.before(careful)


class Faults(unittest.TestCase):
    """Faults of the module of the tools, as the build shows them."""

    def check(self, text: str, expected: str) -> None:
        _tool.tools.clear()
        try:
            exec(compile(text, "/0/app.py", "exec"), {})
        except Exception as error:
            self.assertRegex(_program.explain(error), expected)
        else:
            self.fail(text)

    def test_a_fault_has_its_place_and_a_remedy(self) -> None:
        self.check("\nimport nonsense", r"^app\.py:2: ModuleNotFoundError: No module named 'nonsense'; add the file nonsense\.py, or install it .* nonsense`$")
        self.check("import yaml_.x", "add the file yaml_.py")
        self.check("raise ModuleNotFoundError('no', name='yaml')", "`.venv/bin/pip install pyyaml`$")
        self.check("raise ModuleNotFoundError('no', name='requests')", "needs sockets, which components do not have: send requests with `fumehood_tool.http`$")
        self.check("raise ModuleNotFoundError('no', name='_tkinter')", "components have no `_tkinter`")
        self.check("raise ImportError('no', name='fumehood_tool.native')", "if `fumehood_tool` has native code, components cannot run it")
        self.check("open('/no/such')", r"^app\.py:1: FileNotFoundError: .*; top-level code runs when the component is built")
        self.check("def f():\n    return {}['a']\nf()", r"^app\.py:2: KeyError: 'a'\n    at app\.py:2 in f\n    at app\.py:3 in <module>$")
        self.check("def f(:", r"^app\.py:1: .*$")
        twins = "from fumehood_tool import tool\n@tool\ndef f() -> int: ...\n@tool\ndef f() -> int: ..."
        self.check(twins, r"^app\.py:4: ValueError: two tools have the name `f`; give one of them another with `@tool\(name=…\)`$")

    def test_a_module_without_tools_is_a_fault(self) -> None:
        _tool.tools.clear()
        with self.assertRaisesRegex(_program.BuildError, "begin\nthe module `json` has no tools; put `@tool` before a function\nend"):
            _program.prepare(_component.load, "json")

    def test_functions_of_the_host_are_withheld_without_a_call(self) -> None:
        with mock.patch.object(_host, "_key_value", mock.MagicMock()):
            with _host.without_calls(), self.assertRaisesRegex(RuntimeError, "only there during a call; top-level code runs"):
                kv.get("a")
            self.assertIsInstance(_host._key_value, mock.MagicMock)


class Files(unittest.TestCase):
    """What a component keeps of the files that are there while it is built."""

    def test_data_of_packages_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "with_data")
            package.joinpath("inner").mkdir(parents=True)
            for name in ("__init__.py", "inner/__init__.py"):
                package.joinpath(name).touch()
            package.joinpath("a.txt").write_text("ä", "utf-8")
            package.joinpath("inner/b.json").write_text("{}")
            with mock.patch.object(sys, "path", [folder, *sys.path]):
                importlib.import_module("with_data")
                with mock.patch.object(_data, "_install"):
                    _data.keep()
        self.assertIn("with_data.inner", sys.modules)
        files = _data.Reader(str(package)).files()
        self.assertEqual([entry.name for entry in files.iterdir()], ["a.txt", "inner"])
        self.assertEqual((files / "a.txt").read_text("utf-8"), "ä")
        self.assertEqual(files.joinpath("inner", "b.json").read_bytes(), b"{}")
        opened = _data._opening(open)
        self.assertEqual(opened(package / "inner" / ".." / "a.txt").read(), "ä")
        self.assertEqual(opened(str(package / "a.txt"), "rb").read(), "ä".encode())
        for mode in ("r", "w"):
            with self.assertRaises(FileNotFoundError):
                opened(package / "gone.txt" if mode == "r" else package / "a.txt", mode)

    def test_the_library_is_kept_as_code(self) -> None:
        library = _library.Library("encodings")
        spec = library.find_spec("encodings.koi8_r")
        module = importlib.util.module_from_spec(spec)
        library.exec_module(module)
        self.assertEqual(module.getregentry().decode(b"\xc1")[0], "а")
        self.assertIsNone(library.find_spec("json"))


if __name__ == "__main__":
    unittest.main()
