//! Agents behind the sessions of the HTTP API.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_agent::agent::{Agent, AgentEvent, is_streamed};
use fumehood_agent::session::{PendingCall, SavedSession};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CancellationToken;
use fumehood_core::chat::Delta;
use fumehood_core::policy::call::{Answer, Approver, Question};
use fumehood_core::record::{Record, RecordKind};
use fumehood_core::tool::ToolProvider;
use fumehood_server::http_api::{
    ApprovalAnswer, ApprovalQuestion, NewSession, SessionAgent, SessionAgents, SessionApprovals, SessionCall,
    SessionError, SessionEvent, SessionEvents, SessionReply,
};
use serde_json::Value;

/// The parts of an agent that come from its session.
pub struct AgentParts {
    /// The id of the session.
    pub id: String,
    /// The name of its tenant.
    pub tenant: Arc<str>,
    /// The actor of its calls.
    pub actor: Option<Arc<str>>,
    /// The tools that exist for its tenant, within the limits of that.
    pub tools: Arc<dyn ToolProvider>,
    /// The approver, whose questions are the approvals of the HTTP API; `None` if calls wait in a saved session.
    pub approver: Option<Arc<dyn Approver>>,
    /// The session as it was saved; `None` for one that begins.
    pub saved: Option<SavedSession>,
}

impl fmt::Debug for AgentParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentParts").field("id", &self.id).field("actor", &self.actor).finish_non_exhaustive()
    }
}

pub(super) type MakeAgent = dyn Fn(AgentParts) -> Result<Agent, String> + Send + Sync;

/// A source of agents for the sessions of the HTTP API, each made by a function of the program. Sessions end with the
/// process; for those that do not, see `SavedAgents`.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::http_api::ApiOptions;
/// use fumehood::model::{ScriptedModel, ScriptedReply};
/// use fumehood::{Host, ServedAgents};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::builder().build()?;
/// let agents = ServedAgents::new(move |parts| {
///     let model = ScriptedModel::new(vec![ScriptedReply::text("Hello.")]);
///     let mut agent = host.agent(Arc::new(model)).tools(parts.tools).allow_everything();
///     if let Some(actor) = parts.actor {
///         agent = agent.actor(actor);
///     }
///     if let Some(approver) = parts.approver {
///         agent = agent.approver(approver);
///     }
///     agent.build().map_err(|error| error.to_string())
/// });
/// let options = ApiOptions { sessions: Some(Arc::new(agents)), ..ApiOptions::default() };
/// assert!(options.sessions.is_some());
/// # Ok(())
/// # }
/// ```
pub struct ServedAgents(Box<MakeAgent>);

impl fmt::Debug for ServedAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedAgents").finish_non_exhaustive()
    }
}

impl ServedAgents {
    /// Creates a source. `make` is called once for each session.
    pub fn new(make: impl Fn(AgentParts) -> Result<Agent, String> + Send + Sync + 'static) -> Self {
        Self(Box::new(make))
    }
}

impl SessionAgents for ServedAgents {
    fn create(&self, session: NewSession) -> Result<Box<dyn SessionAgent>, SessionError> {
        let NewSession { id, tenant, actor, tools, approvals, .. } = session;
        let approver: Option<Arc<dyn Approver>> = Some(Arc::new(ApiApprover(approvals)));
        let agent = (self.0)(AgentParts { id, tenant, actor, tools, approver, saved: None }).map_err(SessionError)?;
        Ok(Box::new(ServedAgent(ObservedAgent::new(agent))))
    }
}

/// An approver whose questions are approvals of the HTTP API.
struct ApiApprover(SessionApprovals);

impl Approver for ApiApprover {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer> {
        let question = match question {
            Question::Call(call) => ApprovalQuestion {
                tool: Some(call.proposed.tool.clone()),
                arguments: Some(call.proposed.arguments.clone()),
                question: call.question.clone(),
                from: call.from.clone(),
            },
            Question::Budget(text) => {
                ApprovalQuestion { question: text.to_owned(), from: "budget".to_owned(), ..ApprovalQuestion::default() }
            }
        };
        Box::pin(async move {
            match self.0.ask(question).await {
                ApprovalAnswer::Allow => Answer::Allow,
                ApprovalAnswer::Deny { reason } => Answer::Deny { reason },
            }
        })
    }
}

