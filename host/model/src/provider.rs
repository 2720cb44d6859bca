//! A model of a provider, over the network.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{
    Activity, DeltaSink, Model, ModelError, ModelFailure, Request, Response, StopReason, ToolChoice, ToolSpec,
};
use fumehood_core::log::RetriedRequest;
use fumehood_core::telemetry;
use fumehood_transport::{TransportError, Url};
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatRequest, ChatStreamEvent};
use genai::resolver::AuthData;
use genai::{Headers, ModelIden, ServiceTarget};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::answer_stream::{AnswerStream, Connector, StreamError};
use crate::config::ProviderConfig;
use crate::endpoint::{Endpoint, SetupError, parse_proxy, resolve};
use crate::refused_tools::{LeftOutTools, left_out_notice};
use crate::retry::retry_delay;
use crate::spec::{ModelSpec, Service, is_name};
use crate::wire::{
    Adjustments, AttemptError, PreparedRequest, Progress, RefusedTools, Remedy, ResponseBuilder, SentTool, classify,
    classify_reported, classify_transport, continue_turn, join_turn, prepare, refusal_notices, restore_arguments,
    timeout_error, truncated_error,
};

/// Maximum number of times that a paused answer is continued.
const MAX_CONTINUATIONS: usize = 8;

/// A model of a provider.
///
/// Every answer is requested as a stream. Redirects are not followed, because the key would be sent along. No proxy is
/// used unless the settings name one; the HTTP library would otherwise take one from variables such as `HTTP_PROXY`.
#[derive(Debug)]
pub struct Provider {
    service: Service,
    model: String,
    /// Service and model as `SERVICE:MODEL`.
    spec: String,
    config: ProviderConfig,
    endpoint: Endpoint,
    connector: Connector,
    /// Adjustments learned from rejected requests, by model name.
    adjustments: Mutex<BTreeMap<String, Adjustments>>,
}

impl Provider {
    /// Creates a provider from its settings and the environment of the process. No request is sent yet.
    ///
    /// # Errors
    /// If a base URL or a key is missing or invalid; the message names the variable that may hold it.
    pub fn new(spec: &ModelSpec, config: ProviderConfig) -> Result<Self, SetupError> {
        Self::with_environment(spec, config, |name| std::env::var(name).ok())
    }

    /// Like [`Provider::new`], with `environment` instead of the environment of the process.
    ///
    /// # Errors
    /// See [`Provider::new`].
    pub fn with_environment(
        spec: &ModelSpec,
        config: ProviderConfig,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        let ModelSpec::Provider { service, name } = spec else {
            return Err(SetupError::NotAProvider(spec.to_string()));
        };
        let endpoint = resolve(*service, &config, &environment)?;
        let proxy = config.proxy.as_deref().map(|proxy| parse_proxy(*service, proxy)).transpose()?;
        let encrypted = endpoint.url.as_ref().is_none_or(|url| url.scheme() == "https");
        let connector = Connector::new(*service, &config, encrypted, proxy);
        let connector = connector.map_err(|error| SetupError::Client(Box::new(error)))?;
        let adjustments = Mutex::default();
        Ok(Self {
            service: *service,
            model: name.clone(),
            spec: spec.to_string(),
            config,
            endpoint,
            connector,
            adjustments,
        })
    }

    /// Returns the name of the model for requests that name none.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Asks for an answer, and has the model go on with one that it paused.
    async fn ask(&self, request: &Request, deltas: &mut dyn DeltaSink) -> Result<Response, ModelError> {
        let mut answer = self.send(request, deltas).await?;
        let mut continued: Option<Request> = None;
        for _ in 0..MAX_CONTINUATIONS {
            if answer.stop != StopReason::Paused || !answer.reply.calls().is_empty() {
                break;
            }
            let next = continued.get_or_insert_with(|| request.clone());
            continue_turn(next, &answer);
            let rest = self.send(next, deltas).await?;
            answer = join_turn(answer, rest);
        }
        Ok(answer)
    }

