//! Uncaught exceptions, as the runtimes of Python and JavaScript write them to stderr before they abort.
//!
//! The engine reports such an end as a trap, with a page of frames of the interpreter. A caller is better served by a
//! tool that failed with a message.

/// Maximum size of the end of stderr that is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 64 << 10;
/// The message of ComponentizeJS for a function that throws anything other than the error of its `result`.
const NOT_A_STRING: &str = "expected a string, received [object]";

/// An exception that ended a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UncaughtException {
    /// The exception's message, such as `ValueError: no such city`.
    pub(crate) message: String,
    /// Advice for the caller.
    pub(crate) hint: &'static str,
}

impl UncaughtException {
    /// Finds the last exception in a guest's stderr.
    pub(crate) fn find(stderr: &str) -> Option<Self> {
        let start = stderr.len().saturating_sub(MAX_SEARCHED_BYTES);
        let start = (start..=stderr.len()).find(|at| stderr.is_char_boundary(*at))?;
        let tail = stderr.get(start..)?;
        let message = find_python(tail).or_else(|| find_javascript(tail)).or_else(|| find_quickjs(tail))?;
        let hint = match message.as_str() {
            NOT_A_STRING => {
                "the tool threw an object, but its error type is a string; its author should throw a string"
            }
            _ => "the tool did not catch this exception",
        };
        Some(Self { message, hint })
    }
}

/// Parses Python's traceback: a first line, indented frames, and the exception with its message of one line or more.
fn find_python(stderr: &str) -> Option<String> {
    let (_, traceback) = stderr.rsplit_once("Traceback (most recent call last):")?;
    let lines = traceback.lines().skip(1).skip_while(|line| line.is_empty() || line.starts_with(' '));
    // The runtime's own message about its abort follows.
    let lines = lines.take_while(|line| !line.starts_with("thread '"));
    non_empty(&lines.collect::<Vec<_>>().join("\n"))
}

/// Parses SpiderMonkey's report: the message, a line `Stack:`, and frames.
fn find_javascript(stderr: &str) -> Option<String> {
    let (before, _) = stderr.rsplit_once("\nStack:\n")?;
    non_empty(before.lines().next_back()?)
}

/// Parses the report of componentize-qjs: the exception as its runtime writes it before it panics.
fn find_quickjs(stderr: &str) -> Option<String> {
    let (_, report) = stderr.rsplit_once("Exception { message: Some(\"")?;
    non_empty(report.split_once("\"), stack: ")?.0)
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, expected: Option<&str>) {
        assert_eq!(UncaughtException::find(stderr).map(|found| found.message).as_deref(), expected, "{stderr}");
    }

    #[test]
    fn finds_python_exceptions() {
        let traceback = "Traceback (most recent call last):\n  File \"/0/app.py\", line 15, in repeat\n";
        let end = "\nthread '<unnamed>' (1) panicked at runtime/src/lib.rs:1280:25:\nPython function threw an unexpected \
                   exception\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        check(&format!("{traceback}ValueError: at most 100 times\n{end}"), Some("ValueError: at most 100 times"));
        check(
            &format!("{traceback}    f()\n    ^^^\nKeyError: 'a'\nmore of it\n{end}"),
            Some("KeyError: 'a'\nmore of it"),
        );
        let chained = format!(
            "{traceback}KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n{traceback}OSError\n{end}"
        );
        check(&chained, Some("OSError"));
        check(traceback, None);
    }

    #[test]
    fn finds_javascript_exceptions() {
        let end = "Stack:\n  repeat@cities.js:12:11\n  export_repeat@initializer.js:132:15\n\nRedirecting call to abort() to \
                   mozalloc_abort\n\n";
        check(&format!("a line of its own\nat most 100 times\n{end}"), Some("at most 100 times"));
        check(end, None);
        let found = UncaughtException::find(&format!("expected a string, received [object]\n{end}")).unwrap();
        assert!(found.hint.contains("should throw a string"), "{found:?}");
    }

    #[test]
    fn finds_exceptions_of_quickjs() {
        let report = "\nthread '<unnamed>' (1) panicked at crates/runtime/src/bindings.rs:416:30:\nCall failed 'async export': \
                      Value(Exception(\nException { message: Some(\"setTimeout is not defined\"), stack: Some(\"    at greet\") \
                      })\n)\nnote: run with `RUST_BACKTRACE=1`\n";
        check(report, Some("setTimeout is not defined"));
    }

    #[test]
    fn ignores_other_output() {
        check("", None);
        check("thread 'main' panicked at src/lib.rs:3:5:\nboom\n", None);
        check(&"ä".repeat(MAX_SEARCHED_BYTES), None);
    }
}
