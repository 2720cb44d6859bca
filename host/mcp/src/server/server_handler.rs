//! The methods of the protocol, for one client: the implementation of rmcp's [`ServerHandler`].
#![allow(
    deprecated,
    reason = "logging and single subscriptions are on their way out of the protocol, and clients of older revisions have them"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fumehood_core::call::event::Level;
use fumehood_core::text::sanitize::printable;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::call_request::{Answer, Answers, LibraryCall, is_stateless};
use super::resource_subscriptions::{MAX_SUBSCRIPTIONS, Recipient, ResourceSubscriptions, pass_on_changes};
use super::session::{CallToolOutcome, Session, method_not_found};
use super::{completion, library_result, prompts, resources, tasks};
use crate::apps;
use crate::client::LibraryMethod;
use crate::log_level;
impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        self.server.config()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let page = self.server.catalogue().page(cursor.as_deref(), self.server.options().page);
        let (mut tools, next_cursor) = page.map_err(|_| resources::unknown_cursor())?;
        if !apps::are_supported(&context.client_capabilities().unwrap_or_default()) {
            tools.retain(|tool| !apps::is_only_for_pages(tool.meta.as_ref()));
            tools.iter_mut().for_each(|tool| apps::remove_from_meta(&mut tool.meta));
        }
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
        tasks::get(self.jobs("tasks/get")?, &self.principal.owner, &request.task_id, &self.server).await
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
        let level = log_level::from_logging_level(request.level);
        self.level.store(level as u8, Ordering::Relaxed);
        self.server.options().log_level.request(level);
        Ok(())
    }

    /// Notifies a client of revisions with a handshake of every change of the tools, resources and prompts, and of tools
    /// that wait for an approval since then.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A client may say it again and again.
        if self.is_initialized.swap(true, Ordering::Relaxed) {
            return;
        }
        for library in self.server.options().servers.iter() {
            let recipient = Recipient::Session(context.peer.clone());
            pass_on_changes(&self.server, library, Arc::clone(&self.subscriptions), recipient, self.closed.clone());
        }
        let mut changes = self.server.changes();
        let closed = self.closed.clone();
        changes.mark_seen();
        let mut before = self.server.catalogue();
        while let Some(Some(_)) = closed.run_until_cancelled(changes.next()).await {
            if context.peer.notify_tool_list_changed().await.is_err() {
                return;
            }
            let now = self.server.catalogue();
            if !now.resources().is_same(before.resources())
                && context.peer.notify_resource_list_changed().await.is_err()
            {
                return;
            }
            if let Some(notice) = now.waiting_since(&before).filter(|_| self.wants(Level::Warn)) {
                let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, Value::String(notice));
                let _disconnected = context.peer.notify_logging_message(message).await;
            }
            before = now;
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::builder().tools_list_changed().build();
        accepted.resources_list_changed = Some(true);
        accepted.prompts_list_changed = Some(true);
        let uris = requested.resource_subscriptions.iter().flatten().take(MAX_SUBSCRIPTIONS);
        accepted.resource_subscriptions = Some(uris.cloned().collect());
        Some(accepted)
    }

    /// Notifies a client of the stateless revision, which subscribes with `subscriptions/listen`.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let subscriptions = Arc::<ResourceSubscriptions>::default();
        let library = self.library(context.request_context());
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            if let Some(server) = library.server_of_resource(uri).filter(|server| server.takes_subscriptions()) {
                subscriptions.subscribe(server, uri, &self.principal.owner).await?;
            }
        }
        let ended = self.closed.child_token();
        let _ended = ended.clone().drop_guard();
        for server in self.server.options().servers.iter() {
            let recipient = Recipient::Subscription(context.sink().clone());
            pass_on_changes(&self.server, server, Arc::clone(&subscriptions), recipient, ended.clone());
        }
        let mut changes = self.server.changes();
        changes.mark_seen();
        let mut before = self.server.catalogue();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.closed.cancelled() => return Ok(()),
                change = changes.next() => {
                    if change.is_none() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                    let now = self.server.catalogue();
                    let is_same = now.resources().is_same(before.resources());
                    if !is_same && context.sink().notify_resource_list_changed().await.is_err() {
                        return Ok(());
                    }
                    before = now;
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
            return Err(ErrorData::invalid_params(format!("invalid parameters of {method}{why}"), None));
        }
        Err(method_not_found(method))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let library = self.library_with_resources("resources/list", &context)?;
        resources::list_resources(&library, request, self.server.options().page).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let library = self.library_with_resources("resources/templates/list", &context)?;
        resources::list_resource_templates(&library, request, self.server.options().page).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        let answers = Answers::of(request.request_state, request.input_responses, &context);
        let library = self.library_with_resources("resources/read", &context)?;
        if library.own().entries().contains_key(uri) {
            return Ok(resources::read_resource(library.own(), uri).await?.into());
        }
        if let Some(resource) = library.component_resource(uri) {
            return Ok(self.read_component_resource(resource, uri, context).await?.into());
        }
        let server = library.server_of_resource(uri).ok_or_else(|| resources::unknown_resource(uri))?;
        let arguments = json!({ "uri": uri });
        let call = LibraryCall { method: LibraryMethod::Read, arguments, name: Some(uri.clone()), answers };
        let mut read: Value = match self.ask_library(server, call, context).await? {
            Answer::Result(read) => read,
            Answer::InputRequired(needed) => return Ok(needed.into()),
        };
        if !library.shows_apps(server) {
            library_result::remove_apps_from_contents(&mut read, uri);
        }
        Ok(library_result::typed::<ReadResourceResult>(read)?.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let server = self.subscribable("resources/subscribe", &request.uri, &context)?;
        self.subscriptions.subscribe(server, &request.uri, &self.principal.owner).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribable("resources/unsubscribe", &request.uri, &context)?;
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let library = self.library_with_prompts("prompts/list", &context)?;
        prompts::list_prompts(&library, request, self.server.options().page).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let library = self.library_with_prompts("prompts/get", &context)?;
        let answers = Answers::of(request.request_state.clone(), request.input_responses.clone(), &context);
        let Some((server, name)) = library.server_of_prompt(&request.name) else {
            return Ok(prompts::get_prompt(library.own(), request).await?.into());
        };
        let mut arguments = json!({ "name": name });
        if let (Some(given), Value::Object(arguments)) = (request.arguments, &mut arguments) {
            arguments.insert("arguments".to_owned(), given.into());
        }
        let call = LibraryCall { method: LibraryMethod::Get, arguments, name: Some(request.name.clone()), answers };
        let mut got: Value = match self.ask_library(server, call, context).await? {
            Answer::Result(got) => got,
            Answer::InputRequired(needed) => return Ok(needed.into()),
        };
        if !library.shows_apps(server) {
            library_result::remove_apps_from_messages(&mut got);
        }
        Ok(library_result::typed::<GetPromptResult>(got)?.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let library = self.library(&context);
        // An operator's prompts have no completions, which is an empty answer.
        if !library.has_completions() && library.own().prompts().is_empty() {
            return Err(method_not_found("completion/complete"));
        }
        let Some((server, arguments)) = completion::to_server(&library, &request) else {
            return Ok(CompleteResult::default());
        };
        let call = LibraryCall { method: LibraryMethod::Complete, arguments, name: None, answers: None };
        match self.ask_library(server, call, context).await? {
            Answer::Result(completed) => Ok(completed),
            Answer::InputRequired(_) => Err(ErrorData::internal_error("a completion asks its client for input", None)),
        }
    }
}
