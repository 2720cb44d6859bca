"""The first module of an interpreter that reads its program from a granted folder in each call. `fumehood dev` builds it once."""

import importlib
import importlib.abc
import importlib.util
import json
import marshal
import os
import sys
import traceback
import zlib

from fumehood_tool import _component, _host, _program, _urllib
from fumehood_tool._component import WitWorld

#: A line of JSON with the places of the modules, and then their texts.
PROGRAM = "/fumehood/program/modules"
#: The name of the only tool of a program that cannot be loaded. Its description is the error.
PROGRAM_ERROR = "program-error"
#: The folder of the standard library while the interpreter is built.
LIBRARY = os.path.dirname(os.path.dirname(json.__file__))
#: Parts of the library that no tool uses.
UNUSED = {"__pycache__", "ensurepip", "idlelib", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtledemo"}


class Library(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The standard library, as compressed code: there are no files of it in a call."""

    def __init__(self):
        self.code = {}
        for folder, inner, files in os.walk(LIBRARY):
            inner[:] = [name for name in inner if name not in UNUSED]
            for file in files:
                if file.endswith(".py"):
                    self._keep(os.path.join(folder, file))

    def _keep(self, path):
        name = os.path.relpath(path, LIBRARY)[: -len(".py")].replace("/", ".")
        is_package = name.endswith(".__init__")
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        name = name.removesuffix(".__init__")
        self.code[name] = (is_package, path, zlib.compress(marshal.dumps(code)))

    def find_spec(self, name, path=None, target=None):
        found = self.code.get(name)
        return found and _spec(name, self, found[1], found[0])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        code = marshal.loads(zlib.decompress(self.code[module.__name__][2]))
        exec(code, module.__dict__)


class Program(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of the project and of its packages."""

    def __init__(self):
        self.file = open(PROGRAM, "rb")
        header = json.loads(self.file.readline())
        self.start = self.file.tell()
        self.module = header["module"]
        self.modules = header["modules"]

    def find_spec(self, name, path=None, target=None):
        found = self.modules.get(name)
        return found and _spec(name, self, found["file"], found["is_package"])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        place = self.modules[module.__name__]
        self.file.seek(self.start + place["offset"])
        text = self.file.read(place["bytes"])
        _program.keep_source(place["file"], text.decode(errors="replace"))
        exec(compile(text, place["file"], "exec", dont_inherit=True), module.__dict__)


def _spec(name, loader, file, is_package):
    spec = importlib.util.spec_from_loader(name, loader, origin=file, is_package=is_package)
    spec.has_location = True
    return spec


def _begin():
    """Loads the program. A call begins in a fresh instance, so this happens once."""
    program = Program()
    sys.meta_path.append(program)
    try:
        _component.load(program.module)
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("/0/")]
        place = f"{own[-1].filename.removeprefix('/0/')}:{own[-1].lineno}: " if own else ""
        raise RuntimeError(f"{place}{type(error).__name__}: {error}") from None


class Tools(_component.Tools):
    def describe(self):
        try:
            _begin()
        except Exception as error:  # A trap would have no words.
            annotations = _component.types.Annotations(None, None, None, None)
            message = str(error)[:1000]
            schema = '{"type": "object"}'
            return [_component.types.ToolDefinition(PROGRAM_ERROR, None, message, schema, None, annotations)]
        return super().describe()

    def call(self, request):
        _begin()
        return super().call(request)


sys.meta_path.append(Library())
for name in (*_program.LATE_MODULES, "dataclasses", "datetime", "enum", "typing"):
    importlib.import_module(name)
_host.install_log_handler()
_urllib.install()
# Nothing is there to be found in a call.
sys.path.clear()
sys.path_importer_cache.clear()
