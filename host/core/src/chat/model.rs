//! The port for sending requests to a model.

use super::error::ModelError;
use super::request::Request;
use super::response::Response;
use crate::boxed::BoxFuture;

/// A fragment of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// A fragment of the text.
    Text(String),
    /// A fragment of the model's reasoning, where the provider streams it. Not part of the answer.
    Thought(String),
}

/// An activity of a model that no [`Delta`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The model writes content that is not streamed, such as a call.
    Writing,
    /// The client waits before a retry.
    Waiting,
}

/// A receiver of the fragments of a streamed answer.
pub trait DeltaSink: Send {
    /// Receives one fragment. Called on the task that sent the request; must not block.
    fn delta(&mut self, delta: Delta);

    /// Receives a change of activity, for measuring time. A [`Delta`] implies that the model writes, so that only other
    /// changes are reported. Does nothing by default.
    fn activity(&mut self, activity: Activity) {
        let _ = activity;
    }
}

impl<F: FnMut(Delta) + Send> DeltaSink for F {
    fn delta(&mut self, delta: Delta) {
        self(delta);
    }
}

/// A sink that discards all fragments.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullDeltaSink;

impl DeltaSink for NullDeltaSink {
    fn delta(&mut self, _: Delta) {}
}

/// The port for models: a provider, a script, or a closure.
///
/// Each request has one answer. The implementation is responsible for retries, wire format and timeouts. Dropping the
/// future abandons the request.
///
/// ```
/// use fumehood_core::boxed::BoxFuture;
/// use fumehood_core::chat::{Delta, DeltaSink, Model, ModelError, Request, Response};
///
/// /// A model that repeats the last message.
/// struct Parrot;
///
/// impl Model for Parrot {
///     fn name(&self) -> Option<&str> {
///         Some("parrot")
///     }
///
///     fn chat<'a>(
///         &'a self,
///         request: &'a Request,
///         deltas: &'a mut dyn DeltaSink,
///     ) -> BoxFuture<'a, Result<Response, ModelError>> {
///         let text = request.messages.last().map(|message| message.content.clone()).unwrap_or_default();
///         deltas.delta(Delta::Text(text.clone()));
///         Box::pin(async move { Ok(Response::text(text)) })
///     }
/// }
///
/// // A closure is a model, too.
/// let model: &dyn Model = &|_: &Request| Ok(Response::text("16"));
/// assert_eq!(model.name(), None);
/// ```
pub trait Model: Send + Sync {
    /// Returns the name of the model for records, such as `ollama:llama3.2`. A request that names another model
    /// overrides it. `None` by default.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Sends a request and returns the whole response. `deltas` receives the text as it is streamed.
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>>;
}

impl<F> Model for F
where
    F: Fn(&Request) -> Result<Response, ModelError> + Send + Sync,
{
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        let response = self(request);
        if let Ok(response) = &response
            && !response.reply.text().is_empty()
        {
            deltas.delta(Delta::Text(response.reply.text().to_owned()));
        }
        Box::pin(std::future::ready(response))
    }
}
