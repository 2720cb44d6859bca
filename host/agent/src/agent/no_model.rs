//! The model of an agent that asks none.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{DeltaSink, Model, ModelError, ModelFailure, Request, Response};

/// A model for agents whose skill is implemented by a tool or a program. Every request to it fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModel;

impl Model for NoModel {
    fn chat<'a>(&'a self, _: &'a Request, _: &'a mut dyn DeltaSink) -> BoxFuture<'a, Result<Response, ModelError>> {
        let message = "the agent has no model; set one, or use a skill that is implemented by a tool or program";
        Box::pin(std::future::ready(Err(ModelError::new(ModelFailure::Setup, message))))
    }
}
