//! Parts of results as they come, on a channel of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fumehood_core::record::{Record, RecordKind};
use serde_json::Value;
use tokio::sync::mpsc;

/// A part of a result, or the progress, of a call that runs. Both are as they may be recorded: of a tool that keeps its
/// results to itself there is the fraction alone.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialResult {
    /// The id of the session.
    pub session: String,
    /// The full name of the tool.
    pub tool: String,
    /// The id of the execution.
    pub execution: String,
    /// The id of the model's call.
    pub call: String,
    /// The completed fraction, from 0.0 to 1.0.
    pub fraction: Option<f64>,
    /// A description of the current activity.
    pub message: Option<String>,
    /// The parts of the result that are ready, each with its type.
    pub parts: Vec<Value>,
}

impl PartialResult {
    /// Reads a record; `None` if it is of another kind.
    pub(super) fn from_record(record: &Record) -> Option<Self> {
        if record.kind != RecordKind::ToolPartial {
            return None;
        }
        let text = |name: &str| record.body.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            session: record.session.clone(),
            tool: record.tool.clone().unwrap_or_default(),
            execution: record.call.clone().unwrap_or_default(),
            call: text("model_call").unwrap_or_default(),
            fraction: record.body.get("fraction").and_then(Value::as_f64),
            message: text("message"),
            parts: record.body.get("partial").and_then(Value::as_array).cloned().unwrap_or_default(),
        })
    }
}

/// The receiving end of [`Tap::partial_results`](super::Tap::partial_results).
#[derive(Debug)]
pub struct PartialResults {
    receiver: mpsc::Receiver<PartialResult>,
    lost: Arc<AtomicU64>,
}

impl PartialResults {
    /// Creates a channel with room for `capacity` parts, and at least one.
    pub(super) fn new(capacity: usize) -> (PartialSender, Self) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        (PartialSender { sender, lost: Arc::clone(&lost) }, Self { receiver, lost })
    }

    /// Waits for the next part. Returns `None` once the tap is dropped.
    pub async fn next(&mut self) -> Option<PartialResult> {
        self.receiver.recv().await
    }

    /// Returns the next part if there is one already.
    pub fn try_next(&mut self) -> Option<PartialResult> {
        self.receiver.try_recv().ok()
    }

    /// Returns the number of parts that were dropped because the channel was full.
    #[must_use]
    pub fn lost_parts(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The sending end. A part that does not fit is counted and dropped.
pub(super) struct PartialSender {
    sender: mpsc::Sender<PartialResult>,
    lost: Arc<AtomicU64>,
}

impl PartialSender {
    /// Sends the part of a result that a record has, if it has one.
    pub(super) fn send(&self, record: &Record) {
        let Some(part) = PartialResult::from_record(record) else { return };
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(part) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether nobody receives any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
