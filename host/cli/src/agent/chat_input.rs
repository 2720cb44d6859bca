//! Input of `chat`: messages from a line editor at a terminal, or line by line elsewhere.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use fumehood_platform::private;
use fumehood_platform::terminal::TerminalSettings;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::sync::mpsc;

use crate::{logging, render};

/// Maximum size of a line without an editor, in bytes; a longer one is read as several.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum number of messages in the history.
const MAX_HISTORY_MESSAGES: usize = 1000;
const PROMPT: &str = "> ";
/// Commands of a chat, with their descriptions.
pub(crate) const COMMANDS: [(&str, &str); 5] = [
    ("/help", "list these commands"),
    ("/tools", "list the tools that the model may call"),
    ("/reset", "start over: the model forgets this conversation"),
    ("/quit", "end the session; so does Ctrl-D"),
    ("/exit", "the same"),
];

/// One input of a person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChatEvent {
    /// A message or a command.
    Text(String),
    /// Ctrl-C.
    Interrupt,
    /// The end of the input.
    End,
}

/// A reader of messages on a thread of its own, because reading cannot be cancelled and must not keep the process from
/// ending. A message is read when it is requested, and not before: input in between may be the answer to a question.
pub(crate) struct ChatInput {
    request: std::sync::mpsc::Sender<()>,
    typed: mpsc::Receiver<ChatEvent>,
    /// The settings of the terminal before an editor changed them.
    settings: Option<TerminalSettings>,
}

impl ChatInput {
    /// Reads lines of standard input; at a terminal after a prompt on standard error.
    pub(crate) fn lines(is_terminal: bool) -> Self {
        Self::start(None, move || {
            if is_terminal {
                render::prompt(&render::styled(render::STRONG, PROMPT));
            }
            read_line()
        })
    }

    /// Reads messages with an editor on the terminal that standard input and standard output are. Lines that end in a
    /// backslash go on in the next one, and a paste of several lines is one message. `history` is the file in which
    /// messages are kept for the next session.
    ///
    /// # Errors
    /// If the terminal cannot be used.
    pub(crate) fn editor(history: Option<PathBuf>) -> anyhow::Result<Self> {
        let settings = TerminalSettings::of_stdin();
        let config = Config::builder()
            .auto_add_history(true)
            .history_ignore_space(true)
            .max_history_size(MAX_HISTORY_MESSAGES)?;
        let config = config.bracketed_paste(true).build();
        let entries = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, entries)?;
        editor.set_helper(Some(Commands));
        if let Some(file) = &history {
            // A history that cannot be read is an empty one.
            let _unreadable = editor.load_history(file);
        }
        Ok(Self::start(settings, move || {
            let typed = edit(&mut editor);
            if let (Some(file), ChatEvent::Text(_)) = (&history, &typed) {
                save(&mut editor, file);
            }
            typed
        }))
    }

    fn start(settings: Option<TerminalSettings>, mut read: impl FnMut() -> ChatEvent + Send + 'static) -> Self {
        let (request, requests) = std::sync::mpsc::channel();
        let (sender, typed) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("chat input".to_owned()).spawn(move || {
            while requests.recv().is_ok() {
                let typed = read();
                if sender.blocking_send(typed).is_err() {
                    return;
                }
            }
        });
        // Without a thread the sender is gone, which is the same as the end of the input.
        drop(thread);
        Self { request, typed, settings }
    }

    /// Waits for the next message. Must not be called again after it was cancelled: the read that it requested goes on,
    /// and its message would be taken for the next one.
    pub(crate) async fn next(&mut self) -> ChatEvent {
        if self.request.send(()).is_err() {
            return ChatEvent::End;
        }
        self.typed.recv().await.unwrap_or(ChatEvent::End)
    }
}

impl Drop for ChatInput {
    /// Leaves the terminal as it was, even in the middle of an edited line.
    fn drop(&mut self) {
        if let Some(settings) = &self.settings {
            let _unreportable = settings.restore();
        }
    }
}

fn read_line() -> ChatEvent {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
    match read {
        Ok(1..) => ChatEvent::Text(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
        _ => ChatEvent::End,
    }
}

fn edit(editor: &mut Editor<Commands, FileHistory>) -> ChatEvent {
    let _hold = logging::hold();
    loop {
        return match editor.readline(PROMPT) {
            Ok(text) => ChatEvent::Text(text.replace("\\\n", "\n")),
            Err(ReadlineError::Interrupted) => ChatEvent::Interrupt,
            Err(ReadlineError::Signal(_)) => continue,
            Err(_) => ChatEvent::End,
        };
    }
}

fn save(editor: &mut Editor<Commands, FileHistory>, file: &Path) {
    if let Some(folder) = file.parent() {
        let _exists_or_fails_below = private::create_folders(folder);
    }
    // A message that is not kept for the next session is still sent.
    let _unwritable = editor.append_history(file);
}

/// The editor's helper: completes commands, and continues lines that end in a backslash.
struct Commands;

impl Helper for Commands {}
impl Highlighter for Commands {}

impl Hinter for Commands {
    type Hint = String;
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or_default();
        let names = COMMANDS.iter().map(|(name, _)| *name);
        let fitting = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, fitting.map(str::to_owned).collect()))
    }
}

impl Validator for Commands {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_completed() {
        let history = FileHistory::new();
        let complete = |typed: &str| Commands.complete(typed, typed.len(), &Context::new(&history)).unwrap().1;
        assert_eq!(complete("/re"), ["/reset"]);
        assert_eq!(complete("/").len(), COMMANDS.len());
        assert!(complete("he").is_empty());
    }
}
