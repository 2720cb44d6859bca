//! Files that are not components: the message names their kind, and nothing hangs.

use std::os::unix::fs::PermissionsExt as _;

use expect_test::{Expect, expect};
use fumehood_tests::contract::{Answer, ToolDescription};

use super::workbench::Workbench;

fn check(bench: &Workbench, file: &str, expected: Expect) {
    let inspected = bench.run(&["inspect", file]);
    expected.assert_eq(&inspected.shown());
    let called = bench.run(&["call", file, "run"]);
    assert_eq!((called.code, &called.stderr), (inspected.code, &inspected.stderr), "{file}");
    let json = bench.run(&["inspect", "--json", file]);
    assert_eq!((json.code, json.stderr.as_str()), (6, ""), "{json:?}");
    let record = json.json();
    assert_eq!((&record["status"], &record["error"]["kind"]), (&"error".into(), &"not_loaded".into()), "{record}");
}

#[test]
fn files_of_another_kind_are_refused() {
    let bench = Workbench::with_own_cache();
    bench.put("empty.wasm", b"");
    check(
        &bench,
        "empty.wasm",
        expect![[r#"
        ── stderr
        error: cannot load empty.wasm
          because: the component is empty (0 bytes)
        ── exit 6
    "#]],
    );
    bench.put("notes.txt", b"Dear diary");
    check(
        &bench,
        "notes.txt",
        expect![[r#"
            ── stderr
            error: cannot load notes.txt
              because: this is not WebAssembly: a component starts with `\0asm`
            ── exit 6
        "#]],
    );
    bench.put("text.wat", b"(component)");
    check(
        &bench,
        "text.wat",
        expect![[r#"
        ── stderr
        error: cannot load text.wat
          because: this is WebAssembly text, not a component; convert it to a binary first, for example with `wasm-tools parse`
        ── exit 6
    "#]],
    );
    bench.put("module.wasm", b"\0asm\x01\0\0\0");
    check(
        &bench,
        "module.wasm",
        expect![[r#"
        ── stderr
        error: cannot load module.wasm
          because: this is a core WebAssembly module, not a component, and no program for WASI preview 1 either, which exports `_start`; in Rust, build a library with `crate-type = ["cdylib"]` for `--target wasm32-wasip2`, or turn a module for `wasm32-unknown-unknown` into a component with `wasm-tools component new`
        ── exit 6
    "#]],
    );
    bench.put("libmy_tool.rlib", b"!<arch>\n");
    check(
        &bench,
        "libmy_tool.rlib",
        expect![[r#"
        ── stderr
        error: cannot load libmy_tool.rlib
          because: this is a library for the compiler (`.rlib` or `.a`), not a component; add `crate-type = ["cdylib"]` under `[lib]` in Cargo.toml, and build for `--target wasm32-wasip2`: the component is the `.wasm` file
        ── exit 6
    "#]],
    );
    bench.put("future.wasm", b"\0asm\x0e\0\x01\0");
    check(
        &bench,
        "future.wasm",
        expect![[r#"
        ── stderr
        error: cannot load future.wasm
          because: this WebAssembly has an unknown version or layer ([0e, 00, 01, 00]); expected [0d, 00, 01, 00], a component
        ── exit 6
    "#]],
    );
}

#[test]
fn machine_code_is_never_accepted() {
    let bench = Workbench::with_own_cache();
    bench.program("count");
    assert_eq!(bench.run(&["inspect", "count.wasm"]).code, 0);
    let entries = std::fs::read_dir(bench.cache()).unwrap().map(|entry| entry.unwrap().path());
    let code = entries.into_iter().find(|path| path.extension().is_some_and(|found| found == "cwasm")).unwrap();
    std::fs::copy(code, bench.path("precompiled.wasm")).unwrap();
    check(
        &bench,
        "precompiled.wasm",
        expect![[r#"
        ── stderr
        error: cannot load precompiled.wasm
          because: this is precompiled machine code, which is refused because it would run unchecked; use the original component
        ── exit 6
    "#]],
    );
}

#[test]
fn damaged_components_are_refused() {
    let bench = Workbench::with_own_cache();
    bench.example("calculator");
    let good = std::fs::read(bench.path("calculator.wasm")).unwrap();
    bench.put("header.wasm", &good[..6]);
    check(
        &bench,
        "header.wasm",
        expect![[r#"
        ── stderr
        error: cannot load header.wasm
          because: the component is malformed or uses unsupported features: its header is incomplete
        ── exit 6
    "#]],
    );
    bench.put("half.wasm", &good[..good.len() / 2]);
    check(
        &bench,
        "half.wasm",
        expect![[r#"
            ── stderr
            error: cannot load half.wasm
              because: the component is malformed or uses unsupported features: unexpected end-of-file (at offset [offset]) (check that the file is complete)
            ── exit 6
        "#]],
    );
    bench.put("trailing.wasm", [&good[..], b"garbage"].concat());
    assert_eq!(bench.run(&["inspect", "trailing.wasm"]).code, 6);
}

#[test]
fn components_for_another_host_are_refused() {
    let bench = Workbench::with_own_cache();
    bench.program("unknown-import").program("other-contract");
    check(
        &bench,
        "unknown-import.wasm",
        expect![[r#"
        ── stderr
        error: cannot load unknown-import.wasm
          because: the component has imports that this host does not provide: acme:database/sql@1.0.0
        ── exit 6
    "#]],
    );
    check(
        &bench,
        "other-contract.wasm",
        expect![[r#"
        ── stderr
        error: cannot load other-contract.wasm
          because: the component was built for version 0.3.0 of the contract `fumehood:tool`; this host accepts 0.1.x and 0.2.x. Rebuild it with a matching `fumehood-guest`
        ── exit 6
    "#]],
    );
    bench.put("nothing.wasm", b"\0asm\x0d\0\x01\0");
    check(
        &bench,
        "nothing.wasm",
        expect![[r#"
        ── stderr
        error: cannot load nothing.wasm
          because: the component exports no function that can be a tool; export a function, or implement `fumehood:tool`
        ── exit 6
    "#]],
    );
}

#[test]
fn files_that_are_too_large_are_not_read() {
    let bench = Workbench::with_own_cache();
    let file = std::fs::File::create(bench.path("sparse.wasm")).unwrap();
    file.set_len(1 << 30).unwrap();
    check(
        &bench,
        "sparse.wasm",
        expect![[r#"
        ── stderr
        error: cannot load sparse.wasm
          because: the component has 1.0 GiB; the maximum is 256.0 MiB
        ── exit 6
    "#]],
    );
    let file = std::fs::File::create(bench.path("slow.wasm")).unwrap();
    file.set_len(20 << 20).unwrap();
    assert_eq!(bench.run(&["inspect", "slow.wasm"]).code, 6);
}

#[test]
fn paths_that_are_no_files_are_refused() {
    let bench = Workbench::with_own_cache();
    check(
        &bench,
        "missing.wasm",
        expect![[r#"
        ── stderr
        error: cannot read missing.wasm
          because: No such file or directory (os error 2)
        ── exit 6
    "#]],
    );
    check(
        &bench,
        ".",
        expect![[r#"
        ── stderr
        error: . is not a regular file; expected the path of a component
        ── exit 6
    "#]],
    );
    let fifo = bench.path("fifo.wasm");
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    check(
        &bench,
        "fifo.wasm",
        expect![[r#"
        ── stderr
        error: fifo.wasm is not a regular file; expected the path of a component
        ── exit 6
    "#]],
    );
    std::os::unix::fs::symlink("loop.wasm", bench.path("loop.wasm")).unwrap();
    check(
        &bench,
        "loop.wasm",
        expect![[r#"
        ── stderr
        error: cannot read loop.wasm
          because: Too many levels of symbolic links (os error 40)
        ── exit 6
    "#]],
    );
    check(
        &bench,
        "/dev/zero",
        expect![[r#"
        ── stderr
        error: /dev/zero is not a regular file; expected the path of a component
        ── exit 6
    "#]],
    );
}

#[test]
fn an_unreadable_file_is_refused() {
    let bench = Workbench::with_own_cache();
    let path = bench.put("secret.wasm", b"");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        return; // Who runs the tests may read everything.
    }
    check(
        &bench,
        "secret.wasm",
        expect![[r#"
        ── stderr
        error: cannot read secret.wasm
          because: Permission denied (os error 13)
        ── exit 6
    "#]],
    );
}

#[test]
fn tools_with_invalid_descriptions_are_refused() {
    let bench = Workbench::with_own_cache();
    bench.answering("none", &[], Answer::Nothing);
    check(
        &bench,
        "none.wasm",
        expect![[r#"
        ── stderr
        error: cannot load none.wasm
          because: the component describes no tools; `describe` must return at least one
        ── exit 6
    "#]],
    );
    bench.answering("name", &[ToolDescription::new("Bad Name")], Answer::Nothing);
    check(
        &bench,
        "name.wasm",
        expect![[r#"
        ── stderr
        error: cannot load name.wasm
          because: a tool of the component has an invalid name
          because: the name `Bad Name` contains 'B'; expected only `a-z`, `0-9`, `_` and `-`
        ── exit 6
    "#]],
    );
    bench.answering("twice", &[ToolDescription::new("a-b"), ToolDescription::new("a_b")], Answer::Nothing);
    check(
        &bench,
        "twice.wasm",
        expect![[r#"
        ── stderr
        error: cannot load twice.wasm
          because: the tools `a-b` and `a_b` have the same name, because `-` and `_` count as equal; rename one of them
        ── exit 6
    "#]],
    );
}

#[test]
fn tools_with_forbidden_texts_are_refused() {
    let bench = Workbench::with_own_cache();
    bench.answering("json", &[ToolDescription::new("a").taking("{")], Answer::Nothing);
    check(
        &bench,
        "json.wasm",
        expect![[r#"
        ── stderr
        error: cannot load json.wasm
          because: the input schema of the tool `a` is not JSON
          because: EOF while parsing an object at line 1 column 1
        ── exit 6
    "#]],
    );
    bench.answering("schema", &[ToolDescription::new("a").taking(r#"{"type": "thing"}"#)], Answer::Nothing);
    check(
        &bench,
        "schema.wasm",
        expect![[r#"
            ── stderr
            error: cannot load schema.wasm: invalid input schema of its tool `a`
              because: at #/type, "thing" is not allowed by JSON Schema 2020-12
            ── exit 6
        "#]],
    );
    let long = ToolDescription { description: "x".repeat(17_000), ..ToolDescription::new("a") };
    bench.answering("long", &[long], Answer::Nothing);
    check(
        &bench,
        "long.wasm",
        expect![[r#"
        ── stderr
        error: cannot load long.wasm
          because: the description of the tool `a` has 17000 bytes; the maximum is 16384: shorten it
        ── exit 6
    "#]],
    );
}

#[test]
fn a_disabled_proposal_is_refused_with_its_name_and_code() {
    let bench = Workbench::with_own_cache();
    for program in ["function-subtyping-test", "function-subtyping-cast", "function-subtyping-call", "rec-group"] {
        bench.put("it.wasm", fumehood_tests::component(&format!("proposals/{program}")).unwrap());
        for command in [&["inspect", "it.wasm"][..], &["call", "it.wasm", "run"]] {
            let ran = bench.run(command);
            assert_eq!(ran.code, 6, "{program} {command:?}: {ran:?}");
            assert!(ran.stderr.contains("\"garbage collection\""), "{program} {command:?}: {}", ran.stderr);
        }
    }
}
