//! Cases that are programs of a model: what they do in the interpreter, and with the tools that they call.

use fumehood::ErrorKind::{Deadline, Quota, ToolFailed};

use super::cases::Expected::{Answer, Error};
use super::cases::{Case, case};

/// The tool that runs programs.
pub(super) const RUN_CODE: &str = fumehood::agent::code::RUN_CODE;

/// Defines a case with one program.
const fn program(row: u8, what: &'static str, code: &'static [&'static str], expected: super::cases::Expected) -> Case {
    case(row, what, RUN_CODE, code, expected)
}

pub(super) const PROGRAMS: &[Case] = &[
    program(77, "loop for ever in a program", &[r#"{"code":"while (true);"}"#; 3], Error(Deadline)),
    program(77, "wait for ever in a program", &[r#"{"code":"for (;;) await null"}"#], Error(Deadline)),
    program(77, "recurse in a program", &[r#"{"code":"const f = n => f(n + 1) + 1; f(0)"}"#], Error(ToolFailed)),
    program(
        77,
        "take all the memory in a program",
        &[r#"{"code":"let a = []; while (true) a.push('x'.repeat(1e6) + a.length)"}"#],
        Error(ToolFailed),
    ),
    program(
        77,
        "make a million calls in a program",
        &[r#"{"code":"for (let i = 0; i < 1e6; i++) tools.counter.run({}); while (true);"}"#],
        Error(Quota),
    ),
    program(
        77,
        "look for powers in a program",
        &[
            r#"{"code":"return [typeof fetch, typeof require, typeof process, typeof std, typeof os].every(it => it === 'undefined')"}"#,
        ],
        Answer("true"),
    ),
    program(
        78,
        "send the contents of a folder from a program",
        &[
            r#"{"code":"await tools.files.read({folder: 0, path: 'file.txt', follow: 1}).catch(e => e); try { await tools.fetch.fetch({}) } catch (e) { return e.kind }"}"#,
        ],
        Answer("needs_approval"),
    ),
];
