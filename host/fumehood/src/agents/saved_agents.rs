//! Agents behind the sessions of the HTTP API that outlive the server: each session is in the event log.

use std::fmt;
use std::sync::Arc;

use fumehood_agent::agent::SystemClock;
use fumehood_agent::agent::{AnswerCallError, Clock as _};
use fumehood_agent::batch::BatchDriver;
use fumehood_agent::deferred::GivenAnswer;
use fumehood_agent::driver::Driver;
use fumehood_agent::native::NativeDriver;
use fumehood_agent::react::ReactDriver;
use fumehood_agent::session::{SavedSession, SavedSessionError};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CancellationToken;
use fumehood_core::tool::ToolProvider;
use fumehood_server::http_api::{
    ApprovalAnswer, ApprovalQuestion, NewSession, SavedSessionInfo, SessionAgent, SessionAgents, SessionError,
    SessionEvents, SessionReply, WaitingCall,
};
use fumehood_storage::event_log::EventLog;

use super::served_agents::{AgentParts, MakeAgent, ObservedAgent};

/// Returns the name of the tenant that a saved session belongs to; `None` if it was not begun over HTTP.
type TenantOf = dyn Fn(&SavedSession) -> Option<String> + Send + Sync;

/// A source of agents for the sessions of the HTTP API, which are saved in an event log.
///
/// No agent is kept between two messages: each is made from what is saved, so that a session goes on after the server was
/// stopped, with its budgets, and after an answer by another process. Calls that need an answer of a person wait in the
/// session, and end the request.
pub struct SavedAgents(Arc<Source>);

struct Source {
    log: Arc<EventLog>,
    tenant_of: Box<TenantOf>,
    make: Box<MakeAgent>,
}

impl fmt::Debug for SavedAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedAgents").finish_non_exhaustive()
    }
}

impl SavedAgents {
    /// Creates a source of agents, which `make` saves in this log, together with something that `tenant_of` finds the
    /// tenant by. `make` is called once for each message.
    pub fn new(
        log: Arc<EventLog>,
        tenant_of: impl Fn(&SavedSession) -> Option<String> + Send + Sync + 'static,
        make: impl Fn(AgentParts) -> Result<fumehood_agent::agent::Agent, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Source { log, tenant_of: Box::new(tenant_of), make: Box::new(make) }))
    }
}

impl SessionAgents for SavedAgents {
    fn create(&self, session: NewSession) -> Result<Box<dyn SessionAgent>, SessionError> {
        let NewSession { id, tenant, actor, tools, .. } = session;
        Ok(Box::new(SavedAgent { source: Arc::clone(&self.0), id, tenant, actor, tools, may_wait: true }))
    }

    fn saved(&self, tenant: Arc<str>, max: usize) -> BoxFuture<'_, Result<Vec<SavedSessionInfo>, SessionError>> {
        let source = Arc::clone(&self.0);
        Box::pin(async move { blocking(move || source.sessions_of(&tenant, max)).await })
    }
}

impl Source {
    /// Returns the sessions of a tenant, the one that changed last first. Those that cannot be read are left out.
    fn sessions_of(&self, tenant: &str, max: usize) -> Result<Vec<SavedSessionInfo>, SessionError> {
        let mut found = Vec::new();
        for info in self.log.reader().saved_sessions().map_err(unreadable)? {
            let Ok(Some(saved)) = self.read(&info.session) else { continue };
            if (self.tenant_of)(&saved).as_deref() != Some(tenant) {
                continue;
            }
            let conversation = conversation(saved);
            found.push(SavedSessionInfo { id: info.session, created_at: info.began_at, conversation });
            if found.len() >= max {
                break;
            }
        }
        Ok(found)
    }

    fn read(&self, session: &str) -> Result<Option<SavedSession>, SessionError> {
        let entries = self.log.reader().session_entries(session).map_err(unreadable)?;
        match SavedSession::from_entries(&entries) {
            Ok(saved) => Ok(Some(saved)),
            Err(SavedSessionError::Missing) => Ok(None),
            Err(error) => Err(SessionError(format!("cannot read session {session}: {error}"))),
        }
    }
}

/// Returns the texts of a session: its messages, and the answers if its driver is one of ours.
fn conversation(saved: SavedSession) -> Vec<(String, Option<String>)> {
    let messages: Vec<String> = saved.messages().map(str::to_owned).collect();
    let restored = driver_named(saved.driver()).and_then(|driver| saved.restore(driver, None).ok());
    let runs = restored.map(|restored| restored.session.transcript().runs.clone()).unwrap_or_default();
    let mut answers = runs.iter().map(|run| run.ending.as_ref().and_then(|ending| ending.text()).map(str::to_owned));
    messages.into_iter().map(|message| (message, answers.next().flatten().filter(|text| !text.is_empty()))).collect()
}

