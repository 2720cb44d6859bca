//! The session of one client, and its calls.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use fumehood_core::call::event::Level;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Call, CallContext, CancellationToken as CallToken, Observer};
use fumehood_core::telemetry;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;
use fumehood_server::{CallOrJob, JobCall, Jobs};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, JsonObject, ReadResourceResult};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument as _, Span};

use super::call_request::{
    Answer, Answers, LibraryCall, NewCall, answers_questions, call_arguments, client_name, has_tasks, is_stateless,
    request_span,
};
use super::client_requests::{ClientPath, SessionClient, StreamPath, next_session};
use super::component_library::ComponentResource;
use super::held_calls::HeldCalls;
use super::library_result;
use super::mcp_server::Server;
use super::notifications::{Notifier, Outbox};
use super::resource_subscriptions::ResourceSubscriptions;
use super::resources;
use super::running_call::{RepeatedRequest, RunningCall, questions};
use super::served_library::ServedLibrary;
use super::tasks;
use super::tools::call_tool_result;
use super::tools::catalogue::AnswerForm;
use crate::apps;
use crate::client::{LibraryMethod, RemoteLibrary, passed_client_metadata};
use crate::log_level;

pub(super) type CallToolOutcome = Result<CallToolResponse, ErrorData>;

/// The principal on whose behalf a client calls.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    /// The actor of its calls.
    pub(crate) actor: Option<Arc<str>>,
    /// The owner of its jobs.
    pub(crate) owner: Arc<str>,
    /// True if the flags of its trace contexts decide whether spans of its calls are collected.
    pub(crate) decides_sampling: bool,
}

/// The session of one client.
pub(crate) struct Session {
    pub(super) server: Server,
    /// The minimum level of log lines that this client requested, as an index into the levels.
    pub(super) level: AtomicU8,
    pub(super) principal: Principal,
    /// Its calls so far.
    history: Arc<CallHistory>,
    /// The number of the session, for servers that ask its client for something.
    number: u64,
    /// The calls that wait for answers of its client.
    held: Arc<HeldCalls>,
    pub(super) subscriptions: Arc<ResourceSubscriptions>,
    /// True once its client has said that it is ready.
    pub(super) is_initialized: AtomicBool,
    /// Cancelled once the client is gone, before rmcp has cleaned up after it.
    pub(super) closed: CancellationToken,
    /// Cancels what the session started when rmcp drops it.
    _ended: DropGuard,
}

impl Session {
    pub(crate) fn new(server: Server, principal: Principal, closed: CancellationToken, held: Arc<HeldCalls>) -> Self {
        let level = AtomicU8::new(Level::Info as u8);
        let number = next_session();
        let subscriptions = Arc::default();
        let history = Arc::default();
        let is_initialized = AtomicBool::new(false);
        let ended = closed.clone().drop_guard();
        Self { server, level, principal, history, number, held, subscriptions, is_initialized, closed, _ended: ended }
    }

    /// Returns the minimum level of log lines for this request. Revisions without a handshake carry it in each request.
    fn min_log_level(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        if is_stateless(context) {
            context.meta.log_level().map(log_level::from_logging_level)
        } else {
            log_level::from_rank(self.level.load(Ordering::Relaxed))
        }
    }

    /// Returns whether the client of a revision with a handshake gets log lines of this level.
    pub(super) fn wants(&self, level: Level) -> bool {
        log_level::from_rank(self.level.load(Ordering::Relaxed)).is_some_and(|min| level >= min)
    }

