//! The calls of the demo, with their expected outcomes.

use fumehood::{CallResult, ErrorKind};

/// A section of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Useful,
    Hostile,
}

/// The expected outcome of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expectation {
    /// A result that contains this text.
    Answer(&'static str),
    Error(ErrorKind),
}

impl Expectation {
    /// Returns whether a result is as expected.
    pub(crate) fn is_met_by(self, result: &CallResult) -> bool {
        match self {
            Self::Answer(text) => result.text().is_some_and(|answer| answer.contains(text)),
            Self::Error(kind) => result.error().is_some_and(|error| error.kind == kind),
        }
    }
}

/// A call of the demo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) section: Section,
    pub(crate) what: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) expected: Expectation,
}

macro_rules! example {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../../../example-tools/dist/", $name, ".wasm")))
    };
}

macro_rules! program {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../../tests/programs/", $name, ".wat")))
    };
}

/// The example tools, as they are built from `example-tools/`.
pub(crate) const TOOLS: &[(&str, &[u8])] =
    &[example!("calculator"), example!("text"), example!("json"), example!("countdown"), example!("typed-greeter")];

/// The hostile tools, as WebAssembly text.
pub(crate) const HOSTILE: &[(&str, &str)] = &[
    program!("spin"),
    program!("spin-start"),
    program!("sleep"),
    program!("memory-bomb"),
    program!("huge-result"),
    program!("stdout-flood"),
    program!("traps"),
    program!("recurse"),
];

const fn useful(what: &'static str, tool: &'static str, arguments: &'static str, expected: Expectation) -> Step {
    Step { section: Section::Useful, what, tool, arguments, expected }
}

const fn hostile(what: &'static str, tool: &'static str, kind: ErrorKind) -> Step {
    Step { section: Section::Hostile, what, tool, arguments: "{}", expected: Expectation::Error(kind) }
}

/// All calls, in their order.
pub(crate) const STEPS: &[Step] = &[
    useful("add 3 and 5", "calculator__add", r#"{"a": 3, "b": 5}"#, Expectation::Answer("8")),
    useful(
        "evaluate (3 + 5) * 2",
        "calculator__evaluate",
        r#"{"expression": "(3 + 5) * 2"}"#,
        Expectation::Answer("16"),
    ),
    useful("divide 1 by 0", "calculator__divide", r#"{"a": 1, "b": 0}"#, Expectation::Error(ErrorKind::ToolFailed)),
    useful(
        "add \"3\" and nothing",
        "calculator__add",
        r#"{"a": "3"}"#,
        Expectation::Error(ErrorKind::InvalidArguments),
    ),
    useful(
        "count words",
        "text__statistics",
        r#"{"text": "Behind glass, every call is a fresh start."}"#,
        Expectation::Answer("8"),
    ),
    useful(
        "query JSON",
        "json__query",
        r#"{"document": {"tools": [{"name": "a"}, {"name": "b"}]}, "expression": "tools[].name"}"#,
        Expectation::Answer("b"),
    ),
    useful(
        "count down with progress",
        "countdown__countdown",
        r#"{"from": 5, "step_ms": 10}"#,
        Expectation::Answer("0"),
    ),
    useful(
        "greet, without any SDK",
        "typed-greeter__greetings_greet",
        r#"{"name": "world", "formality": "polite"}"#,
        Expectation::Answer("world"),
    ),
    useful("call an unknown tool", "calculator__launch", "{}", Expectation::Error(ErrorKind::UnknownTool)),
    hostile("loop for ever", "spin__run", ErrorKind::Deadline),
    hostile("loop before being called", "spin-start__run", ErrorKind::Deadline),
    hostile("sleep in a host call", "sleep__run", ErrorKind::Deadline),
    hostile("take all the memory", "memory-bomb__run", ErrorKind::Memory),
    hostile("return 63 MiB", "huge-result__run", ErrorKind::OutputTooLarge),
    hostile("flood stdout for ever", "stdout-flood__run", ErrorKind::Deadline),
    hostile("crash", "traps__unreachable", ErrorKind::Trap),
    hostile("read out of bounds", "traps__out-of-bounds", ErrorKind::Trap),
    hostile("recurse for ever", "recurse__run", ErrorKind::Trap),
];
