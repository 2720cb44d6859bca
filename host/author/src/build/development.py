"""The first module of an interpreter that reads its program from a granted folder in each call. `fumehood dev` builds it once."""

import importlib
import importlib.abc
import json
import sys

from fumehood_tool import _component, _host, _library, _program, _urllib
from fumehood_tool._component import WitWorld

#: A line of JSON with the places of the modules, and then their texts.
PROGRAM = "/fumehood/program/modules"
#: The name of the only tool of a program that cannot be loaded. Its description is the error.
PROGRAM_ERROR = "program-error"


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
        return found and _library.make_spec(name, self, found["file"], found["is_package"])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        place = self.modules[module.__name__]
        self.file.seek(self.start + place["offset"])
        text = self.file.read(place["bytes"])
        _program.keep_source(place["file"], text.decode(errors="replace"))
        exec(compile(text, place["file"], "exec", dont_inherit=True), module.__dict__)


def _begin():
    """Loads the program. A call begins in a fresh instance, so this happens once."""
    program = Program()
    sys.meta_path.append(program)
    try:
        _program.begin(_component.load, program.module)
    except Exception as error:
        raise RuntimeError(_program.explain(error)) from None


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


sys.meta_path.append(_library.Library())
for name in (*_program.LATE_MODULES, "dataclasses", "datetime", "enum", "typing"):
    importlib.import_module(name)
_host.install_log_handler()
_urllib.install()
# Nothing is there to be found in a call.
sys.path.clear()
sys.path_importer_cache.clear()
