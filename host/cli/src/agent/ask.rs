//! Asking the person at the terminal.

use std::io::IsTerminal as _;
use std::sync::Arc;

use fumehood::agent::human::{Answer, Human, Question};
use fumehood::boxed::BoxFuture;

use super::chips::Chips;
use super::keyboard::Keyboard;
use crate::render::paragraph::one_line;
use crate::render::{self, STRONG, record, styled};

/// Characters of arguments that a question repeats.
const MOST_ARGUMENTS: usize = 300;

/// The person at the terminal.
pub(crate) struct AtTerminal {
    keyboard: Arc<Keyboard>,
    chips: Chips,
    /// Questions come one after the other, whatever runs at the same time.
    turn: tokio::sync::Mutex<()>,
}

impl AtTerminal {
    /// Somebody to ask, if there is a terminal to ask at.
    pub(crate) fn find(keyboard: Arc<Keyboard>, chips: Chips) -> Option<Self> {
        let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        is_there.then(|| Self { keyboard, chips, turn: tokio::sync::Mutex::new(()) })
    }
}

impl Human for AtTerminal {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let quiet = self.chips.quiet();
            for line in asked(question) {
                render::note(&line);
            }
            render::prompt(&styled(STRONG, "[y/N] "));
            let typed = self.keyboard.line().await;
            drop(quiet);
            answer(typed.as_deref())
        })
    }
}

fn asked(question: Question<'_>) -> Vec<String> {
    let mut lines = vec![format!("{} {}", styled(STRONG, "?"), one_line(question.text()))];
    if let Question::Call(call) = question {
        let arguments = record::short(&call.proposed.arguments.to_string(), MOST_ARGUMENTS);
        lines.push(format!("  {} {arguments}", one_line(&call.proposed.tool)));
    }
    lines
}

/// Only a clear yes is one.
fn answer(typed: Option<&str>) -> Answer {
    match typed.map(|text| text.trim().to_lowercase()).as_deref() {
        Some("y" | "yes") => Answer::Allow,
        _ => Answer::Deny { reason: "the person at the terminal said no".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        for yes in ["y", " Yes ", "YES"] {
            assert_eq!(answer(Some(yes)), Answer::Allow, "{yes}");
        }
        for no in [Some(""), Some("n"), Some("yes please"), Some("ja"), None] {
            assert!(matches!(answer(no), Answer::Deny { .. }), "{no:?}");
        }
    }
}
