//! The session of one client: the implementation of rmcp's [`ServerHandler`].
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fumehood_core::call::event::Level;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::{Call, CallContext, CancellationToken as CallToken, Observer};
use fumehood_core::telemetry;
use fumehood_core::text::sanitize::printable;
use fumehood_listener::{Called, JobCall, Jobs};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscriptionFilter, Tool,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::call_request::{call_arguments, client_name, has_tasks, is_stateless, request_span};
use super::library::Library;
use super::logging;
use super::mcp_server::Server;
use super::notifications::{Notifier, Outbox};
use super::prompts;
use super::resources;
use super::tasks;
use super::tools::call_tool_result;
use super::tools::catalogue::Entry as CatalogueEntry;

/// Maximum length of an unknown name that an error repeats, in characters.
const MAX_NAME_CHARS: usize = 130;

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
    server: Server,
    /// The minimum level of log lines that this client requested, as an index into the levels.
    level: AtomicU8,
    principal: Principal,
    /// Its calls so far.
    history: Arc<CallHistory>,
    /// Cancelled once the client is gone, before rmcp has cleaned up after it.
    closed: CancellationToken,
    /// Cancels what the session started when rmcp drops it.
    _ended: DropGuard,
}

impl Session {
    pub(crate) fn new(server: Server, principal: Principal, closed: CancellationToken) -> Self {
        let level = AtomicU8::new(Level::Info as u8);
        Self { server, level, principal, history: Arc::default(), _ended: closed.clone().drop_guard(), closed }
    }

    /// Returns the minimum level of log lines for this request. Revisions without a handshake carry it in each request.
    fn min_log_level(&self, context: &RequestContext<RoleServer>) -> Option<Level> {
        if is_stateless(context) {
            context.meta.log_level().map(logging::from_logging_level)
        } else {
            logging::from_rank(self.level.load(Ordering::Relaxed))
        }
    }

    /// Returns the library if it has entries. Capabilities that are not advertised return an error, not an empty list.
    fn library_with_entries(&self, method: &str) -> Result<&Library, ErrorData> {
        let library = &self.server.options().library;
        if library.entries().is_empty() { Err(method_not_found(method)) } else { Ok(library) }
    }

    /// Like [`Self::library_with_entries`], for prompts.
    fn library_with_prompts(&self, method: &str) -> Result<&Library, ErrorData> {
        let library = &self.server.options().library;
        if library.prompts().is_empty() { Err(method_not_found(method)) } else { Ok(library) }
    }

    /// Returns whether this server has a method of this name that takes parameters.
    fn has_method(&self, method: &str, is_stateless: bool) -> bool {
        match method {
            "resources/read" => self.library_with_entries(method).is_ok(),
            "prompts/get" => self.library_with_prompts(method).is_ok(),
            _ if tasks::METHODS.contains(&method) => self.server.options().jobs.is_some(),
            _ => METHODS.contains(&method) && !(is_stateless && HANDSHAKE_METHODS.contains(&method)),
        }
    }

