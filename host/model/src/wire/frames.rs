//! Raw frames of an answer, for facts that the client library does not report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};

use crate::spec::Service;

/// A watcher of the raw frames of one answer.
///
/// The library ends an answer of Ollama or Gemini in the same way whether the provider ended it or the connection
/// broke, and it does not report an error that Ollama sends in the middle of an answer.
#[derive(Debug, Default)]
pub(crate) struct FrameWatcher {
    is_finished: AtomicBool,
    error: Mutex<Option<String>>,
}

impl FrameWatcher {
    /// Creates a watcher of one answer, and the sink through which the library feeds it.
    pub(crate) fn new(service: Service) -> (Arc<Self>, Arc<dyn ChatFrameSink>) {
        let frames = Arc::new(Self::default());
        let sink = Sink { service, frames: Arc::clone(&frames) };
        (frames, Arc::new(sink))
    }

    /// Returns whether the provider itself ended the answer.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }

    /// Returns the error that the provider sent in the middle of the answer, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Sink {
    service: Service,
    frames: Arc<FrameWatcher>,
}

impl ChatFrameSink for Sink {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let (word, path) = match self.service {
            // For these the library itself detects a missing end.
            Service::OpenAi | Service::Compatible | Service::Anthropic => return,
            Service::Gemini => ("finishReason", "/candidates/0/finishReason"),
            Service::Ollama => ("\"done\"", "/done"),
        };
        // Most frames are a word of text, and need no parsing.
        let is_relevant = frame.data.contains(word) || frame.data.contains("\"error\"");
        let Some(json) = is_relevant.then(|| frame.json()).flatten() else {
            return;
        };
        let ends = json.pointer(path).is_some_and(|end| end.as_bool().unwrap_or(!end.is_null()));
        if ends {
            self.frames.is_finished.store(true, Ordering::Relaxed);
        }
        if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
            let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            *self.frames.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}
