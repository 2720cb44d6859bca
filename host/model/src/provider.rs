//! A provider over the network.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{Activity, DeltaSink, Model, ModelError, ModelFailure, Request, Response};
use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::resolver::AuthData;
use genai::{Client, Headers, ModelIden, ServiceTarget};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::Instant;

use crate::config::ProviderConfig;
use crate::endpoint::{Endpoint, SetupError, resolve, through};
use crate::retry::wait;
use crate::spec::{ModelSpec, Service, is_name};
use crate::wire::{Adjustments, Failure, Frames, Pieces, Prepared, Remedy, Writing, cut, explain, late, prepare};

/// A model of a provider.
///
/// Every answer is asked for as a stream. Redirects are not followed: the key would go along. No proxy is used unless
/// the settings name one; the HTTP library would otherwise take one from `HTTP_PROXY` and its like.
#[derive(Debug)]
pub struct Provider {
    service: Service,
    model: String,
    /// Both, as a person writes them.
    spec: String,
    config: ProviderConfig,
    endpoint: Endpoint,
    client: Client,
    /// The findings on each model, by its name.
    adjustments: Mutex<BTreeMap<String, Adjustments>>,
}

impl Provider {
    /// Sets a provider up with what the settings and the environment of the process say. Nothing is asked yet.
    ///
    /// # Errors
    /// If an address or a key is missing or is none; the message says which variable could hold it.
    pub fn new(spec: &ModelSpec, config: ProviderConfig) -> Result<Self, SetupError> {
        Self::with_environment(spec, config, |name| std::env::var(name).ok())
    }