    /// Sends a request, and retries it where that can help.
    async fn send(&self, request: &Request, deltas: &mut dyn DeltaSink) -> Result<Response, ModelError> {
        let name = request.model.as_deref().unwrap_or(&self.model);
        if !is_name(self.service, name) {
            let message = "the model name of the request is invalid; see `ModelSpec::parse` for the rules";
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        let mut failures = 0;
        let mut notices = Vec::new();
        let mut left_out = LeftOutTools::default();
        loop {
            let adjustments = self.adjustments_of(name);
            let mut prepared = prepare(self.service, &self.config, name, request, &adjustments)?;
            let names = std::mem::take(&mut prepared.names);
            let tools = std::mem::take(&mut prepared.tools);
            let mut builder = ResponseBuilder::new(self.service, !tools.is_empty(), names, self.config.max_reply_bytes);
            let AttemptError { error, remedy } = match self.try_once(name, prepared, &tools, &mut builder, deltas).await
            {
                Ok(response) => {
                    notices.extend(response.notices.iter().cloned());
                    notices.extend(refusal_notices(request, &adjustments));
                    return Ok(Response { notices, ..restore_arguments(response, &tools) });
                }
                Err(failure) => failure,
            };
            // Text that was shown cannot be taken back, so the request is not repeated.
            if builder.has_forwarded() {
                return Err(error);
            }
            if let Some(Remedy::LeaveOutTools(refused)) = &remedy {
                let found = self.find_refused(name, request, &tools, refused, &mut left_out).await;
                if self.leave_out(name, &found, &error, &mut left_out) {
                    continue;
                }
                self.restore(name, &left_out);
                return Err(error);
            }
            if let Some(remedy) = remedy.filter(|remedy| self.adjust(name, remedy)) {
                notices.extend(Self::notice(&remedy, &error));
                continue;
            }
            failures += 1;
            // The number only spreads retries, so a system without random numbers retries as well.
            let random = getrandom::u64().unwrap_or_default();
            let Some(delay) = retry_delay(&self.config.retries, failures, &error, random) else { return Err(error) };
            let retried = RetriedRequest { failures, reason: error.failure.as_str(), retry_in: delay };
            retried.emit_model(self.service.name(), name);
            deltas.activity(Activity::Waiting);
            tokio::time::sleep(delay).await;
        }
    }

    /// Returns the tools because of which a request was refused; none if they cannot be found within the bounds.
    async fn find_refused(
        &self,
        name: &str,
        request: &Request,
        tools: &[SentTool],
        refused: &RefusedTools,
        left_out: &mut LeftOutTools,
    ) -> Vec<ToolSpec> {
        let spec = |tool: &SentTool| tool.spec.clone();
        if let RefusedTools::Named(positions) = refused {
            return positions.iter().filter_map(|position| tools.get(*position).map(spec)).collect();
        }
        let mut suspects: Vec<ToolSpec> = tools.iter().map(spec).collect();
        // The provider does not name the tool, so half of the suspects is tried at a time.
        while suspects.len() > 1 {
            let mut first = suspects;
            let second = first.split_off(first.len() / 2);
            let probe = Request { tools: first, tool_choice: ToolChoice::Auto, ..request.clone() };
            let is_accepted = if left_out.count_probe() { self.probe(name, &probe).await } else { None };
            suspects = match is_accepted {
                Some(true) => second,
                Some(false) => probe.tools,
                None => return Vec::new(),
            };
        }
        suspects
    }

    /// Sends a request, and returns whether the provider accepts its tools; `None` if that cannot be told. The answer is
    /// dropped when it begins.
    async fn probe(&self, name: &str, request: &Request) -> Option<bool> {
        let prepared = prepare(self.service, &self.config, name, request, &self.adjustments_of(name)).ok()?;
        let PreparedRequest { chat, options, tools, parameters, names: _ } = prepared;
        let mut answer = self.start(name, chat, options).await.ok()?;
        loop {
            match tokio::time::timeout(self.config.timeouts.first_token, answer.next()).await.ok()?? {
                Ok(ChatStreamEvent::Start | ChatStreamEvent::Heartbeat) => {}
                Ok(_) => return Some(true),
                Err(StreamError::Transport(_)) => return None,
                Err(StreamError::Library(error)) => {
                    let failure = classify(self.service, self.endpoint.key.as_ref(), &tools, &parameters, &error);
                    return matches!(failure.remedy, Some(Remedy::LeaveOutTools(_))).then_some(false);
                }
            }
        }
    }

    /// Leaves tools out of all later requests to this model. Returns whether that is new, and within the bounds of
    /// one request.
    fn leave_out(&self, name: &str, tools: &[ToolSpec], error: &ModelError, left_out: &mut LeftOutTools) -> bool {
        let mut adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        let adjustments = adjustments.entry(name.to_owned()).or_default();
        let mut has_new = false;
        for tool in tools {
            if adjustments.refusal_notice(tool).is_some() {
                continue;
            }
            if !left_out.add(tool.clone()) {
                return false;
            }
            adjustments.leave_out_tool(tool.clone(), left_out_notice(self.service, tool, error));
            has_new = true;
        }
        has_new
    }

    /// Sends tools again that were left out of a request, but were not the reason why it failed.
    fn restore(&self, name: &str, left_out: &LeftOutTools) {
        let mut adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(adjustments) = adjustments.get_mut(name) {
            left_out.tools().iter().for_each(|tool| adjustments.restore_tool(tool));
        }
    }

    fn adjustments_of(&self, name: &str) -> Adjustments {
        let adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        adjustments.get(name).cloned().unwrap_or_default()
    }

    /// Applies a remedy to all later requests to this model. Returns whether it is new: a remedy that did not help is
    /// not tried again.
    fn adjust(&self, name: &str, remedy: &Remedy) -> bool {
        let mut adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        let adjustments = adjustments.entry(name.to_owned()).or_default();
        match remedy {
            Remedy::LeaveOut(parameter) => adjustments.leave_out(parameter.clone()),
            Remedy::SendThoughts => !std::mem::replace(&mut adjustments.sends_thoughts, true),
            Remedy::LeaveOutTools(_) => false,
        }
    }

    /// Returns a notice that a setting of the operator has no effect. A parameter that no setting controls is left out
    /// silently.
    fn notice(remedy: &Remedy, error: &ModelError) -> Option<String> {
        let Remedy::LeaveOut(parameter) = remedy else { return None };
        let setting = parameter.setting()?;
        Some(format!("the request was repeated without `{setting}`, because {}; change this setting", error.message))
    }

    async fn try_once(
        &self,
        name: &str,
        prepared: PreparedRequest,
        tools: &[SentTool],
        builder: &mut ResponseBuilder,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Response, AttemptError> {
        let PreparedRequest { chat, options, parameters, names: _, tools: _ } = prepared;
        let key = self.endpoint.key.as_ref();
        let classify = |error: &genai::Error| classify(self.service, key, tools, &parameters, error);
        let unreachable = |error: &TransportError| classify_transport(self.service, key, error);
        let started = Instant::now();
        let mut answer = self.start(name, chat, options).await.map_err(|error| match error {
            StreamError::Library(error) => classify(&error),
            StreamError::Transport(error) => unreachable(&error).into(),
        })?;
        loop {
            // Heartbeats must not extend the wait for the first token.
            let timeout = if builder.has_started() {
                self.config.timeouts.between_chunks
            } else {
                self.config.timeouts.first_token.saturating_sub(started.elapsed())
            };
            let next = tokio::time::timeout(timeout, answer.next()).await;
            let next = next.map_err(|_| timeout_error(self.service, !builder.has_started()))?;
            // Some providers report an error within a response of status 200.
            let is_over = !matches!(&next, Some(Ok(event)) if !matches!(event, ChatStreamEvent::End(_)));
            if is_over && let Some(error) = answer.notes().lock().error.take() {
                return Err(
                    classify_reported(self.service, key, !tools.is_empty(), builder.has_started(), &error).into()
                );
            }
            let event = match next {
                None => return Err(truncated_error(self.service).into()),
                Some(Err(StreamError::Library(error))) => return Err(classify(&error)),
                Some(Err(StreamError::Transport(error))) => return Err(unreachable(&error).into()),
                Some(Ok(event)) => event,
            };
            if let Progress::Complete(response) = builder.push(event, answer.notes(), deltas)? {
                return Ok(response);
            }
        }
    }

    /// Sends a request.
    async fn start(&self, name: &str, chat: ChatRequest, options: ChatOptions) -> Result<AnswerStream, StreamError> {
        let (target, base) = self.target(name).await.map_err(StreamError::Library)?;
        self.connector.send(target, base, chat, options).map_err(StreamError::Transport)
    }

    /// Returns the target of a request, and the base URL of its server. The adapter is always named, so that the library
    /// never guesses a provider from a model's name.
    async fn target(&self, name: &str) -> Result<(ServiceTarget, Url), genai::Error> {
        let kind = match self.service {
            Service::OpenAi | Service::Compatible => AdapterKind::OpenAI,
            Service::Anthropic => AdapterKind::Anthropic,
            Service::Gemini => AdapterKind::Gemini,
            Service::Ollama => AdapterKind::Ollama,
        };
        let mut target = self.connector.library().resolve_service_target(ModelIden::new(kind, name)).await?;
        let base = match &self.endpoint.url {
            Some(url) => url.clone(),
            None => {
                Url::parse(target.endpoint.base_url()).map_err(|error| genai::Error::Internal(error.to_string()))?
            }
        };
        target.auth = match (&self.endpoint.key, &self.endpoint.url) {
            (Some(key), _) => AuthData::from_single(key.reveal()),
            // The library requires a key for this protocol; an overridden request needs none.
            (None, Some(url)) if self.service == Service::Compatible => {
                AuthData::RequestOverride { url: format!("{url}chat/completions"), headers: Headers::default() }
            }
            _ => AuthData::None,
        };
        Ok((target, base))
    }
}

impl Model for Provider {
    fn name(&self) -> Option<&str> {
        Some(&self.spec)
    }

    fn chat<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        let total = self.config.timeouts.total;
        let span = telemetry::chat_span(self.service.name(), request.model.as_deref().unwrap_or(&self.model));
        Box::pin(async move {
            let answering = tokio::time::timeout(total, self.ask(request, deltas)).instrument(span.clone());
            let answer = answering.await.unwrap_or_else(|_| {
                let message = format!("{} did not complete its answer within {} s", self.service, total.as_secs_f64());
                Err(ModelError::new(ModelFailure::Timeout, message))
            });
            match &answer {
                Ok(response) => telemetry::record_tokens(&span, response.usage.input, response.usage.output),
                Err(error) => telemetry::record_error(&span, error.failure.as_str()),
            }
            answer
        })
    }
}
