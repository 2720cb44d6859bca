//! A message of a session that is being answered: its task, its events, and the response with its reply.

use std::pin::pin;
use std::sync::Arc;

use axum::response::IntoResponse as _;
use fumehood_core::call::CancellationToken;
use fumehood_core::text::sanitize::printable;
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio_util::sync::{CancellationToken as Cancellation, DropGuard};
use tracing::Instrument as _;

use crate::http_api::idempotency::{self, Answer, ClaimedKey};
use crate::http_api::negotiation::Form;
use crate::http_api::response::{self, Response};
use crate::http_api::sessions::store::Session;
use crate::http_api::sessions::{SessionAgent, SessionCall, SessionEvent, SessionEvents, SessionReply};
use crate::http_api::state::ApiState;
use crate::http_api::stream::{EventBody, EventQueue, event};

/// A message that is being answered, in a task of its own. Dropping it cancels the reply; the session goes on.
pub(crate) struct RunningMessage {
    events: Arc<EventQueue>,
    reply: tokio::task::JoinHandle<SessionReply>,
    claimed: Option<ClaimedKey>,
    _leaving: DropGuard,
}

impl RunningMessage {
    /// Begins a message, or goes on with the one before; `None` if one is being answered.
    pub(crate) fn begin(
        shared: &ApiState,
        session: &Arc<Session>,
        text: Option<String>,
        claimed: Option<ClaimedKey>,
    ) -> Option<Self> {
        let mut agent = Arc::clone(&session.agent).try_lock_owned().ok()?;
        let cancelled = session.begin(text.as_deref())?;
        let events = Arc::<EventQueue>::default();
        let left = Cancellation::new();
        let stopped = shared.stopped.clone();
        session.approvals.announce_in(Some(Arc::clone(&events)));
        let observer = Arc::new(StreamObserver(Arc::clone(&events)));
        let session = Arc::clone(session);
        let leaving = left.clone().drop_guard();
        let mut claimed = claimed;
        if let Some(claimed) = &mut claimed {
            claimed.started(Answer::json(StatusCode::OK, &cancelled_reply()));
        }
        let replying = async move {
            let mut replying = pin!(reply(&session, agent.as_mut(), text, observer, cancelled.clone()));
            let reply = tokio::select! {
                biased;
                reply = &mut replying => reply,
                () = ended(&left, &stopped) => { cancelled.cancel(); replying.await }
            };
            session.approvals.announce_in(None);
            session.end(&reply.text);
            reply
        };
        let reply = tokio::spawn(replying.in_current_span());
        Some(Self { events, reply, claimed, _leaving: leaving })
    }

    /// Answers a request with the reply, or with its events.
    pub(crate) async fn respond(self, form: Form, session: &str) -> Response {
        match form {
            Form::Json => Answer::json(StatusCode::OK, &self.finish().await).into_response(),
            Form::Events => {
                let first = event("started", &json!({ "session": session }));
                let queue = Arc::clone(&self.events);
                let ended = Box::pin(async move { event("result", &self.finish().await) });
                response::events(EventBody::new(first, queue, ended))
            }
        }
    }

    /// Waits for the reply, and keeps it for its key.
    async fn finish(self) -> SessionReply {
        let reply = self.reply.await.unwrap_or_else(|_| cancelled_reply());
        let reply = SessionReply {
            text: printable_lines(&reply.text),
            detail: reply.detail.as_deref().map(|detail| printable(detail).into_owned()),
            ..reply
        };
        idempotency::keep(self.claimed, &Answer::json(StatusCode::OK, &reply));
        reply
    }
}

/// Ends the run that is under way, and then answers a message, unless the run still waits for approvals.
async fn reply(
    session: &Session,
    agent: &mut dyn SessionAgent,
    message: Option<String>,
    events: Arc<dyn SessionEvents>,
    cancelled: CancellationToken,
) -> SessionReply {
    let resumed = agent.resume(Arc::clone(&events), cancelled.clone()).await;
    match (message, resumed) {
        (Some(_), Some(reply)) if !reply.approvals.is_empty() || cancelled.is_cancelled() => {
            session.take_back();
            let detail = "the message was not started, because the previous message has not ended";
            SessionReply { detail: Some(detail.to_owned()), ..reply }
        }
        (Some(message), _) => agent.reply(message, events, cancelled).await,
        (None, Some(reply)) => reply,
        (None, None) => SessionReply {
            status: "idle".to_owned(),
            detail: Some("no message is waiting or interrupted; send the next message".to_owned()),
            ..SessionReply::default()
        },
    }
}

/// Waits until the client has left, or the server stops.
async fn ended(left: &Cancellation, stopped: &Cancellation) {
    tokio::select! {
        () = left.cancelled() => {}
        () = stopped.cancelled() => {}
    }
}

/// Escapes hidden characters, and leaves line breaks and tabs as they are.
fn printable_lines(text: &str) -> String {
    let pieces: Vec<_> = text
        .split_inclusive(['\n', '\t'])
        .map(|piece| {
            let end = piece.len() - piece.ends_with(['\n', '\t']) as usize;
            let (line, rest) = piece.split_at(end);
            format!("{}{rest}", printable(line))
        })
        .collect();
    pieces.concat()
}

fn cancelled_reply() -> SessionReply {
    SessionReply { status: "cancelled".to_owned(), ..SessionReply::default() }
}

/// Maximum size of the arguments, or of the parts of a result, in one event, in bytes of JSON.
const MAX_EVENT_VALUE_BYTES: usize = 64 << 10;

/// An observer that puts events into a stream.
struct StreamObserver(Arc<EventQueue>);

impl SessionEvents for StreamObserver {
    fn event(&self, happened: SessionEvent) {
        self.0.push(match happened {
            SessionEvent::Text(text) => event("text", &json!({ "text": printable_lines(&text) })),
            SessionEvent::CallStarted { call, arguments } => {
                let mut data = call_members(&call);
                if let Some(arguments) = arguments {
                    insert_bounded(&mut data, "arguments", arguments);
                }
                event("call_started", &data)
            }
            SessionEvent::CallProgress { call, fraction, message, content } => {
                let mut data = call_members(&call);
                data.extend(fraction.map(|fraction| ("fraction".to_owned(), json!(fraction))));
                data.extend(message.map(|message| ("message".to_owned(), json!(printable(&message)))));
                if !content.is_empty() {
                    insert_bounded(&mut data, "content", Value::Array(content));
                }
                event("call_progress", &data)
            }
            SessionEvent::CallEnded { call, status } => {
                let mut data = call_members(&call);
                data.insert("status".to_owned(), json!(printable(&status)));
                event("call_ended", &data)
            }
        });
    }
}

/// Returns the members by which a client tells the calls of a reply apart.
fn call_members(call: &SessionCall) -> Map<String, Value> {
    let SessionCall { id, execution, tool } = call;
    Map::from_iter([to_member("call", id), to_member("execution", execution), to_member("tool", tool)])
}

fn to_member(name: &str, text: &str) -> (String, Value) {
    (name.to_owned(), json!(printable(text)))
}

/// Inserts a value, or its size as `NAME_bytes` if it is larger than an event may be.
fn insert_bounded(data: &mut Map<String, Value>, name: &str, value: Value) {
    let bytes = value.to_string().len();
    if bytes > MAX_EVENT_VALUE_BYTES {
        data.insert(format!("{name}_bytes"), json!(bytes));
    } else {
        data.insert(name.to_owned(), value);
    }
}