fn driver_named(name: &str) -> Option<Box<dyn Driver>> {
    match name {
        "native" => Some(Box::new(NativeDriver::default())),
        "react" => Some(Box::new(ReactDriver::default())),
        "batch" => Some(Box::new(BatchDriver::new())),
        _ => None,
    }
}

/// A session in the log.
struct SavedAgent {
    source: Arc<Source>,
    id: String,
    tenant: Arc<str>,
    actor: Option<Arc<str>>,
    tools: Arc<dyn ToolProvider>,
    /// False if no call can wait, so that nothing has to be read to say so.
    may_wait: bool,
}

impl SavedAgent {
    /// Makes the agent of the session as it is saved now.
    async fn open(&self) -> Result<ObservedAgent, SessionError> {
        let source = Arc::clone(&self.source);
        let id = self.id.clone();
        let tenant = Arc::clone(&self.tenant);
        let actor = self.actor.clone();
        let tools = Arc::clone(&self.tools);
        blocking(move || {
            let saved = source.read(&id)?;
            let agent = (source.make)(AgentParts { id, tenant, actor, tools, approver: None, saved });
            agent.map(ObservedAgent::new).map_err(SessionError)
        })
        .await
    }

    async fn run(
        &mut self,
        message: Option<String>,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> Option<SessionReply> {
        let reply = match self.open().await {
            Ok(mut agent) => {
                let reply = agent.run(message, events, cancelled).await;
                // What the reply says is on disk before anybody reads it.
                let closed = agent.agent.close().await;
                closed.map_or_else(|error| Some(error_reply(error.to_string())), |()| reply)
            }
            Err(SessionError(why)) => Some(error_reply(why)),
        };
        self.may_wait = reply.as_ref().is_none_or(|reply| !reply.approvals.is_empty());
        reply
    }
}

impl SessionAgent for SavedAgent {
    fn reply<'a>(
        &'a mut self,
        message: String,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, SessionReply> {
        Box::pin(async move { self.run(Some(message), events, cancelled).await.unwrap_or_default() })
    }

    fn resume<'a>(
        &'a mut self,
        events: Arc<dyn SessionEvents>,
        cancelled: CancellationToken,
    ) -> BoxFuture<'a, Option<SessionReply>> {
        Box::pin(self.run(None, events, cancelled))
    }

    fn waiting_calls(&mut self) -> BoxFuture<'_, Result<Vec<WaitingCall>, SessionError>> {
        Box::pin(async move {
            if !self.may_wait {
                return Ok(Vec::new());
            }
            let agent = self.open().await?;
            let calls = agent.waiting_calls().map(|call| WaitingCall {
                id: call.id.clone(),
                question: ApprovalQuestion {
                    tool: Some(call.deferred.tool.clone()),
                    arguments: Some(call.deferred.arguments.clone()),
                    question: call.deferred.question.clone(),
                    from: call.deferred.from.clone(),
                },
                asked_at: call.asked_at,
            });
            let calls: Vec<WaitingCall> = calls.collect();
            self.may_wait = !agent.agent.session().waiting_calls().is_empty();
            Ok(calls)
        })
    }

    fn answer_call(&mut self, id: String, answer: ApprovalAnswer) -> BoxFuture<'_, Result<bool, SessionError>> {
        Box::pin(async move {
            let (yes, reason) = match answer {
                ApprovalAnswer::Allow => (true, String::new()),
                ApprovalAnswer::Deny { reason } => (false, reason),
            };
            let answer = GivenAnswer { yes, reason, by: Some(self.tenant.to_string()) };
            let source = Arc::clone(&self.source);
            let session = self.id.clone();
            let saved = blocking(move || source.read(&session)).await?;
            let restored = saved.and_then(|saved| Some((driver_named(saved.driver())?, saved)));
            let Some((driver, saved)) = restored else { return Ok(false) };
            let restored = saved.restore(driver, None).map_err(|error| SessionError(error.to_string()))?;
            let log = self.source.log.as_ref();
            match fumehood_agent::agent::answer_saved(log, restored, &id, answer, SystemClock.now()).await {
                Ok(()) => Ok(true),
                Err(AnswerCallError::Answer(_)) => Ok(false),
                Err(error) => Err(SessionError(error.to_string())),
            }
        })
    }

    fn remove(&mut self) -> BoxFuture<'_, Result<(), SessionError>> {
        Box::pin(async move {
            let removed = self.source.log.remove_session(&self.id).await;
            removed.map(drop).map_err(|error| SessionError(error.to_string()))
        })
    }
}

fn error_reply(why: String) -> SessionReply {
    SessionReply { status: "failed".to_owned(), detail: Some(why), ..SessionReply::default() }
}

fn unreadable(error: impl fmt::Display) -> SessionError {
    SessionError(format!("cannot read the event log: {error}"))
}

/// Reads the log away from the thread that serves connections.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(SessionError(error.to_string())))
}
