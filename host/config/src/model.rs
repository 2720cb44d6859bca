//! `[model]`: the model that answers.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Time};
use crate::price::PriceSection;
use crate::secret::ValueSource;

/// The model for `run` and `chat`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// PROVIDER:NAME, such as "ollama:llama3.2" or "openai:gpt-4o-mini"; or "scripted:FILE".
    pub name: Option<String>,
    /// The base URL of the provider. Default: the provider's own, or the URL in its environment variable.
    pub base_url: Option<String>,
    /// The source of the API key. Default: the provider's environment variable, such as OPENAI_API_KEY.
    pub key: Option<ValueSource>,
    /// Allow the key to be sent to another machine without encryption.
    #[serde(default)]
    pub key_over_plain_http: bool,
    /// The HTTP proxy. Default: none; proxy variables of the environment are ignored.
    pub proxy: Option<String>,
    /// Sampling temperature: a number from 0 to 2, or "provider" (default) for the provider's own.
    pub temperature: Option<Temperature>,
    /// Maximum tokens of one answer. Default: the model's maximum.
    pub max_tokens: Option<NonZeroU32>,
    /// Amount of reasoning before an answer: "none", "minimal", "low", "medium", "high", "xhigh" or "max". Default: the
    /// model's own.
    pub reasoning_effort: Option<Effort>,
    /// Other settings of the provider, sent unchanged, such as { top_p = 0.9 }.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Set to false if the model does not support tools. Default: true.
    pub supports_tools: Option<bool>,
    /// Show images from tools to the model, up to 1MiB of one result. Default: false, and images are described in
    /// words.
    #[serde(default)]
    pub supports_images: bool,
    /// Maximum size of one answer. Default: 8MiB.
    pub max_reply: Option<Bytes>,
    /// Maximum time to wait for a connection. Default: 10s.
    pub connect_timeout: Option<Time>,
    /// Maximum time until the first word of an answer. A local model loads and reads the prompt in this time. Default:
    /// 5m.
    pub first_token_timeout: Option<Time>,
    /// Maximum time between two pieces of an answer. Default: 60s.
    pub between_chunks_timeout: Option<Time>,
    /// Maximum total time, including retries. Default: 10m.
    pub timeout: Option<Time>,
    /// Retries when the provider is busy or fails. Default: 3.
    pub retries: Option<u32>,
    /// Prices per million tokens. Default: none, and runs show no cost.
    pub price: Option<PriceSection>,
}

/// The amount of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "lower"))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the levels are words of the providers")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// Sampling temperature of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Temperature {
    /// From 0 to 2.
    Number(f64),
    /// The provider's own temperature.
    Provider(ProvidersOwn),
}

/// The provider's own temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProvidersOwn {
    /// The provider's own temperature.
    Provider,
}

struct NumberOrWord;

impl serde::de::Visitor<'_> for NumberOrWord {
    type Value = Temperature;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number from 0 to 2, or \"provider\"")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Temperature, E> {
        if (0.0..=2.0).contains(&number) {
            Ok(Temperature::Number(number))
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Float(number), &self))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "what is not small is refused")]
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Temperature, E> {
        self.visit_f64(number as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Temperature, E> {
        match text {
            "provider" => Ok(Temperature::Provider(ProvidersOwn::Provider)),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Temperature {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrWord)
    }
}
