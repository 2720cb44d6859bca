//! The result of a call, as JavaScript sees it.

use fumehood::CallResult;
use napi_derive::napi;

/// A result. Its JSON is written when it is asked for.
#[napi]
#[derive(Debug)]
pub struct NativeResult(CallResult);

impl From<CallResult> for NativeResult {
    fn from(result: CallResult) -> Self {
        Self(result)
    }
}

#[napi]
impl NativeResult {
    /// Returns whether the call succeeded.
    #[napi(getter)]
    pub fn ok(&self) -> bool {
        self.0.is_ok()
    }

    /// Returns the first text or JSON part for a model, with hidden characters escaped.
    #[napi(getter)]
    pub fn text(&self) -> Option<String> {
        self.0.text().map(|text| text.into_owned())
    }

    /// Returns all that a model should read: each part as text with hidden characters escaped, or the error.
    #[napi(getter)]
    pub fn model_text(&self) -> String {
        fumehood::model_text(&self.0)
    }

    /// Returns the result as one line of JSON, the same as that of `fumehood call --json`.
    #[napi]
    pub fn json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }
}
