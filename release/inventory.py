"""Writes the inventory of a release: fumehood.cdx.json (CycloneDX 1.6) and THIRD-PARTY-LICENSES.txt.

Reads the lock files and what cargo says about the packages that the command line and the interpreter inside it are built
from, and no clock: the same commit gives the same bytes. Needs the sources of the packages, which cargo downloads.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "fumehood-cli"
TARGET = "x86_64-unknown-linux-gnu"
# What the program consists of: the folder of a lock file, the package there, and the target it is compiled for.
PARTS = [
    (ROOT, PACKAGE, TARGET),
    (ROOT / "interpreters" / "javascript", "fumehood-interpreter-javascript", "wasm32-unknown-unknown"),
]
LICENSE_FILE = re.compile(r"(?i)^(licen[cs]e|copying|notice|unlicense)")
# Texts that only say where the others are.
MAX_LICENSE_BYTES = 200_000


def cargo(folder, *arguments):
    return subprocess.run(["cargo", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree(part, edges):
    """The (name, version) of every package that cargo's resolver selects along these edges."""
    folder, package, target = part
    listing = cargo(folder, "tree", "--locked", "--package", package, "--target", target, "--edges", edges, "--prefix",
                    "none", "--format", "{p}")
    words = (line.split() for line in listing.splitlines() if line)
    return {(word[0], word[1].removeprefix("v")) for word in words}


def license_expression(package):
    # `/` between licences is how crates wrote `OR` before SPDX expressions.
    return re.sub(r"\s*/\s*", " OR ", package["license"])


def reference(name, version):
    return f"pkg:cargo/{name}@{version}"


