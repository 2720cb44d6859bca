//! Approval by another program, over the lines of `--json`: questions go to standard output, answers come from standard
//! input.

use std::collections::HashMap;
use std::io::{BufRead as _, Read as _};
use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::approval_queue::{ApprovalQuestion, ApprovalQueue, ApprovalRequest, ApprovalRequests};
use fumehood::policy::{Answer, Approver};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::render;

/// Maximum length of a line of answers, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// A line that this program prints.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    /// A question, which an answer names by its id.
    ApprovalRequested {
        id: &'a str,
        about: &'static str,
        question: &'a str,
        #[serde(flatten)]
        call: Option<CallFields<'a>>,
    },
    /// A line of standard input that is no answer.
    InvalidAnswer { message: &'a str },
}

/// The call that a question is about. Complete, because an approval allows all of it.
#[derive(Serialize)]
struct CallFields<'a> {
    session: &'a str,
    tool: &'a str,
    arguments: &'a Value,
    from: &'a str,
    actor: Option<&'a str>,
}

/// An answer on a line of standard input.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerLine {
    approve: String,
    yes: bool,
    #[serde(default)]
    reason: String,
}

impl From<AnswerLine> for Answer {
    fn from(typed: AnswerLine) -> Self {
        if typed.yes { Self::Allow } else { Self::Deny { reason: typed.reason } }
    }
}

/// Starts to take questions. `unattended` is the answer to all of them once standard input has ended.
pub(crate) fn start(unattended: Answer) -> Arc<dyn Approver> {
    let (queue, requests) = ApprovalQueue::new(unattended.clone());
    let (sender, lines) = mpsc::unbounded_channel();
    let reader = std::thread::Builder::new().name("answers".to_owned()).spawn(move || read_lines(&sender));
    // Without a thread the sender is gone, which is the same as the end of the input.
    drop(reader);
    tokio::spawn(serve(requests, lines, unattended));
    queue
}

/// Reads lines until the input ends. A line that is too long is cut, and then is no answer.
fn read_lines(sender: &mpsc::UnboundedSender<String>) {
    loop {
        let mut line = Vec::new();
        let mut stdin = std::io::stdin().lock();
        match stdin.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        let is_cut = !line.ends_with(b"\n") && line.len() as u64 >= MAX_LINE_BYTES;
        if is_cut && !skip_line(&mut stdin) {
            return;
        }
        drop(stdin);
        if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

/// Reads to the end of a line and forgets it. Returns whether there was one.
fn skip_line(stdin: &mut impl std::io::BufRead) -> bool {
    stdin.skip_until(b'\n').is_ok()
}

/// Prints questions and passes answers on, until one of both ends.
async fn serve(mut requests: ApprovalRequests, mut lines: mpsc::UnboundedReceiver<String>, unattended: Answer) {
    let mut open: HashMap<String, ApprovalRequest> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            line = lines.recv() => {
                let Some(line) = line else { break };
                if let Err(message) = take_answer(&line, &mut open)
                    && render::json_line(&Line::InvalidAnswer { message: &message }).is_err()
                {
                    break;
                }
            }
            request = requests.next() => {
                let Some(request) = request else { return };
                open.retain(|_, request| !request.is_withdrawn());
                if show(&request).is_err() {
                    break;
                }
                open.insert(request.id().to_owned(), request);
            }
        }
    }
    // Before those that are open, so that no question comes in between.
    drop(requests);
    for request in open.into_values() {
        // Nobody waits for one whose run was stopped.
        let _is_awaited = request.answer(unattended.clone());
    }
}

/// Answers the question that a line names.
fn take_answer(line: &str, open: &mut HashMap<String, ApprovalRequest>) -> Result<(), String> {
    if line.trim().is_empty() {
        return Ok(());
    }
    let typed = parse(line)?;
    let Some(request) = open.remove(&typed.approve) else {
        let mut ids: Vec<&str> = open.keys().map(String::as_str).collect();
        ids.sort_unstable();
        let open =
            if ids.is_empty() { "there is no open question".to_owned() } else { format!("open: {}", ids.join(", ")) };
        return Err(format!("the question `{}` is not open; {open}", typed.approve));
    };
    if request.answer(typed.into()) {
        Ok(())
    } else {
        Err("the question was withdrawn: its run was stopped".to_owned())
    }
}

fn parse(line: &str) -> Result<AnswerLine, String> {
    serde_json::from_str(line).map_err(|error| {
        format!(r#"expected a line like {{"approve": "q1", "yes": true}}, with `reason` if you like: {error}"#)
    })
}

fn show(request: &ApprovalRequest) -> Result<()> {
    let (about, call) = match request.question() {
        ApprovalQuestion::Call(question) => {
            let proposed = &question.proposed;
            let session = proposed.session.as_str();
            let tool = proposed.tool.as_str();
            let arguments = &proposed.arguments;
            let from = question.from.as_str();
            ("call", Some(CallFields { session, tool, arguments, from, actor: proposed.actor.as_deref() }))
        }
        _ => ("turns", None),
    };
    render::json_line(&Line::ApprovalRequested { id: request.id(), about, question: request.text(), call })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_are_taken() {
        let typed = parse(r#"{"approve": "q1", "yes": false, "reason": "no"}"#).unwrap();
        assert_eq!(Answer::from(typed), Answer::Deny { reason: "no".to_owned() });
        for line in [
            "yes",
            "{}",
            r#"{"approve": "q1"}"#,
            r#"{"approve": "q1", "yes": "true"}"#,
            r#"{"approve":"q1","yes":true,"x":1}"#,
        ] {
            assert!(parse(line).unwrap_err().contains(r#"{"approve": "q1", "yes": true}"#), "{line}");
        }
    }
}
