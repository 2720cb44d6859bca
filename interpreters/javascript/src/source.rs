//! The source text of a program: what surrounds it before it is compiled, and positions in it.

use std::borrow::Cow;

/// The name of the program in backtraces.
pub(crate) const FILE_NAME: &str = "program.js";
/// Text before the program, on its first line: `await` and `return` work in the body of an asynchronous function.
const PREFIX: &str = "(async () => {";
/// Text after the program. The line break ends a comment on its last line.
const SUFFIX: &str = "\n})";

/// Returns the expression that is compiled: a function with the program as its body.
pub(crate) fn wrap(program: &str) -> String {
    format!("{PREFIX}{program}{SUFFIX}")
}

/// Leaves out a code fence around the program, as models write it. Its lines stay, so that positions are those of the
/// text that the model wrote.
pub(crate) fn unfence(code: &str) -> Cow<'_, str> {
    let lead = code.len() - code.trim_start().len();
    let (space, text) = code.split_at(lead);
    let Some(rest) = text.strip_prefix("```") else { return Cow::Borrowed(code) };
    let body = rest.split_once('\n').map_or("", |(_language, body)| body);
    let body = body.trim_end().strip_suffix("```").unwrap_or(body);
    Cow::Owned(format!("{space}\n{body}"))
}

/// Returns the line and the column of a byte of the program, both starting at 1.
pub(crate) fn position_of(program: &str, at: usize) -> (u32, u32) {
    let before = program.get(..at).unwrap_or(program);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    let capped = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (capped(line), capped(column))
}

/// Finds the innermost position of the program in a backtrace, as line and column, both starting at 1.
pub(crate) fn find_position(backtrace: &str, code: &str) -> Option<(u32, u32)> {
    let (_, after) = backtrace.split_once(FILE_NAME)?;
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let line = digits(after.strip_prefix(':')?);
    let column = after.get(1 + line.len()..).and_then(|rest| rest.strip_prefix(':')).map(digits);
    let line = line.parse::<u32>().ok()?;
    let column = column.and_then(|column| column.parse::<u32>().ok()).unwrap_or(1);
    let column = if line == 1 { column.saturating_sub(PREFIX.len() as u32) } else { column };
    // A missing bracket is noticed in the text after the program.
    let lines = u32::try_from(code.lines().count()).unwrap_or(u32::MAX).max(1);
    Some((line.min(lines), if line > lines { 1 } else { column.max(1) }))
}
