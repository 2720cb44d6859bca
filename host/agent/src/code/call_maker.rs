//! The port through which a program makes its calls, and the questions about them.

use std::sync::atomic::{AtomicUsize, Ordering};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::chat::ToolIntent;
use fumehood_core::tool::Stop;

use crate::deferred::DeferredCall;

/// The number of questions about calls of a program that a person has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions(AtomicUsize);

/// A question that is open until this is dropped.
pub(crate) struct OpenQuestion<'a>(&'a OpenQuestions);

impl OpenQuestions {
    pub(crate) fn open(&self) -> OpenQuestion<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        OpenQuestion(self)
    }

    pub(super) fn has_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The way in which calls of a program are made: with every check of a call that a model makes directly.
pub(crate) trait CallMaker: Sync {
    /// Counts a call towards the budgets of the session.
    ///
    /// # Errors
    /// If a budget is used up.
    fn reserve(&self) -> Result<(), CallError>;

    /// Counts a call that was made before the program was stopped, and that no budget has counted.
    fn count_again(&self) {}

    /// Adds a call that was made before the program was stopped to the history of flows.
    fn add_past_call(&self, _tool: &str) {}

    /// Returns whether the answer of a person to the call of this id is no.
    fn is_denied(&self, _id: &str) -> bool {
        false
    }

    /// Makes a call.
    ///
    /// # Errors
    /// Only to end the whole run.
    fn call(&self, intent: ToolIntent) -> BoxFuture<'_, Result<Called, Stop>>;

    fn questions(&self) -> &OpenQuestions;
}

/// The end of a call of a program.
pub(crate) enum Called {
    /// It has a result.
    Finished(CallResult),
    /// It waits for the answer of a person.
    Deferred(DeferredCall),
}