/// The observer of the reply that is running.
#[derive(Clone, Default)]
struct CurrentEvents(Arc<Mutex<Option<Arc<dyn SessionEvents>>>>);

impl CurrentEvents {
    fn set(&self, events: Option<Arc<dyn SessionEvents>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }

    fn notify(&self, event: &AgentEvent) {
        let Some(events) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        let event = match event {
            AgentEvent::Delta { delta: Delta::Text(text), .. } => Some(SessionEvent::Text(text.clone())),
            AgentEvent::Record(record) => of_record(record),
            _ => None,
        };
        if let Some(event) = event {
            events.event(event);
        }
    }
}

/// Returns the event that a record of a call stands for. Of refusals, clients see those of [`is_streamed`].
fn of_record(record: &Record) -> Option<SessionEvent> {
    let text = |name: &str| record.body.get(name).and_then(Value::as_str).map(str::to_owned);
    let call = SessionCall {
        id: text("model_call").unwrap_or_default(),
        execution: record.call.clone().unwrap_or_default(),
        tool: record.tool.clone()?,
    };
    match record.kind {
        RecordKind::ToolStarted => {
            Some(SessionEvent::CallStarted { call, arguments: record.body.get("arguments").cloned() })
        }
        RecordKind::ToolPartial => Some(SessionEvent::CallProgress {
            call,
            fraction: record.body.get("fraction").and_then(Value::as_f64),
            message: text("message"),
            content: record.body.get("partial").and_then(Value::as_array).cloned().unwrap_or_default(),
        }),
        _ if is_streamed(record) => {
            Some(SessionEvent::CallEnded { call, status: record.status.clone().unwrap_or_default() })
        }
        _ => None,
    }
}

/// The agent of one session, in memory.
struct ServedAgent(ObservedAgent);

impl SessionAgent for ServedAgent {
    fn reply<'a>(
        &'a mut self,
        message: String,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, SessionReply> {
        Box::pin(async move { self.0.run(Some(message), events, cancelled).await.unwrap_or_default() })
    }
}

/// An agent whose events go to the observer of the reply that is running.
pub(super) struct ObservedAgent {
    pub(super) agent: Agent,
    events: CurrentEvents,
}

impl ObservedAgent {
    pub(super) fn new(agent: Agent) -> Self {
        let events = CurrentEvents::default();
        let current = events.clone();
        agent.tap().wiretap(move |event| current.notify(event));
        Self { agent, events }
    }

    /// Answers a message, or ends the run that is under way without one; `None` if there is no such run.
    pub(super) async fn run(
        &mut self,
        message: Option<String>,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> Option<SessionReply> {
        self.events.set(Some(events));
        let handle = self.agent.cancel_handle();
        let cancel = async {
            cancelled.cancelled().await;
            handle.cancel();
            // The run ends by itself now.
            std::future::pending().await
        };
        let run = match message {
            Some(message) => self.agent.iterate(message),
            None => self.agent.resume()?,
        };
        let ended = tokio::select! {
            ended = run.finish() => ended,
            ended = cancel => ended,
        };
        self.events.set(None);
        Some(match ended {
            Ok(outcome) => SessionReply {
                status: outcome.ending.as_str().to_owned(),
                text: outcome.text().to_owned(),
                approvals: self.waiting_calls().map(|call| call.id.clone()).collect(),
                detail: serde_json::to_value(&outcome.ending).ok().and_then(|ending| reason(&ending)),
                steps: u64::try_from(outcome.run.steps.len()).unwrap_or(u64::MAX),
            },
            Err(error) => {
                SessionReply { status: "failed".to_owned(), detail: Some(error.to_string()), ..SessionReply::default() }
            }
        })
    }

    /// Returns the calls that wait for an answer.
    pub(super) fn waiting_calls(&self) -> impl Iterator<Item = &PendingCall> {
        self.agent.session().waiting_calls().iter().filter(|call| call.answer.is_none())
    }
}

/// Returns the reason of an ending without an answer, as its JSON has it.
fn reason(ending: &Value) -> Option<String> {
    let found = ["message", "reason", "budget", "error", "tool"].iter().find_map(|field| ending.get(field))?;
    Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
}