    async fn call(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> CallToolOutcome {
        let catalogue = self.server.catalogue();
        let Some(entry) = catalogue.find(&request.name) else {
            let name: String = printable(&request.name).chars().take(MAX_NAME_CHARS).collect();
            let known = catalogue.suggestions();
            return Err(ErrorData::invalid_params(format!("Unknown tool: {name} ({known})"), None));
        };
        let decides_sampling = self.principal.decides_sampling;
        let span = request_span(&entry.full_name, &context, decides_sampling);
        let called = self.call_entry(entry, request, context).instrument(span.clone()).await;
        match called {
            Called::Job(job) => Ok(tasks::created(&job).into()),
            Called::Ended(result) => {
                if let Some(error) = result.error() {
                    telemetry::record_error(&span, error.kind.as_str());
                }
                let form = entry.form;
                let write = move |result| call_tool_result::into_call_tool_result(result, form);
                Ok(self.server.work(*result, write).await?.into())
            }
        }
    }

    async fn call_entry(
        &self,
        entry: &CatalogueEntry,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Called {
        let token = context.meta.get_progress_token();
        let cancelled = CallToken::new();
        let outbox = Outbox::for_client(token.is_some(), self.min_log_level(&context));
        let call = Call {
            tool: entry.full_name.clone(),
            arguments: call_arguments(&context.extensions, request.arguments),
            context: CallContext {
                actor: self.principal.actor.clone(),
                observer: outbox.clone().map(|outbox| outbox as Arc<dyn Observer>),
                cancelled: Some(cancelled.clone()),
                client: context.client_info().map(|client| client_name(&client)),
                // Requests without a handshake belong to no session.
                history: (!is_stateless(&context)).then(|| Arc::clone(&self.history)),
                repairs: self.server.options().repairs.clone(),
                ..CallContext::default()
            },
        };
        let running = self.run(call, cancelled, &context);
        match &outbox {
            None => running.await,
            Some(outbox) => {
                let notifier = Notifier { peer: &context.peer, token, tool: &request.name };
                let running = async {
                    let called = running.await;
                    outbox.close();
                    called
                };
                tokio::join!(running, notifier.send_all(outbox)).0
            }
        }
    }

    /// Runs a call until it ends or becomes a job, the client cancels it, or the client is gone.
    async fn run(&self, call: Call, token: CallToken, context: &RequestContext<RoleServer>) -> Called {
        let jobs = self.server.options().jobs.as_ref().filter(|_| has_tasks(context));
        let mut call = pin!(async {
            match jobs {
                Some(jobs) => {
                    let (owner, tools) = (Arc::clone(&self.principal.owner), self.server.shared_tools());
                    // With the memory of its message, which stays counted until the call has ended.
                    jobs.call(JobCall::new(owner, tools, call, context.extensions.clone())).await
                }
                None => Called::Ended(Box::new(self.server.tools().dispatch(call).await)),
            }
        });
        tokio::select! {
            biased;
            called = &mut call => return called,
            () = self.closed.cancelled() => {}
            () = context.ct.cancelled() => {}
        }
        token.cancel();
        call.await
    }

    /// Returns the jobs that tasks are.
    fn jobs(&self, method: &str) -> Result<&Jobs, ErrorData> {
        self.server.options().jobs.as_ref().ok_or_else(|| method_not_found(method))
    }
}

type CallToolOutcome = Result<CallToolResponse, ErrorData>;

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        self.server.config()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let page = self.server.catalogue().page(cursor.as_deref(), self.server.options().page);
        let (tools, next_cursor) = page.map_err(|_| resources::unknown_cursor())?;
        Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.catalogue().tool(name).cloned()
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> CallToolOutcome {
        self.call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = (&*self.principal.owner, request.task_id.as_str());
        tasks::get(self.jobs("tasks/get")?, task, &self.server).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(self.jobs("tasks/update")?, &self.principal.owner, &request.task_id).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(self.jobs("tasks/cancel")?, &self.principal.owner, &request.task_id).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(method_not_found("logging/setLevel"));
        }
        self.level.store(logging::from_logging_level(request.level) as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Notifies a client of revisions with a handshake of every change of the tools.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (mut changes, closed) = (self.server.changes(), self.closed.clone());
        changes.mark_seen();
        while let Some(Some(_)) = closed.run_until_cancelled(changes.next()).await {
            if context.peer.notify_tool_list_changed().await.is_err() {
                return;
            }
        }
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    /// Notifies a client of the stateless revision, which subscribes with `subscriptions/listen`.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.server.changes();
        changes.mark_seen();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.closed.cancelled() => return Ok(()),
                change = changes.next() => {
                    if change.is_none() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Answers requests that rmcp could not parse. rmcp treats a request of a known method with malformed parameters as
    /// a custom one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method.as_str();
        if self.has_method(method, is_stateless(&context)) {
            let why = match request.params_as::<CallToolRequestParams>() {
                Err(error) if request.method == "tools/call" => format!(": {}", printable(&error.to_string())),
                _ => String::new(),
            };
            return Err(ErrorData::invalid_params(format!("the parameters of {method} do not fit{why}"), None));
        }
        Err(method_not_found(method))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list_resources(self.library_with_entries("resources/list")?, request, self.server.options().page)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.library_with_entries("resources/templates/list").map(|_| ListResourceTemplatesResult::default())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read_resource(self.library_with_entries("resources/read")?, &request.uri).await?.into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        prompts::list_prompts(self.library_with_prompts("prompts/list")?, request, self.server.options().page)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(prompts::get_prompt(self.library_with_prompts("prompts/get")?, request).await?.into())
    }
}

fn method_not_found(method: &str) -> ErrorData {
    let method: String = printable(method).chars().take(MAX_NAME_CHARS).collect();
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
}

/// Methods of this server that take parameters.
const METHODS: [&str; 4] = ["tools/call", "tools/list", "logging/setLevel", "initialize"];
/// Methods that revisions without a handshake do not have.
const HANDSHAKE_METHODS: [&str; 2] = ["logging/setLevel", "initialize"];
