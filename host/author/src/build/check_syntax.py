import ast
import os
import sys

# Checks a module and those of the project that it imports. Exits with 3 after the first error, and with 4 if this Python is
# older than the one in a component, which may accept the line.
folder, minor, first = sys.argv[1:]


def find(name):
    """Returns the file of a module or a package of the project."""
    path = os.path.join(*name.split("."))
    files = (path + ".py", os.path.join(path, "__init__.py"))
    return next((file for file in files if os.path.isfile(os.path.join(folder, file))), None)


def imports(tree, package):
    """Returns the names that may be modules which a module in this package imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = [*base, *(node.module.split(".") if node.module else [])]
            # What is imported from a package may be one of its modules.
            yield from (".".join([*parts, *rest]) for rest in [[], *([alias.name] for alias in node.names)])


pending = [first]
seen = set()
while pending:
    name = pending.pop()
    path = find(name) if name and name not in seen else None
    seen.add(name)
    if path is None:
        continue
    with open(os.path.join(folder, path), "rb") as file:
        source = file.read()
    try:
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {error.msg}")
        sys.exit(3 if sys.version_info >= (3, int(minor)) else 4)
    parts = name.split(".")
    package = parts if path.endswith("__init__.py") else parts[:-1]
    pending += imports(ast.parse(source), package)
    pending += [".".join(parts[:end]) for end in range(1, len(parts))]