    /// Sets a provider up with another environment than that of the process.
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
        let client = Client::builder().with_reqwest(http_client(*service, &config, &endpoint)?).build();
        let client = client.map_err(|error| SetupError::Client(Box::new(error)))?;
        let adjustments = Mutex::default();
        Ok(Self {
            service: *service,
            model: name.clone(),
            spec: spec.to_string(),
            config,
            endpoint,
            client,
            adjustments,
        })
    }

    /// Which model is asked if a request names none.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    async fn ask(&self, request: &Request, deltas: &mut dyn DeltaSink) -> Result<Response, ModelError> {
        let name = request.model.as_deref().unwrap_or(&self.model);
        if !is_name(self.service, name) {
            let message = "the request names a model that no model can be called; see `ModelSpec::parse` for the rules";
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        let (mut tries, mut notices) = (0, Vec::new());
        loop {
            let mut prepared = prepare(self.service, &self.config, name, request, &self.adjustments_of(name))?;
            let names = std::mem::take(&mut prepared.names);
            let mut pieces = Pieces::new(self.service, prepared.with_tools, names, self.config.max_reply_bytes);
            let Failure { error, remedy } = match self.try_once(name, prepared, &mut pieces, deltas).await {
                Ok(response) => return Ok(Response { notices, ..response }),
                Err(failure) => failure,
            };
            if pieces.handed_on() {
                return Err(error);
            }
            if let Some(remedy) = remedy.filter(|remedy| self.adjust(name, remedy)) {
                notices.extend(self.notice(&remedy, &error));
                continue;
            }
            tries += 1;
            let random = getrandom::u64().unwrap_or_default();
            let Some(wait) = wait(&self.config.retries, tries, &error, random) else { return Err(error) };
            deltas.activity(Activity::Waiting);
            tokio::time::sleep(wait).await;
        }
    }

    fn adjustments_of(&self, name: &str) -> Adjustments {
        let adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        adjustments.get(name).cloned().unwrap_or_default()
    }

    /// Asks this model otherwise from now on. Returns whether that is new: what did not help once is not tried again.
    fn adjust(&self, name: &str, remedy: &Remedy) -> bool {
        let mut adjustments = self.adjustments.lock().unwrap_or_else(PoisonError::into_inner);
        let adjustments = adjustments.entry(name.to_owned()).or_default();
        match remedy {
            Remedy::LeaveOut(parameter) => adjustments.leave_out(parameter.clone()),
            Remedy::SendThoughts => !std::mem::replace(&mut adjustments.sends_thoughts, true),
        }
    }

    /// Says that a setting of the operator's has no effect. What nobody set is left out without a word.
    fn notice(&self, remedy: &Remedy, error: &ModelError) -> Option<String> {
        let Remedy::LeaveOut(parameter) = remedy else { return None };
        let setting = parameter.setting()?;
        Some(format!("the model was asked again without `{setting}`, because {}; change that setting", error.message))
    }

    async fn try_once(
        &self,
        name: &str,
        prepared: Prepared,
        pieces: &mut Pieces,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Response, Failure> {
        let Prepared { chat, options, with_tools, names: _, parameters } = prepared;
        let explain =
            |error: &genai::Error| explain(self.service, self.endpoint.key.as_ref(), with_tools, &parameters, error);
        let (frames, sink) = Frames::watch(self.service);
        let options = options.with_raw_frame_sink_arc(sink);
        let started = Instant::now();
        let target = self.target(name).await.map_err(|error| explain(&error))?;
        let answer = self.client.exec_chat_stream(target, chat, Some(&options)).await;
        let mut stream = answer.map_err(|error| explain(&error))?.stream;
        loop {
            let patience = match pieces.began() {
                true => self.config.timeouts.between_chunks,
                false => self.config.timeouts.first_token.saturating_sub(started.elapsed()),
            };
            let next = tokio::time::timeout(patience, stream.next()).await;
            let Some(event) = next.map_err(|_| late(self.service, !pieces.began()))? else {
                return Err(cut(self.service).into());
            };
            let event = event.map_err(|error| explain(&error))?;
            if let Writing::Ended(response) = pieces.take(event, &frames, deltas)? {
                return Ok(response);
            }
        }
    }

    /// Whom to ask. The kind is always named, so that the library never guesses a provider from a model's name.
    async fn target(&self, name: &str) -> Result<ServiceTarget, genai::Error> {
        let kind = match self.service {
            Service::OpenAi | Service::Compatible => AdapterKind::OpenAI,
            Service::Anthropic => AdapterKind::Anthropic,
            Service::Gemini => AdapterKind::Gemini,
            Service::Ollama => AdapterKind::Ollama,
        };
        let mut target = self.client.resolve_service_target(ModelIden::new(kind, name)).await?;
        if let Some(url) = &self.endpoint.url {
            target.endpoint = genai::resolver::Endpoint::from_owned(url.as_str());
        }
        target.auth = match (&self.endpoint.key, &self.endpoint.url) {
            (Some(key), _) => AuthData::from_single(key.reveal()),
            // The library wants a key for this protocol; a request of our own making has none.
            (None, Some(url)) if self.service == Service::Compatible => {
                AuthData::RequestOverride { url: format!("{url}chat/completions"), headers: Headers::default() }
            }
            _ => AuthData::None,
        };
        Ok(target)
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
        Box::pin(async move {
            tokio::time::timeout(total, self.ask(request, deltas)).await.unwrap_or_else(|_| {
                let message = format!("{} gave no whole answer within {} s", self.service, total.as_secs_f64());
                Err(ModelError::new(ModelFailure::Timeout, message))
            })
        })
    }
}

/// One client for each provider: its connections are kept and used again.
fn http_client(service: Service, config: &ProviderConfig, endpoint: &Endpoint) -> Result<reqwest::Client, SetupError> {
    let encrypted = endpoint.url.as_ref().is_none_or(|url| url.scheme() == "https");
    let mut client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(encrypted).map_err(SetupError::Client)?)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(config.timeouts.connect)
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("fumehood/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = &config.proxy {
        client = client.proxy(through(service, proxy)?);
    }
    client.build().map_err(|error| SetupError::Client(Box::new(error)))
}

/// The system's root certificates; none for an address that is not encrypted, so that a small container without any
/// can still ask its own Ollama.
fn tls(encrypted: bool) -> Result<rustls::ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(match encrypted {
        true => builder.with_platform_verifier()?.with_no_client_auth(),
        false => builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
    })
}
