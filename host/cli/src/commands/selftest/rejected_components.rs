//! Components that must not be loaded at all.

use anyhow::Result;
use fumehood::permission::files::Folder;
use fumehood::{Grant, Load};

/// A component that must be rejected, with a part of the expected error message.
pub(super) struct RejectedComponent {
    /// Number of its row in docs/hostile-corpus.md.
    pub(super) row: u8,
    pub(super) what: &'static str,
    pub(super) message: &'static str,
    pub(super) load: fn() -> Result<Load>,
}

macro_rules! proposal {
    ($what:literal, $name:literal, $message:literal) => {
        RejectedComponent {
            row: 16,
            what: $what,
            message: $message,
            load: || parse(include_str!(concat!("../../../../../tests/programs/proposals/", $name, ".wat"))),
        }
    };
}

const fn rejected(row: u8, what: &'static str, message: &'static str, load: fn() -> Result<Load>) -> RejectedComponent {
    RejectedComponent { row, what, message, load }
}

pub(super) const ALL: &[RejectedComponent] = &[
    rejected(14, "be 900 instances", "instances", || {
        let instances = "(core instance (instantiate $m))".repeat(900);
        parse(&format!(
            r#"(component (core module $m (memory 1) (func (export "run"))) {instances}
            (core instance $i (instantiate $m)) (func (export "run") (canon lift (core func $i "run"))))"#
        ))
    }),
    proposal!("use memory of 64 bits", "memory64", "memory64"),
    proposal!("use threads", "threads", "threads"),
    proposal!("use garbage collection", "gc", "garbage collection"),
    proposal!("use exceptions", "exceptions", "exception handling"),
    proposal!("use function types with supertypes", "function-subtyping-test", "garbage collection"),
    proposal!("use tail calls", "tail-call", "tail calls"),
    proposal!("use relaxed SIMD", "relaxed-simd", "relaxed"),
    proposal!("use several memories in a module", "multi-memory", "multi"),
    rejected(33, "be granted /proc", "/proc", || {
        let grant = Grant::none().with_folder(Folder::read("/proc:/p")?)?;
        Ok(parse(include_str!("../../../../../tests/programs/files.wat"))?.grant(grant))
    }),
    rejected(51, "take long to compile: one long function", "bytes in one function", || {
        module(&format!("(func (result i32) i32.const 1 {})", "i32.const 1 i32.add ".repeat(200_000)))
    }),
    rejected(51, "take long to compile: 100,000 functions", "functions", || module(&"(func)".repeat(100_000))),
    rejected(51, "take long to compile: loops in loops", "branches times local variables", || {
        let loops = format!("{}{}", "(loop (br_if 0 (local.get 0)) ".repeat(1_000), ")".repeat(1_000));
        module(&format!("(func (param i32) (local {}) {loops})", "i64 ".repeat(1_900)))
    }),
    rejected(51, "take long to compile: types of types", "type size", || {
        let types: String = (1..100).map(|at| format!("(type $t{at} (tuple $t{0} $t{0}))", at - 1)).collect();
        parse(&format!("(component (type $t0 (tuple string string)){types})"))
    }),
    rejected(52, "be text", "WebAssembly text", || Ok(Load::bytes("refused", *b"(component)"))),
    rejected(52, "be a core module", "core WebAssembly module", || {
        Ok(Load::bytes("refused", wat::parse_str("(module)")?))
    }),
    rejected(52, "be a program of this machine", "program or library for this machine", || {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(4096, 0);
        Ok(Load::bytes("refused", bytes))
    }),
    rejected(52, "be cut off", "malformed", || {
        let mut bytes = wat::parse_str(include_str!("../../../../../tests/programs/spin.wat"))?;
        bytes.truncate(bytes.len().saturating_sub(7));
        Ok(Load::bytes("refused", bytes))
    }),
];

fn parse(text: &str) -> Result<Load> {
    Ok(Load::bytes("refused", wat::parse_str(text)?))
}

fn module(text: &str) -> Result<Load> {
    parse(&format!("(component (core module {text}))"))
}
