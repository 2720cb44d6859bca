//! `fumehood chat`: several messages in one session, until `/quit`.

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::Result;

use crate::agent::keyboard::Keyboard;
use crate::agent::setup::Desk;
use crate::args::Arguments;
use crate::args::run::Chat;
use crate::exit::Exit;
use crate::render::{self, STRONG, styled};

pub(crate) async fn run(arguments: &Arguments, chat: &Chat) -> Result<Exit> {
    let keyboard = Arc::new(Keyboard::new());
    let mut desk = Desk::set_up(arguments, &chat.agent, Arc::clone(&keyboard)).await?;
    let is_typed = std::io::stdin().is_terminal();
    if is_typed {
        render::note("`/quit`, or Ctrl-D, ends the session; Ctrl-C stops an answer.");
    }
    let ended = converse(&mut desk, &keyboard, is_typed).await;
    desk.close().await?;
    ended
}

/// The exit code is that of the last answer, so that a script can tell whether it got one.
async fn converse(desk: &mut Desk, keyboard: &Keyboard, is_typed: bool) -> Result<Exit> {
    let mut last = Exit::Ok;
    loop {
        if is_typed {
            render::prompt(&styled(STRONG, "> "));
        }
        let line = tokio::select! {
            line = keyboard.line() => line,
            () = desk.idle_interrupt() => return Ok(Exit::Interrupted),
        };
        match line.as_deref().map(str::trim) {
            None | Some("/quit" | "/exit") => return Ok(last),
            Some("") => {}
            Some(command) if command.starts_with('/') && !command.contains(' ') => {
                render::note("there is no such command; `/quit` ends the session");
            }
            Some(message) => last = desk.say(message.to_owned()).await?,
        }
        // Whoever types has seen it, and goes on.
        if is_typed {
            last = Exit::Ok;
        }
    }
}
