//! The session of one client: the implementation of rmcp's [`ServerHandler`].
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fumehood_core::call::event::Level;
use fumehood_core::call::history::CallHistory;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Arguments, Call, CallContext, CancellationToken as CallToken, Observer};
use fumehood_core::telemetry;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::trace_context::TraceContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, Extensions,
    GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument as _, Span};

use super::library::Library;
use super::logging;
use super::mcp_server::Server;
use super::notifications::{Notifier, Outbox};
use super::prompts;
use super::resources;
use super::tools::call_tool_result;
use super::tools::catalogue::Entry as CatalogueEntry;
use crate::transport::raw_arguments::RawArguments;

/// Maximum length of an unknown name that an error repeats, in characters.
const MAX_NAME_CHARS: usize = 130;

/// Maximum length of a client's name and version in records, in bytes.
const MAX_CLIENT_NAME_BYTES: usize = 128;

/// The session of one client.
pub(crate) struct Session {
    server: Server,
    /// The minimum level of log lines that this client requested, as an index into the levels.
    level: AtomicU8,
    /// The actor of its calls.
    actor: Option<Arc<str>>,
    /// True if the flags of its trace contexts decide whether spans of its calls are collected.
    decides_sampling: bool,
    /// Its calls so far.
    history: Arc<CallHistory>,
    /// Cancelled once the client is gone, before rmcp has cleaned up after it.
    closed: CancellationToken,
    /// Cancels what the session started when rmcp drops it.
    _ended: DropGuard,
}

impl Session {
    pub(crate) fn new(server: Server, actor: Option<Arc<str>>, closed: CancellationToken) -> Self {
        let (level, ended) = (AtomicU8::new(Level::Info as u8), closed.clone().drop_guard());
        Self { server, level, actor, decides_sampling: true, history: Arc::default(), closed, _ended: ended }
    }

    /// Sets whether the flags of its trace contexts decide whether spans of its calls are collected. They do by default.
    pub(crate) fn decides_sampling(self, decides_sampling: bool) -> Self {
        Self { decides_sampling, ..self }
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
        let span = self.request_span(&entry.full_name, &context);
        let result = self.call_entry(entry, request, context).instrument(span.clone()).await;
        if let Some(error) = result.error() {
            telemetry::record_error(&span, error.kind.as_str());
        }
        Ok(call_tool_result::into_call_tool_result(result, entry.structured).into())
    }

    /// Creates the span of a call, as a child of the span that the client names in `_meta`.
    fn request_span(&self, tool: &str, context: &RequestContext<RoleServer>) -> Span {
        let parent = context.meta.get_traceparent();
        let parent = parent.and_then(|parent| TraceContext::parse(parent, context.meta.get_tracestate()));
        let parent = parent.map(|parent| parent.with_sampling_decision(self.decides_sampling));
        let version = context.protocol_version();
        // The id is the client's own text, if it is no number.
        let id = printable(&context.id.to_string()).into_owned();
        let id = truncate_str(&id, MAX_CLIENT_NAME_BYTES);
        telemetry::mcp_server_span(tool, id, version.as_ref().map_or("", |version| version.as_str()), parent.as_ref())
    }

    async fn call_entry(
        &self,
        entry: &CatalogueEntry,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> CallResult {
        let token = context.meta.get_progress_token();
        let cancelled = CallToken::new();
        let outbox = Outbox::for_client(token.is_some(), self.min_log_level(&context));
        let call = Call {
            tool: entry.full_name.clone(),
            arguments: call_arguments(&context.extensions, request.arguments),
            context: CallContext {
                actor: self.actor.clone(),
                observer: outbox.clone().map(|outbox| outbox as Arc<dyn Observer>),
                cancelled: Some(cancelled.clone()),
                client: context.client_info().map(|client| client_name(&client)),
                // Requests without a handshake belong to no session.
                history: (!is_stateless(&context)).then(|| Arc::clone(&self.history)),
                ..CallContext::default()
            },
        };
        let running = self.run(call, cancelled, &context.ct);
        match &outbox {
            None => running.await,
            Some(outbox) => {
                let notifier = Notifier { peer: &context.peer, token, tool: &request.name };
                let running = async {
                    let result = running.await;
                    outbox.close();
                    result
                };
                tokio::join!(running, notifier.send_all(outbox)).0
            }
        }
    }

    /// Runs a call until it ends, the client cancels it, or the client is gone.
    async fn run(&self, call: Call, token: CallToken, cancelled: &CancellationToken) -> CallResult {
        let mut call = pin!(self.server.tools().dispatch(call));
        tokio::select! {
            biased;
            result = &mut call => return result,
            () = self.closed.cancelled() => {}
            () = cancelled.cancelled() => {}
        }
        token.cancel();
        call.await
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

/// Returns whether the request is of a revision without a handshake.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// Returns the name and version that a client claims, as `name/version`.
fn client_name(client: &Implementation) -> String {
    let name = printable(&format!("{}/{}", client.name, client.version)).into_owned();
    truncate_str(&name, MAX_CLIENT_NAME_BYTES).to_owned()
}

/// Returns the arguments as the client wrote them, if the transport attached that text, and else as rmcp parsed them.
fn call_arguments(extensions: &Extensions, read: Option<JsonObject>) -> Arguments {
    let over_http = || extensions.get::<http::request::Parts>()?.extensions.get::<RawArguments>();
    match extensions.get::<RawArguments>().or_else(over_http) {
        Some(RawArguments(text)) => Arguments::Text(text.clone()),
        None => Arguments::Value(Value::Object(read.unwrap_or_default())),
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
