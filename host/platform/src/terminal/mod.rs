//! The terminal that standard input, output and error may be.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
compile_error!("terminal: reading an answer without earlier input is not implemented for this system");

use std::io::{self, Stdin};
use std::time::Duration;

/// The settings of a terminal, as they were.
#[derive(Debug, Clone)]
pub struct TerminalSettings(system::Settings);

impl TerminalSettings {
    /// Reads the settings of the terminal that standard input is; `None` if it is none.
    #[must_use]
    pub fn of_stdin() -> Option<Self> {
        system::Settings::of_stdin().map(Self)
    }

    /// Makes them those of the terminal again.
    ///
    /// # Errors
    /// If standard input is no terminal any more.
    pub fn restore(&self) -> io::Result<()> {
        self.0.restore()
    }
}

/// A guard of a terminal that shows nothing of what is typed and hands over each key at once, those that would interrupt the
/// process among them. The settings before it come back when it is dropped.
#[derive(Debug)]
pub struct HiddenInput(TerminalSettings);

impl HiddenInput {
    /// Hides what is typed at standard input from here on.
    ///
    /// # Errors
    /// If standard input is no terminal.
    pub fn begin() -> io::Result<Self> {
        let before = system::Settings::hide()?;
        Ok(Self(TerminalSettings(before)))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = self.0.restore();
    }
}

/// Returns the width of the terminal behind standard output; `None` if it is none.
#[must_use]
pub fn stdout_columns() -> Option<usize> {
    system::columns(io::stdout())
}

/// Returns the width of the terminal behind standard error; `None` if it is none.
#[must_use]
pub fn stderr_columns() -> Option<usize> {
    system::columns(io::stderr())
}

/// Waits for input, at most for `patience`, which is less than a second.
///
/// # Errors
/// If the system cannot tell whether there is input.
pub fn has_input(stdin: &Stdin, patience: Duration) -> io::Result<bool> {
    system::has_input(stdin, patience)
}

/// Reads what is there, past the buffer of the standard library, which would keep what follows for later.
///
/// # Errors
/// If standard input cannot be read.
pub fn read_unbuffered(stdin: &Stdin, buffer: &mut [u8]) -> io::Result<usize> {
    system::read_unbuffered(stdin, buffer)
}

/// Discards what was typed and not read, lines that have not ended among it.
///
/// # Errors
/// If standard input is no terminal.
pub fn discard_input(stdin: &Stdin) -> io::Result<()> {
    system::discard_input(stdin)
}
