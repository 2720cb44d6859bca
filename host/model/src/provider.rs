//! A provider over the network.

use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{DeltaSink, Model, ModelError, ModelFailure, Request, Response};
use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::resolver::AuthData;
use genai::{Client, Headers, ModelIden, ServiceTarget};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::config::ProviderConfig;
use crate::endpoint::{Endpoint, SetupError, resolve, through};
use crate::retry::wait;
use crate::spec::{ModelSpec, Service, is_name};
use crate::wire::{Frames, Pieces, Prepared, Writing, cut, explain, prepare};

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
        Ok(Self { service: *service, model: name.clone(), spec: spec.to_string(), config, endpoint, client })
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
        let mut tries = 0;
        loop {
            tries += 1;
            let mut prepared = prepare(self.service, &self.config, name, request)?;
            let names = std::mem::take(&mut prepared.names);
            let mut pieces = Pieces::new(self.service, prepared.with_tools, names, self.config.max_reply_bytes);
            let error = match self.try_once(name, prepared, &mut pieces, deltas).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let random = getrandom::u64().unwrap_or_default();
            match wait(&self.config.retries, tries, &error, random) {
                Some(wait) if !pieces.handed_on() => tokio::time::sleep(wait).await,
                _ => return Err(error),
            }
        }
    }

    async fn try_once(
        &self,
        name: &str,
        prepared: Prepared,
        pieces: &mut Pieces,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Response, ModelError> {
        let Prepared { chat, options, with_tools, names: _ } = prepared;
        let explain = |error: &genai::Error| explain(self.service, self.endpoint.key.as_ref(), with_tools, error);
        let (frames, sink) = Frames::watch(self.service);
        let options = options.with_raw_frame_sink_arc(sink);
        let target = self.target(name).await.map_err(|error| explain(&error))?;
        let answer = self.client.exec_chat_stream(target, chat, Some(&options)).await;
        let mut stream = answer.map_err(|error| explain(&error))?.stream;
        while let Some(event) = stream.next().await {
            let event = event.map_err(|error| explain(&error))?;
            if let Writing::Ended(response) = pieces.take(event, &frames, deltas)? {
                return Ok(response);
            }
        }
        Err(cut(self.service))
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
