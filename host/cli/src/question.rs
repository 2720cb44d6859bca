//! Questions asked at the terminal: with the answer yes or no, for a line of text, or for a passphrase.
//!
//! An answer is typed after its question was shown. Input that was typed or pasted before is discarded, and so is a
//! line that comes together with others. Nothing but a terminal is read: a pipe answers no question.

use std::io::{self, IsTerminal as _, Stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fumehood::sanitize::printable;
use fumehood_platform::terminal::{self, HiddenInput};
use zeroize::Zeroizing;

use crate::logging;
use crate::render::{self, STRONG, styled};

/// Time without input before a question is shown: a paste that is still arriving ends before that.
const QUIET: Duration = Duration::from_millis(100);
/// Maximum time to wait for quiet.
const MAX_NOISE: Duration = Duration::from_secs(3);
/// Time within which further input belongs to the same paste as a line.
const PASTE_GAP: Duration = Duration::from_millis(100);
/// Interval at which a waiting question checks whether it was cancelled.
const TICK: Duration = Duration::from_millis(100);
/// Number of pastes instead of an answer after which the answer is no.
const MAX_PASTES: u32 = 3;
/// Maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 4096;
const PROMPT: &str = "[y/N] ";
const UNREADABLE: &str = "cannot read the answer";

/// Returns whether a person can be asked: standard input and standard error are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question. Returns whether the answer is a clear yes.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) fn ask(question: &str) -> Result<bool> {
    let _hold = logging::hold();
    discard_input(&io::stdin()).context(UNREADABLE)?;
    render::prompt(&format!("{} {}", printable(question), styled(STRONG, PROMPT)));
    read_answer(&AtomicBool::new(false)).context(UNREADABLE)
}

/// Asks for a line of text. Returns it without the spaces around it; it is empty if there is no answer.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) fn ask_text(question: &str) -> Result<String> {
    let _hold = logging::hold();
    discard_input(&io::stdin()).context(UNREADABLE)?;
    let prompt = format!("{} ", printable(question));
    render::prompt(&prompt);
    let typed = read_typed(&AtomicBool::new(false), &prompt).context(UNREADABLE)?;
    Ok(typed.unwrap_or_default().trim().to_owned())
}

/// Asks the question that `show` prints, without blocking the runtime. Returns whether the answer is a clear yes.
/// Dropping the future cancels the question.
pub(crate) async fn ask_with(show: impl FnOnce() -> Result<()>) -> bool {
    let _hold = logging::hold();
    let is_quiet = tokio::task::spawn_blocking(|| discard_input(&io::stdin())).await;
    if !matches!(is_quiet, Ok(Ok(()))) || show().is_err() {
        return false;
    }
    render::prompt(&styled(STRONG, PROMPT));
    let cancel = CancelOnDrop(Arc::default());
    let is_cancelled = Arc::clone(&cancel.0);
    let read = tokio::task::spawn_blocking(move || read_answer(&is_cancelled)).await;
    matches!(read, Ok(Ok(true)))
}

/// A guard that ends the thread that waits for an answer.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Asks for a passphrase, which is not shown. Returns `None` if the person gives up with Ctrl-C or Ctrl-D.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) fn ask_hidden(prompt: &str) -> Result<Option<Zeroizing<String>>> {
    const UNREADABLE: &str = "cannot read the passphrase";
    let _hold = logging::hold();
    let stdin = io::stdin();
    discard_input(&stdin).context(UNREADABLE)?;
    let hidden = HiddenInput::begin().context(UNREADABLE)?;
    render::prompt(&styled(STRONG, &printable(prompt)));
    let typed = read_hidden(&stdin);
    drop(hidden);
    render::note("");
    typed.context(UNREADABLE)
}

