//! Answers to calls that wait: of an agent in this program, and of a saved session of any other.

use fumehood_core::record::RecordError;
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use fumehood_core::time::Timestamp;

use super::builder::{BuildError, new_writer};
use super::outcome::RunError;
use super::record_factory::RecordFactory;
use super::run::Agent;
use crate::deferred::GivenAnswer;
use crate::session::{AnswerError, Input, RestoredSession, SavedInput, StepError};

/// Errors of answering a call that waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerCallError {
    /// The call cannot be answered.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The answer cannot be stored, or somebody else continued the session first.
    #[error("the answer was not saved")]
    Record(#[from] RecordError),
    /// The session does not take it.
    #[error("the session rejected the answer")]
    Step(#[from] StepError),
    /// The session cannot be written, because its content cannot be turned into text.
    #[error("cannot save the answer: {0}")]
    Malformed(String),
    /// The session is not at rest.
    #[error(transparent)]
    Waiting(RunError),
    /// The system has no random bytes.
    #[error(transparent)]
    Random(#[from] BuildError),
}

impl From<RunError> for AnswerCallError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Record(error) => Self::Record(error),
            RunError::Step(error) => Self::Step(error),
            RunError::Waiting => Self::Waiting(error),
        }
    }
}

impl Agent {
    /// Answers a call that waits: one of the [`Ending::WaitingForApproval`](crate::transcript::Ending) of a run, by its
    /// id. [`Agent::resume`] goes on with the answers.
    ///
    /// # Errors
    /// If no such call waits, it has an answer, or that cannot be recorded.
    pub async fn answer_call(&mut self, id: &str, answer: GivenAnswer) -> Result<(), AnswerCallError> {
        self.session().check_answer(id)?;
        let seen = self.session().current_run().map_or(0, |run| run.steps.len());
        self.step(Input::CallAnswered { id: id.to_owned(), answer }, seen).await?;
        Ok(())
    }
}

/// Answers a call of a saved session that waits, and stores the answer and its record in one transaction.
///
/// The session may be continued elsewhere in the meantime. Only one entry of a number is stored, so that an answer counts
/// once, and before the call runs or not at all.
///
/// # Errors
/// If no such call waits, it has an answer, or the answer cannot be stored. The session has not changed then, except
/// where another process changed it.
pub async fn answer_saved(
    store: &dyn SessionStore,
    mut restored: RestoredSession,
    id: &str,
    answer: GivenAnswer,
    now: Timestamp,
) -> Result<(), AnswerCallError> {
    restored.session.check_answer(id)?;
    let session = restored.session.config().id.clone();
    let writer = new_writer()?;
    let waiting = restored.session.waiting_calls().to_vec();
    let mut records = RecordFactory::answering(session.clone(), restored.actor.clone(), restored.entries, &writer);
    let record = records.for_answer(id, &waiting, &answer, now);
    let input = Input::CallAnswered { id: id.to_owned(), answer };
    let saved = SavedInput { input: Some(input.clone()), writer, ..SavedInput::default() };
    let content = serde_json::to_string(&saved).map_err(|error| AnswerCallError::Malformed(error.to_string()))?;
    restored.session.step(input, now)?;
    let entry = SessionEntry { session, number: restored.entries, at: now, content };
    store.append(entry, vec![record]).await?;
    Ok(())
}
