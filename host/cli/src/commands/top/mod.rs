//! `fumehood top`: the running calls of a server, live in the terminal.

mod screen;

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::listener::Token;
use fumehood::telemetry::{LiveClient, LiveSnapshot};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use self::screen::Screen;
use crate::args::{Arguments, Top};
use crate::exit::{Exit, UsageError};
use crate::source::token_of_environment;
use crate::{logging, render};

/// Minimum time between two looks, so that watching a server does not keep it busy.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// Interval in which the thread that reads keys looks whether it should end.
const KEY_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(arguments: &Arguments, top: &Top) -> Result<Exit> {
    let client = LiveClient::new(&top.url, token(top.token_file.as_deref())?)?;
    // Before the screen is taken over, so that an error stays visible.
    let first = client.snapshot().await?;
    if arguments.json {
        render::json(&first)?;
        return Ok(Exit::Ok);
    }
    if top.once {
        render::lines(&screen::to_text(&first))?;
        return Ok(Exit::Ok);
    }
    if !std::io::stdout().is_terminal() {
        let message = "standard output is not a terminal; print the calls once with `--once` or `--json`";
        return Err(UsageError(message.to_owned()).into());
    }
    let _hold = logging::hold();
    // It restores the terminal when this program panics, too.
    let mut terminal = ratatui::try_init().context("cannot control the terminal")?;
    let watched = watch(&mut terminal, &client, first, top).await;
    ratatui::restore();
    watched.map(|()| Exit::Ok)
}

/// Returns the token to show, if there is one.
fn token(file: Option<&Path>) -> Result<Option<String>> {
    let token = match file {
        Some(file) => Some(Token::read(file)?),
        None => token_of_environment()?,
    };
    Ok(token.map(|token| token.reveal().to_owned()))
}

/// Shows the calls until a key ends it.
async fn watch(terminal: &mut DefaultTerminal, client: &LiveClient, first: LiveSnapshot, top: &Top) -> Result<()> {
    let mut screen = Screen::new(&top.url, first);
    let mut keys = read_keys();
    let mut ticks = tokio::time::interval(top.interval.max(MIN_INTERVAL));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| screen.draw(frame)).context("cannot write to the terminal")?;
        tokio::select! {
            key = keys.recv() => match key {
                Some(Key::Redraw) => {}
                Some(Key::Up) => screen.select(-1),
                Some(Key::Down) => screen.select(1),
                Some(Key::Stop) => screen.ask(),
                Some(Key::Yes) => stop(&mut screen, client).await,
                Some(Key::No) => drop(screen.take_question()),
                Some(Key::Quit) | None => return Ok(()),
            },
            _ = ticks.tick() => match client.snapshot().await {
                Ok(snapshot) => screen.update(snapshot),
                Err(error) => screen.fail(error.to_string()),
            },
        }
    }
}

/// Stops the call that the screen asks about, if it asks.
async fn stop(screen: &mut Screen, client: &LiveClient) {
    let Some(id) = screen.take_question() else { return };
    match client.stop(&id).await {
        Ok(true) => {}
        Ok(false) => {
            let why =
                "the call was not stopped: it has ended, belongs to another tenant, or the server has no HTTP API";
            screen.say(why.to_owned());
        }
        Err(error) => screen.say(error.to_string()),
    }
}

/// The request of a key.
enum Key {
    Redraw,
    Up,
    Down,
    Stop,
    Yes,
    No,
    Quit,
}

/// Reads keys on a thread of its own, which ends soon after the receiver.
fn read_keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(KEY_INTERVAL) {
                Ok(false) => continue,
                Ok(true) => event::read().map_or(Some(Key::Quit), |event| to_key(&event)),
                Err(_terminal_is_gone) => Some(Key::Quit),
            };
            if key.is_some_and(|key| sender.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    receiver
}

fn to_key(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(key) if key.kind == KeyEventKind::Release => None,
        Event::Key(key) => match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
            // The terminal sends no signal while it is in raw mode.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
            KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
            KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
            KeyCode::Char('x') => Some(Key::Stop),
            KeyCode::Char('y') => Some(Key::Yes),
            KeyCode::Char('n') => Some(Key::No),
            _ => None,
        },
        _ => None,
    }
}
