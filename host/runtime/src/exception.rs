//! Exceptions that nobody caught: what the runtimes of Python and JavaScript write to stderr before they abort.
//!
//! To the engine such an end is a trap, with a page of frames of the interpreter. To a model it is a tool that failed, with a
//! message.

/// The longest message that is looked for, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Reads the message of the last exception in what a guest wrote to stderr, such as `ValueError: no such city`.
pub(crate) fn message(stderr: &str) -> Option<String> {
    let start = stderr.len().saturating_sub(MAX_BYTES);
    let start = (start..=stderr.len()).find(|at| stderr.is_char_boundary(*at))?;
    let tail = stderr.get(start..)?;
    python(tail).or_else(|| javascript(tail))
}

/// Python's traceback: a first line, frames that are indented, and the exception with its message, which may have more lines.
fn python(stderr: &str) -> Option<String> {
    const FIRST: &str = "Traceback (most recent call last):";
    let (_, traceback) = stderr.rsplit_once(FIRST)?;
    let lines = traceback.lines().skip(1).skip_while(|line| line.is_empty() || line.starts_with(' '));
    // What the runtime says of itself before it aborts.
    let lines = lines.take_while(|line| !line.starts_with("thread '") && !line.starts_with("note: run with"));
    non_empty(lines.collect::<Vec<_>>().join("\n"))
}

/// SpiderMonkey's report: the exception with its message, a line `Stack:`, and frames.
fn javascript(stderr: &str) -> Option<String> {
    let (before, _) = stderr.rsplit_once("\nStack:\n")?;
    let line = before.lines().next_back()?;
    non_empty(line.trim_start_matches("Error while running ").to_owned())
}

fn non_empty(text: String) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