def component(package, checksum, in_program):
    name, version = package["name"], package["version"]
    entry = {
        "type": "library",
        "bom-ref": reference(name, version),
        "name": name,
        "version": version,
        # CycloneDX: `excluded` is what is used to build and is not part of the program.
        "scope": "required" if in_program else "excluded",
        "licenses": [{"expression": license_expression(package)}],
        "purl": reference(name, version),
    }
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def bundled(packages):
    """Libraries in the program that are no crates of their own."""
    rust = re.match(r"rustc (\S+)", subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    yield {
        "type": "library",
        "bom-ref": f"pkg:generic/rust-std@{rust[1]}",
        "name": "rust-std",
        "version": rust[1],
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": f"pkg:generic/rust-std@{rust[1]}",
    }
    for package in packages:
        if package["name"] == "rquickjs-sys":
            yield quickjs(pathlib.Path(package["manifest_path"]).parent / "quickjs")
        if package["name"] == "libsqlite3-sys":
            header = pathlib.Path(package["manifest_path"]).parent / "sqlite3" / "sqlite3.h"
            version = re.search(r'#define SQLITE_VERSION\s+"([^"]+)"', header.read_text())[1]
            yield {
                "type": "library",
                "bom-ref": f"pkg:generic/sqlite@{version}",
                "name": "sqlite",
                "version": version,
                "scope": "required",
                "licenses": [{"expression": "blessing"}],
                "cpe": f"cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*",
                "purl": f"pkg:generic/sqlite@{version}",
            }


def quickjs(folder):
    header = (folder / "quickjs.h").read_text()
    version = ".".join(re.search(rf"#define QJS_VERSION_{part}\s+(\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    return {
        "type": "library",
        "bom-ref": f"pkg:generic/quickjs-ng@{version}",
        "name": "quickjs-ng",
        "version": version,
        "scope": "required",
        "licenses": [{"expression": "MIT"}],
        "purl": f"pkg:generic/quickjs-ng@{version}",
    }


def read_part(part):
    """The packages that go into a part, those of them in the program, the checksums, and who depends on whom."""
    folder, _, target = part
    in_program = tree(part, "normal,no-proc-macro")
    used = tree(part, "normal,build")
    metadata = json.loads(cargo(folder, "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    lock = tomllib.loads((folder / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    packages = [p for p in metadata["packages"] if (p["name"], p["version"]) in used]
    missing = used - {(p["name"], p["version"]) for p in packages}
    if missing:
        raise SystemExit(f"release/inventory.py: cargo metadata does not list {sorted(missing)}")
    references = {p["id"]: reference(p["name"], p["version"]) for p in packages}
    edges = {}
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in references:
            edges[references[node["id"]]] = {
                references[d["pkg"]] for d in node["deps"]
                if d["pkg"] in references and any(kind["kind"] != "dev" for kind in d["dep_kinds"])
            }
    return packages, in_program, checksums, edges


def read_inventory():
    """Like `read_part`, for all parts together. The program depends on the interpreter, which is embedded in it."""
    packages, in_program, checksums, edges = {}, set(), {}, {}
    for part in PARTS:
        found, in_part, checksums_of_part, edges_of_part = read_part(part)
        packages.update({(p["name"], p["version"]): p for p in found})
        in_program |= in_part
        checksums.update(checksums_of_part)
        for start, ends in edges_of_part.items():
            edges.setdefault(start, set()).update(ends)
    program, *embedded = [reference(p["name"], p["version"]) for _, name, _ in PARTS
                          for p in packages.values() if p["name"] == name]
    edges[program].update(embedded)
    return ([packages[key] for key in sorted(packages)], in_program, checksums,
            {start: sorted(ends) for start, ends in edges.items()})


def write_bom(path, arguments, packages, in_program, checksums, edges):
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    others = [p for p in packages if p["name"] != PACKAGE]
    extra = list(bundled(packages))
    program = reference(PACKAGE, arguments.version)
    edges = {**edges, **{entry["bom-ref"]: [] for entry in extra}}
    inside = {"libsqlite3-sys": "sqlite", "rquickjs-sys": "quickjs-ng"}
    for package in packages:
        library = inside.get(package["name"])
        edges[reference(package["name"], package["version"])] += [
            entry["bom-ref"] for entry in extra if entry["name"] == library]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'fumehood-{arguments.version}-{arguments.commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": date,
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "fumehood",
                "version": arguments.version,
                "licenses": [{"expression": "Apache-2.0 OR MIT"}],
                "purl": program,
            },
            "properties": [
                {"name": "fumehood:commit", "value": arguments.commit},
                {"name": "fumehood:target", "value": TARGET},
            ],
        },
        "components": [
            component(p, checksums.get((p["name"], p["version"])), (p["name"], p["version"]) in in_program) for p in others
        ] + extra,
        "dependencies": [{"ref": ref, "dependsOn": ends} for ref, ends in sorted(edges.items())],
    }
    path.write_text(json.dumps(bom, indent=2, ensure_ascii=False) + "\n")


def license_texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    # The second folder has the sources of a library in C, where rquickjs-sys keeps them.
    folders = [folder] + [sources for sources in [folder / "quickjs"] if sources.is_dir()]
    files = sorted(f for place in folders for f in place.iterdir() if f.is_file() and LICENSE_FILE.match(f.name))
    if package.get("license_file"):
        named = folder / package["license_file"]
        files += [named] if named.is_file() and named not in files else []
    for file in files:
        if file.stat().st_size <= MAX_LICENSE_BYTES:
            yield file.name, file.read_text(errors="replace").replace("\r\n", "\n").strip()


def write_licenses(path, packages, in_program):
    theirs = [p for p in packages if p["source"] and (p["name"], p["version"]) in in_program]
    texts, without = {}, []
    for package in theirs:
        found = list(license_texts(package))
        if not found:
            without.append(package)
        for _, text in found:
            texts.setdefault(text, []).append(package)
    lines = ["What the program holds besides Fumehood's own code, and the terms of it.", "",
             "SQLite is in the public domain. Rust's standard library is licensed MIT OR Apache-2.0.", ""]
    lines += [f"{p['name']} {p['version']}: {license_expression(p)}" for p in theirs]
    if without:
        lines += ["", "These came without a text; the texts of their licences are among those below:"]
        lines += [f"{p['name']} {p['version']}: {license_expression(p)}, {p['repository'] or 'no repository'}" for p in without]
    for text, owners in sorted(texts.items(), key=lambda pair: (pair[1][0]["name"], pair[0])):
        lines += ["", "=" * 80, ", ".join(f"{p['name']} {p['version']}" for p in owners), "=" * 80, "", text]
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    packages, in_program, checksums, edges = read_inventory()
    write_bom(arguments.out / "fumehood.cdx.json", arguments, packages, in_program, checksums, edges)
    write_licenses(arguments.out / "THIRD-PARTY-LICENSES.txt", packages, in_program)


if __name__ == "__main__":
    main()
