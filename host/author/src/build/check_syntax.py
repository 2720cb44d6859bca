import ast
import os
import sys

# Checks a module and those beside it that it imports. Exits with 3 after the first error, and with 4 if this Python is
# older than the one in a component, which may accept the line.
folder, minor, first = sys.argv[1:]
pending = [first]
seen = set()
while pending:
    name = pending.pop()
    path = os.path.join(*name.split(".")) + ".py"
    if name in seen or not os.path.isfile(os.path.join(folder, path)):
        continue
    seen.add(name)
    with open(os.path.join(folder, path), "rb") as file:
        source = file.read()
    try:
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {error.msg}")
        sys.exit(3 if sys.version_info >= (3, int(minor)) else 4)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            pending += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            pending.append(node.module)
