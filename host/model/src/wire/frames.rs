//! What went over the wire, for what the client library does not tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};

use crate::spec::Service;

/// Sees every frame of one answer.
///
/// The library ends an answer of Ollama or Gemini in the same way whether the provider ended it or the connection did,
/// and does not show an error that Ollama writes in the middle of an answer.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    ended: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Frames {
    /// Watches one answer; the other half is for the library.
    pub(crate) fn watch(service: Service) -> (Arc<Self>, Arc<dyn ChatFrameSink>) {
        let frames = Arc::new(Self::default());
        let sink = Sink { service, frames: Arc::clone(&frames) };
        (frames, Arc::new(sink))
    }

    /// Whether the provider itself ended the answer.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// What the provider said was wrong in the middle of the answer.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Sink {
    service: Service,
    frames: Arc<Frames>,
}

impl ChatFrameSink for Sink {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let (word, path) = match self.service {
            // The library itself misses the end of these two.
            Service::OpenAi | Service::Compatible | Service::Anthropic => return,
            Service::Gemini => ("finishReason", "/candidates/0/finishReason"),
            Service::Ollama => ("\"done\"", "/done"),
        };
        // Most frames are a word of text: look before parsing.
        let may_tell = frame.data.contains(word) || frame.data.contains("\"error\"");
        let Some(json) = may_tell.then(|| frame.json()).flatten() else {
            return;
        };
        let ends = json.pointer(path).is_some_and(|end| end.as_bool().unwrap_or(!end.is_null()));
        if ends {
            self.frames.ended.store(true, Ordering::Relaxed);
        }
        if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
            let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            *self.frames.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }
}