/// Reads keys until a line ends.
fn read_hidden(stdin: &Stdin) -> io::Result<Option<Zeroizing<String>>> {
    let mut line = HiddenLine::new();
    let mut buffer = Zeroizing::new([0; 512]);
    loop {
        let count = match terminal::read_unbuffered(stdin, buffer.as_mut_slice()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let keys = buffer.get(..count).unwrap_or_default();
        if count == 0 {
            return Ok(None);
        }
        for key in keys {
            match line.press(*key) {
                KeyEffect::Typing => {}
                KeyEffect::End => return Ok(Some(line.into_text())),
                KeyEffect::GivenUp => return Ok(None),
            }
        }
    }
}

/// A line that is typed and not shown.
struct HiddenLine {
    bytes: Zeroizing<Vec<u8>>,
}

/// The effect of a key on a [`HiddenLine`].
#[derive(Debug, PartialEq, Eq)]
enum KeyEffect {
    Typing,
    End,
    GivenUp,
}

impl HiddenLine {
    fn new() -> Self {
        // A vector that grows would leave copies behind.
        Self { bytes: Zeroizing::new(Vec::with_capacity(MAX_ANSWER_BYTES)) }
    }

    /// Applies a key: those of a line editor, as terminals send them.
    fn press(&mut self, key: u8) -> KeyEffect {
        const INTERRUPT: u8 = 0x03;
        const END_OF_INPUT: u8 = 0x04;
        const ERASE_LINE: u8 = 0x15;
        match key {
            b'\n' | b'\r' => return KeyEffect::End,
            INTERRUPT => return KeyEffect::GivenUp,
            END_OF_INPUT if self.bytes.is_empty() => return KeyEffect::GivenUp,
            ERASE_LINE => self.bytes.clear(),
            0x08 | 0x7f => {
                // The last character, which may have several bytes.
                while self.bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            _ if self.bytes.len() < MAX_ANSWER_BYTES => self.bytes.push(key),
            _ => {}
        }
        KeyEffect::Typing
    }

    fn into_text(self) -> Zeroizing<String> {
        Zeroizing::new(String::from_utf8_lossy(&self.bytes).into_owned())
    }
}

/// Reads the answer to a question that has been shown.
fn read_answer(is_cancelled: &AtomicBool) -> io::Result<bool> {
    let typed = read_typed(is_cancelled, &styled(STRONG, PROMPT))?;
    Ok(typed.is_some_and(|text| is_yes(&text)))
}

/// Reads the line that answers a question which has been shown, and shows `prompt` again after a paste.
fn read_typed(is_cancelled: &AtomicBool, prompt: &str) -> io::Result<Option<String>> {
    let stdin = io::stdin();
    for _ in 0..MAX_PASTES {
        match read_line(&stdin, is_cancelled)? {
            Line::Typed(text) => return Ok(Some(text)),
            Line::End => return Ok(None),
            Line::Pasted => {
                discard_input(&stdin)?;
                render::note("input before the question is ignored; type the answer on a separate line");
                render::prompt(prompt);
            }
        }
    }
    discard_input(&stdin)?;
    Ok(None)
}

/// Discards input until there is none for a while.
fn discard_input(stdin: &Stdin) -> io::Result<()> {
    let began = Instant::now();
    loop {
        terminal::discard_input(stdin)?;
        if began.elapsed() >= MAX_NOISE || !terminal::has_input(stdin, QUIET)? {
            // A line that has not ended is not readable yet, and is discarded too.
            return terminal::discard_input(stdin);
        }
    }
}

/// A line that was read, or none.
enum Line {
    /// A line of its own.
    Typed(String),
    /// A line with more behind it.
    Pasted,
    /// No line: the input ended, the question was cancelled, or the line is too long.
    End,
}

fn read_line(stdin: &Stdin, is_cancelled: &AtomicBool) -> io::Result<Line> {
    let mut line = Vec::new();
    loop {
        if is_cancelled.load(Ordering::Acquire) {
            return Ok(Line::End);
        }
        if !terminal::has_input(stdin, TICK)? {
            continue;
        }
        let mut buffer = [0; 512];
        // Not through the buffer of the standard library, which would keep what follows for later.
        let count = match terminal::read_unbuffered(stdin, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        line.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || line.len() > MAX_ANSWER_BYTES {
            return Ok(Line::End);
        }
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            let is_alone = end + 1 == line.len() && !terminal::has_input(stdin, PASTE_GAP)?;
            let text = String::from_utf8_lossy(&line).into_owned();
            return Ok(if is_alone { Line::Typed(text) } else { Line::Pasted });
        }
    }
}

/// Returns true for `y` and `yes` in any case, and for nothing else.
fn is_yes(typed: &str) -> bool {
    matches!(typed.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_a_clear_yes() {
        for yes in ["y\n", " Yes \n", "YES"] {
            assert!(is_yes(yes), "{yes}");
        }
        for no in ["", "\n", "n", "yes please", "ja", "y\u{200b}"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    fn type_hidden(keys: &str) -> (Option<KeyEffect>, String) {
        let mut line = HiddenLine::new();
        let pressed = keys.bytes().map(|key| line.press(key)).find(|pressed| *pressed != KeyEffect::Typing);
        (pressed, line.into_text().to_string())
    }

    fn ended_with(text: &str) -> (Option<KeyEffect>, String) {
        (Some(KeyEffect::End), text.to_owned())
    }

    #[test]
    fn hidden_line_takes_the_keys_of_a_line_editor() {
        assert_eq!(type_hidden("secret\nmore"), ended_with("secret"));
        assert_eq!(type_hidden("seé\x7f\x7fcret\r"), ended_with("scret"));
        assert_eq!(type_hidden("wrong\x15right\n"), ended_with("right"));
        assert_eq!(type_hidden("\x7f\n"), ended_with(""));
        assert_eq!(type_hidden("a\x03").0, Some(KeyEffect::GivenUp));
        assert_eq!(type_hidden("\x04").0, Some(KeyEffect::GivenUp));
        assert_eq!(type_hidden("ab").0, None);
    }
}
