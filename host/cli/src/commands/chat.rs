//! `fumehood chat`: several messages in one session, until `/quit`.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Result;

use crate::agent::chat_input::{COMMANDS, ChatEvent, ChatInput};
use crate::agent::saved::SaveMode;
use crate::agent::session::AgentSession;
use crate::args::Arguments;
use crate::args::run::{ApproveName, Chat};
use crate::exit::{Exit, UsageError};
use crate::render::quotation::{Quotation, one_line};
use crate::{render, user_folders};

/// Name of the file with the typed messages, in the user's state folder.
const HISTORY_FILE: &str = "chat-history";

pub(crate) async fn run(arguments: &Arguments, chat: &Chat) -> Result<Exit> {
    let saving = chat.session.clone().map_or(SaveMode::No, SaveMode::Open);
    if chat.agent.approve == Some(ApproveName::Json) {
        let message =
            "`--approve json` works only with `run`, because `chat` reads messages from standard input".to_owned();
        return Err(UsageError(message).into());
    }
    let mut session = AgentSession::set_up(arguments, &chat.agent, &saving).await?;
    let is_typed = std::io::stdin().is_terminal();
    let is_edited = is_typed && std::io::stdout().is_terminal() && !arguments.json;
    let input = match is_edited.then(|| ChatInput::editor(history_file(&session))) {
        Some(Ok(editor)) => editor,
        Some(Err(error)) => {
            render::warning(&format!("line editing is not available: {error}"));
            ChatInput::lines(is_typed)
        }
        None => ChatInput::lines(is_typed),
    };
    if is_typed {
        render::note("`/quit` or Ctrl-D ends the session, Ctrl-C stops an answer, `/help` lists the commands.");
    }
    let ended = match session.resume().await {
        Ok(Some(Exit::Waiting)) => Ok(Exit::Waiting),
        Ok(_) => converse(&mut session, input, is_typed).await,
        Err(error) => Err(error),
    };
    session.close().await?;
    ended
}

/// Returns the path of the history file; `None` if nothing is recorded.
fn history_file(session: &AgentSession) -> Option<PathBuf> {
    user_folders::state_folder().filter(|_| session.is_recorded()).map(|folder| folder.join(HISTORY_FILE))
}

/// Runs the conversation until its end. Returns the exit code of the last answer, so that a script can check it.
async fn converse(session: &mut AgentSession, mut input: ChatInput, is_typed: bool) -> Result<Exit> {
    let mut last = Exit::Ok;
    let mut was_interrupted = false;
    loop {
        let typed = tokio::select! {
            typed = input.next() => typed,
            () = session.idle_interrupt() => return Ok(Exit::Interrupted),
        };
        let text = match &typed {
            ChatEvent::End => return Ok(last),
            ChatEvent::Interrupt if was_interrupted => return Ok(Exit::Interrupted),
            ChatEvent::Interrupt => {
                render::note("press Ctrl-C again, or Ctrl-D, to end the session");
                was_interrupted = true;
                continue;
            }
            ChatEvent::Text(text) => text.trim(),
        };
        was_interrupted = false;
        match text {
            "/quit" | "/exit" => return Ok(last),
            "" => {}
            "/help" => print_help(),
            "/tools" => print_tools(session)?,
            "/reset" => render::note(&format!("new conversation, in session {}", session.reset().await?)),
            command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                render::note("unknown command; `/help` lists the commands");
            }
            message => last = session.say(message.to_owned()).await?,
        }
        // The session takes no message before its calls are answered.
        if last == Exit::Waiting {
            return Ok(last);
        }
        // A person at a terminal has seen how an answer ended, so it does not become the exit code.
        if is_typed {
            last = Exit::Ok;
        }
    }
}

fn print_help() {
    for (name, meaning) in COMMANDS {
        render::note(&format!("  {name:<8}{meaning}"));
    }
    render::note(
        "End a line with a backslash to continue on the next line. Ctrl-C stops an answer and keeps its text.",
    );
}

fn print_tools(session: &AgentSession) -> Result<()> {
    let tools = session.tools();
    if tools.is_empty() {
        render::note("the model has no tools; load a component with `--tool FILE`");
    }
    let mut quotation = Quotation::for_stderr();
    tools.iter().try_for_each(|tool| {
        let about = tool.description.lines().next().unwrap_or_default();
        quotation.write_block(2, &format!("{}  {}", one_line(&tool.name), one_line(about)))
    })
}