    /// Returns the resources and prompts that the client of a request sees.
    pub(super) fn library(&self, context: &RequestContext<RoleServer>) -> ServedLibrary<'_> {
        let capabilities = context.client_capabilities();
        ServedLibrary::new(&self.server, capabilities.is_some_and(|capabilities| apps::are_supported(&capabilities)))
    }

    /// Returns the library if it has resources. Capabilities that are not advertised return an error, not an empty list.
    pub(super) fn library_with_resources(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServedLibrary<'_>, ErrorData> {
        let library = self.library(context);
        if library.has_resources() { Ok(library) } else { Err(method_not_found(method)) }
    }

    /// Like [`Self::library_with_resources`], for prompts.
    pub(super) fn library_with_prompts(
        &self,
        method: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ServedLibrary<'_>, ErrorData> {
        let library = self.library(context);
        if library.has_prompts() { Ok(library) } else { Err(method_not_found(method)) }
    }

    /// Returns the server of a resource that sessions can subscribe to.
    pub(super) fn subscribable(
        &self,
        method: &str,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<&RemoteLibrary, ErrorData> {
        let library = self.library(context);
        if !library.takes_subscriptions() {
            return Err(method_not_found(method));
        }
        let server = library.server_of_resource(uri).filter(|server| server.takes_subscriptions());
        server.ok_or_else(|| resources::unknown_resource(uri))
    }

    /// Sends a request to the library of a server, as a call, and returns the result.
    pub(super) async fn ask_library<T: DeserializeOwned + Send + 'static>(
        &self,
        library: &RemoteLibrary,
        request: LibraryCall,
        context: RequestContext<RoleServer>,
    ) -> Result<Answer<T>, ErrorData> {
        let LibraryCall { method, arguments, name, answers } = request;
        let repeated = name.map(|name| RepeatedRequest { method: method.name(), name, arguments: arguments.clone() });
        let call = match (answers, &repeated) {
            (Some(answers), Some(request)) => self.held.resume(&answers.state, request, answers.responses)?,
            _ => self.start_request(&method.full_name(library.name()), arguments, repeated, &context),
        };
        match self.follow_request(call, method, &context).await? {
            Answer::InputRequired(needed) => Ok(Answer::InputRequired(needed)),
            Answer::Result(result) => self.server.work(result, library_result::read_result).await?.map(Answer::Result),
        }
    }

    /// Reads a resource of a component, as a call, and returns its contents.
    pub(super) async fn read_component_resource(
        &self,
        resource: &ComponentResource,
        uri: &str,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResult, ErrorData> {
        let call = self.start_request(resource.reader(), json!({ "uri": uri }), None, &context);
        let Answer::Result(result) = self.follow_request(call, LibraryMethod::Read, &context).await? else {
            return Err(ErrorData::internal_error("the component asked its client for input", None));
        };
        let resource = resource.clone();
        self.server.work(result, move |result| library_result::read_contents(result, &resource)).await?
    }

    /// Prepares the call that stands for a request.
    fn start_request(
        &self,
        tool: &str,
        arguments: Value,
        repeated: Option<RepeatedRequest>,
        context: &RequestContext<RoleServer>,
    ) -> RunningCall {
        let span = request_span(tool, context, self.principal.decides_sampling);
        let form = AnswerForm::default();
        let arguments = arguments.into();
        let new = NewCall { tool, arguments, form, is_library_request: true, repeated, jobs: None };
        self.start(new, context, span)
    }

    /// Like [`Self::follow`], for a call that stands for a request.
    async fn follow_request(
        &self,
        call: RunningCall,
        method: LibraryMethod,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer<CallResult>, ErrorData> {
        match self.follow(call, method.name(), context).await? {
            Answer::InputRequired(needed) => Ok(Answer::InputRequired(needed)),
            Answer::Result(CallOrJob::Ended(result)) => Ok(Answer::Result(*result)),
            Answer::Result(CallOrJob::Job(_)) => Err(ErrorData::internal_error("the request became a job", None)),
        }
    }

    /// Returns whether this server has a method of this name that takes parameters.
    pub(super) fn has_method(&self, method: &str, is_stateless: bool) -> bool {
        let library = ServedLibrary::new(&self.server, false);
        match method {
            "resources/list" | "resources/templates/list" | "resources/read" => library.has_resources(),
            "resources/subscribe" | "resources/unsubscribe" => !is_stateless && library.takes_subscriptions(),
            "prompts/list" | "prompts/get" => library.has_prompts(),
            "completion/complete" => library.has_completions(),
            _ if tasks::METHODS.contains(&method) => self.server.options().jobs.is_some(),
            _ => METHODS.contains(&method) && !(is_stateless && HANDSHAKE_METHODS.contains(&method)),
        }
    }

    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> CallToolOutcome {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let name = name.into_owned();
        let answers = Answers::of(request_state, input_responses, &context);
        let call = match answers {
            Some(answers) => {
                let request = repeated_call(name.clone(), arguments);
                self.held.resume(&answers.state, &request, answers.responses)?
            }
            None => self.start_tool(&name, arguments, &context)?,
        };
        let form = call.form;
        match self.follow(call, &name, &context).await? {
            Answer::InputRequired(needed) => Ok(needed.into()),
            Answer::Result(CallOrJob::Job(job)) => Ok(tasks::created(&job).into()),
            Answer::Result(CallOrJob::Ended(result)) => {
                let write = move |result| call_tool_result::into_call_tool_result(result, form);
                Ok(self.server.work(*result, write).await?.into())
            }
        }
    }

    fn start_tool(
        &self,
        name: &str,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> Result<RunningCall, ErrorData> {
        let catalogue = self.server.catalogue();
        let Some(entry) = catalogue.find(name) else {
            // A provider remembers tools that it had, and says so.
            let gone = self.server.tools().find(name).and_then(|tool| tool.refusal().cloned());
            let why = gone.map_or_else(|| catalogue.suggestions(), |refusal| refusal.message.to_string());
            let name: String = printable(name).chars().take(MAX_FULL_NAME_BYTES).collect();
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name} ({why})"), None));
        };
        let span = request_span(&entry.full_name, context, self.principal.decides_sampling);
        let may_be_asked = is_stateless(context) && answers_questions(context);
        let repeated = may_be_asked.then(|| repeated_call(name.to_owned(), arguments.clone()));
        let new = NewCall {
            tool: &entry.full_name,
            arguments: call_arguments(&context.extensions, arguments),
            form: entry.form,
            is_library_request: false,
            repeated,
            jobs: self.server.options().jobs.as_ref().filter(|_| has_tasks(context)),
        };
        Ok(self.start(new, context, span))
    }

    /// Prepares a call, which runs once it is followed.
    fn start(&self, new: NewCall<'_>, context: &RequestContext<RoleServer>, span: Span) -> RunningCall {
        let NewCall { tool, arguments, form, is_library_request, repeated, jobs } = new;
        let cancelled = CallToken::new();
        let wants_progress = context.meta.get_progress_token().is_some();
        let outbox = Outbox::for_client(wants_progress, self.min_log_level(context));
        let is_stateless = is_stateless(context);
        let (path, repeated) = match repeated {
            Some(request) if is_stateless => {
                let (sender, questions) = questions(self.held.places());
                (ClientPath::Result(sender), Some((request, questions)))
            }
            _ if is_stateless => (ClientPath::Missing, None),
            _ => (ClientPath::Stream(StreamPath::new(context, self.closed.clone())), None),
        };
        let call = Call {
            tool: tool.to_owned(),
            arguments,
            context: CallContext {
                actor: self.principal.actor.clone(),
                observer: outbox.clone().map(|outbox| outbox as Arc<dyn Observer>),
                cancelled: Some(cancelled.clone()),
                client: context.client_info().map(|client| client_name(&client)),
                client_meta: passed_client_metadata(&context.meta.0.0).map(Arc::new),
                // Requests without a handshake belong to no session.
                history: (!is_stateless).then(|| Arc::clone(&self.history)),
                client_requests: Some(Arc::new(SessionClient::new(self.number, context, path))),
                repairs: self.server.options().repairs.clone(),
                is_library_request,
                ..CallContext::default()
            },
        };
        // With the memory of its message, which stays counted until the call has ended, if that is after the request.
        let may_outlive = jobs.is_some() || repeated.is_some();
        let extensions = may_outlive.then(|| context.extensions.clone());
        let tools = self.server.shared_tools();
        let jobs = jobs.map(|jobs| (jobs.clone(), Arc::clone(&self.principal.owner)));
        let running = async move {
            match jobs {
                Some((jobs, owner)) => jobs.call(JobCall::new(owner, tools, call, extensions)).await,
                None => {
                    let result = tools.dispatch(call).await;
                    drop(extensions);
                    CallOrJob::Ended(Box::new(result))
                }
            }
        };
        let running = Box::pin(running.instrument(span.clone()));
        RunningCall { running, cancelled, outbox, span, form, repeated, held: None }
    }

    /// Runs a call until it ends, becomes a job or asks its client for input. `name` is that of the tool for the client.
    async fn follow(
        &self,
        mut call: RunningCall,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answer<CallOrJob>, ErrorData> {
        let called = match call.outbox.clone() {
            None => self.advance(&mut call, context).await,
            Some(outbox) => {
                outbox.reopen();
                let notifier = Notifier { peer: &context.peer, token: context.meta.get_progress_token(), tool: name };
                let advancing = async {
                    let called = self.advance(&mut call, context).await;
                    outbox.close();
                    called
                };
                tokio::join!(advancing, notifier.send_all(&outbox)).0
            }
        };
        let Some(called) = called else { return self.held.hold(call).map(Answer::InputRequired) };
        if let CallOrJob::Ended(result) = &called
            && let Some(error) = result.error()
        {
            telemetry::record_error(&call.span, error.kind.as_str());
        }
        Ok(Answer::Result(called))
    }

    /// Like [`RunningCall::advance`], until the client cancels its request or is gone.
    async fn advance(&self, call: &mut RunningCall, context: &RequestContext<RoleServer>) -> Option<CallOrJob> {
        tokio::select! {
            biased;
            called = call.advance() => return called,
            () = self.closed.cancelled() => {}
            () = context.ct.cancelled() => {}
        }
        Some(call.cancel().await)
    }

    /// Returns the jobs that tasks are.
    pub(super) fn jobs(&self, method: &str) -> Result<&Jobs, ErrorData> {
        self.server.options().jobs.as_ref().ok_or_else(|| method_not_found(method))
    }
}

/// Returns the request of a call, which its client may send again.
fn repeated_call(name: String, arguments: Option<JsonObject>) -> RepeatedRequest {
    RepeatedRequest { method: "tools/call", name, arguments: arguments.unwrap_or_default().into() }
}

pub(super) fn method_not_found(method: &str) -> ErrorData {
    let method: String = printable(method).chars().take(MAX_FULL_NAME_BYTES).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method}"), None)
}

/// Methods of this server that take parameters.
const METHODS: [&str; 4] = ["tools/call", "tools/list", "logging/setLevel", "initialize"];
/// Methods that revisions without a handshake do not have.
const HANDSHAKE_METHODS: [&str; 2] = ["logging/setLevel", "initialize"];
