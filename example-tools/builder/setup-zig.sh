#!/bin/sh
# setup-zig.sh
#
# Unpacks Zig, whose C compiler builds the interpreter of code mode, into `.guest-zig/` of this checkout. The builder finds it there.
#
# Needs Python 3 with `venv`; the compiler comes as a Python package. Needs no root and changes nothing outside of `.guest-zig/`.
set -eu

PACKAGE=ziglang==0.17.1
PREFIX=$(cd "$(dirname "$0")/../.." && pwd)/.guest-zig

if "$PREFIX/ziglang/zig" version >/dev/null 2>&1; then
    echo "$PREFIX/ziglang/zig is there already: $("$PREFIX/ziglang/zig" version)"
    exit 0
fi
rm -rf "$PREFIX"
python3 -m venv "$PREFIX/venv"
"$PREFIX/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$PREFIX" "$PACKAGE"
rm -rf "$PREFIX/venv"
"$PREFIX/ziglang/zig" version
