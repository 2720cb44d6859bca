//! The result of a call, as JavaScript sees it.

use fumehood::CallResult;
use fumehood::settings::has_run;
use napi_derive::napi;

/// A result. Its texts are written when they are asked for.
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
    /// Returns whether any code of the tool ran.
    #[napi(getter)]
    pub fn ran(&self) -> bool {
        has_run(&self.0)
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

    /// Returns why the first text part, in a result without JSON parts, is not JSON, if it is not.
    #[napi]
    pub fn json_error(&self) -> Option<String> {
        self.0.json::<serde_json::Value>().err().map(|error| error.to_string())
    }

    /// Returns the result as one line of JSON, the same as that of `fumehood call --json`.
    #[napi]
    pub fn json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }
}
