//! Runs whose answer is a value of a Rust type.

use fumehood_core::schema::gate::SchemaError;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::iteration::Iteration;
use super::outcome::{Outcome, RunError};
use super::run::Agent;
use crate::output_schema::OutputSchema;
use crate::session::transcript::Ending;

/// Errors of [`Agent::run_as`](super::Agent::run_as).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedRunError {
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The schema of the type cannot be checked.
    #[error("the schema of the type is not supported")]
    Schema(#[from] SchemaError),
    /// The run ended without an answer that matches the schema.
    #[error("the run ended without an answer: {}", .0.ending.as_str())]
    NoAnswer(Box<Outcome>),
    /// The answer matches the schema, which is not that of the type.
    #[error("the answer matches its schema, but does not deserialize to the requested type: {problem}")]
    Type {
        /// The message of the deserializer.
        problem: String,
        /// The outcome.
        outcome: Box<Outcome>,
    },
}

impl Agent {
    /// Runs one user message to its end, and deserializes the answer.
    ///
    /// The answer has to match the schema of the skill in use, or else that of the session, or else that of the type. A
    /// model is asked to correct one that does not, at most twice.
    ///
    /// # Errors
    /// If the run fails or ends without an answer, the answer is not one of the type, or the type has no schema that can
    /// be checked.
    pub async fn run_as<T: DeserializeOwned + JsonSchema>(
        &mut self,
        message: impl Into<String>,
    ) -> Result<T, TypedRunError> {
        let schema = OutputSchema::of::<T>()?;
        let outcome = Iteration::begin(self, message.into(), Some(schema)).finish().await?;
        match &outcome.ending {
            Ending::Answered { text } => serde_json::from_str(text).map_err(|error| {
                let problem = error.to_string();
                TypedRunError::Type { problem, outcome: Box::new(outcome) }
            }),
            _ => Err(TypedRunError::NoAnswer(Box::new(outcome))),
        }
    }
}
