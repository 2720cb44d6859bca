//! Failures of commands: in words for people, as JSON for programs.

use std::process::ExitCode;

use fumehood::Metadata;
use serde::Serialize;

use super::quotation::{indent_continuations, wrap_for_stderr};
use super::{BAD, json, note_lines, styled};
use crate::exit::Exit;
use crate::logging;

/// The form in which a failure is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureForm<'a> {
    /// Lines on standard error.
    Text,
    /// A JSON object on standard output.
    Json,
    /// Like [`Self::Json`], with the members of the result of a call.
    Call {
        /// Name of the tool as it was typed.
        tool: &'a str,
    },
}

/// Id that the host gives the only call of a command.
pub(crate) const CALL_ID: &str = "call-1";

/// A failure as JSON. The members of a call are in the order of a result.
#[derive(Serialize)]
struct Failure<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<[(); 0]>,
    error: Cause<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
}

/// The error in the JSON of a failure.
#[derive(Serialize)]
struct Cause<'a> {
    kind: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    because: &'a [String],
}

/// Reports the error of a command with its whole chain of causes, outermost first, and returns the exit code.
pub(crate) fn failure(error: &anyhow::Error, form: FailureForm<'_>, exit: Exit) -> ExitCode {
    let (message, because) = causes(error);
    let call = match form {
        FailureForm::Call { tool } => Some((tool, Metadata::default())),
        FailureForm::Text | FailureForm::Json => None,
    };
    // If standard output is what broke, JSON cannot be printed either.
    let is_reported = form != FailureForm::Text && {
        let error = Cause { kind: exit.kind(), message: &message, because: &because };
        let (tool, metadata) = call.unzip();
        let (id, content) = tool.map(|_| (CALL_ID, [])).unzip();
        json(&Failure { id, tool, status: "error", content, error, metadata }).is_ok()
    };
    if !is_reported && logging::replaces_notices() {
        let because = because.join(": ");
        let because = Some(because.as_str()).filter(|because| !because.is_empty());
        tracing::error!(target: logging::NOTICE, { because, exit_code = exit as i32 }, "{message}");
        logging::end();
    } else if !is_reported {
        note_lines(&format!("{} {}", styled(BAD, "error:"), wrap_for_stderr(&message, 7)));
        for cause in because {
            note_lines(&format!("  because: {}", wrap_for_stderr(&cause, 11)));
        }
    }
    exit.into()
}

/// Returns an error and its causes. A cause that the error repeats is left out.
fn causes(error: &anyhow::Error) -> (String, Vec<String>) {
    let mut causes = error.chain().map(|cause| indent_continuations(&cause.to_string(), "    "));
    let outermost = causes.next().unwrap_or_default();
    let mut because: Vec<String> = Vec::new();
    for cause in causes {
        if !outermost.ends_with(&cause) && because.last() != Some(&cause) {
            because.push(cause);
        }
    }
    (outermost, because)
}
