//! The last stage of a dispatch: the result as the model sees it, and its record.

use std::borrow::Cow;

use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::record::RecordKind;
use fumehood_core::tool::Tool;
use serde_json::{Value, json};

use super::checks::AuthorizedCall;
use super::dispatch::{Dispatch, MAX_RAW_BYTES, status_of};
use super::skill_call::answer;
use crate::execution::Status;
use crate::memory::READ_RESULT;
use crate::registry::Purpose;
use crate::truncate::{MARKER, Room, SeenResult, describe_blob, image_type, truncate_result};
use fumehood_core::panic::catch_panic_sync;

impl Dispatch<'_> {
    /// Truncates the result to what the model sees, and records it as far as allowed.
    pub(super) async fn finalize(&mut self, authorized: &AuthorizedCall, result: CallResult) -> (Status, CallResult) {
        let max_bytes = authorized.policy.result_bytes.unwrap_or(usize::MAX);
        let status = if result.is_ok() { Status::Ok } else { Status::HandlerError };
        let kind = status_of(&result);
        let form = authorized.found.tool.result_form();
        let both = self.truncate(&authorized.found.tool, result, max_bytes);
        let seen = &both.seen;
        let result = both.whole();
        let recorded = describe_images(both.recorded());
        let redact = || self.persist.result(authorized.call.arguments(), result, &recorded);
        // If the redaction panics, nothing is recorded.
        let recorded =
            if self.config.recorder.is_enabled() { catch_panic_sync(redact).unwrap_or_default() } else { None };
        if let Some(recorded) = recorded {
            let body = || json!({"result": recorded, "truncated": seen.metadata.truncated});
            let _recorded = self.journal.record(RecordKind::ToolResult, Some(kind), body).await;
        }
        if result.is_ok() && authorized.found.purpose() == Purpose::Knowledge {
            let _recorded = self.journal.record(RecordKind::KnowledgeUsed, None, || Value::Null).await;
        }
        if self.batch.skill_call().is_some() && result.is_ok() {
            self.batch.set_answer(answer(result, authorized.found.is_of_pipeline()));
        }
        // A program gets all of it: what a model sees is the value that the program returns.
        (status, if self.batch.is_program() { both.into_value(form) } else { both.seen })
    }

    /// Returns the result as the model sees it, and keeps the rest of it to be read on.
    fn truncate(&self, tool: &Tool, result: CallResult, max_bytes: usize) -> SeenResult {
        let form = tool.result_form();
        // A program gets all of it, and a part of a result is no result of its own.
        let store =
            self.config.results.as_ref().filter(|_| !self.batch.is_program() && tool.full_name() != READ_RESULT);
        let room = Room { bytes: max_bytes, image_bytes: self.config.image_bytes };
        let Some(store) = store else { return SeenResult::new(result, form, room, MARKER) };
        let whole = truncate_result(&result, usize::MAX);
        store.add(&self.batch.scope.session, self.execution(), &whole.text().unwrap_or_default());
        let marker = format!("[truncated; {READ_RESULT} with the id \"{}\" reads all of it]", self.execution());
        SeenResult::new(result, form, room, &marker)
    }
}

/// Returns a result with descriptions in place of images, which the log does not hold.
fn describe_images(seen: &CallResult) -> Cow<'_, CallResult> {
    if !seen.error().map_or(seen.content(), CallError::content).iter().any(is_large_image) {
        return Cow::Borrowed(seen);
    }
    let mut described = seen.clone();
    let parts = match &mut described.outcome {
        Ok(parts) => parts.as_mut_slice(),
        Err(error) => error.details.as_mut().map(|details| details.content.as_mut_slice()).unwrap_or_default(),
    };
    for part in parts.iter_mut().filter(|part| is_large_image(part)) {
        *part = Content::text(describe_blob(part).unwrap_or_default());
    }
    Cow::Owned(described)
}

fn is_large_image(part: &Content) -> bool {
    match part {
        Content::Blob { mime_type, data } => {
            data.len() > MAX_RAW_BYTES && image_type(&mime_type.to_sanitized()).is_some()
        }
        _ => false,
    }
}
