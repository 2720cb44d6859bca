//! The port through which a model is asked.

use super::error::ModelError;
use super::request::Request;
use super::response::Response;
use crate::boxed::BoxFuture;

/// A piece of an answer that is still being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// The model thinks aloud, where a provider tells so. Not part of the answer.
    Thought(String),
}

/// An activity of a model that was asked, where no piece of the answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It writes what is not passed on in pieces, such as a call.
    Writing,
    /// Nothing: the client waits before it asks the provider again.
    Waiting,
}

/// Where the pieces of an answer go while it is being written.
pub trait DeltaSink: Send {
    /// Takes one piece. Called on the task that asks the model; it must not block.
    fn delta(&mut self, delta: Delta);

    /// Notes what the model is doing. A piece of an answer means that it writes, so that only the rest need be said. Time is
    /// kept by it; nothing else happens by default.
    fn activity(&mut self, activity: Activity) {
        let _ = activity;
    }
}

impl<F: FnMut(Delta) + Send> DeltaSink for F {
    fn delta(&mut self, delta: Delta) {
        self(delta);
    }
}

/// Nobody wants the pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl DeltaSink for Silent {
    fn delta(&mut self, _: Delta) {}
}

/// Something that answers: a provider, a script, a closure.
///
/// One request, one answer. Retries on the provider's account, its wire format and its timeouts are the
/// implementation's affair. Dropping the future abandons the request.
pub trait Model: Send + Sync {
    /// What it is called in records, such as `ollama:llama3.2`, where a request names no other.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Asks. `deltas` sees the text as it comes; the response has all of it again.
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
