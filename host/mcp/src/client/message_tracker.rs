//! The requests and notifications of one connection, followed message by message.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and servers of older revisions have it")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};

use tokio::sync::Notify;

use super::library::LibraryEvents;
use super::progress::{self, ProgressListener};
use crate::log_level::from_logging_level;

/// Maximum number of cancelled requests that are remembered, because they may still be answered.
const MAX_CANCELLED: usize = 256;

/// The state of a connection, derived from its messages.
pub(crate) struct MessageTracker {
    /// True if the server has sent `notifications/tools/list_changed`.
    changed: AtomicBool,
    /// Woken by the same notification.
    announcements: Arc<Notify>,
    /// True if the server has sent more unsolicited messages than allowed.
    flooded: AtomicBool,
    /// Number of answers to unknown requests since the last matching one.
    unmatched_answers: AtomicU32,
    requests: Mutex<PendingRequests>,
    events: Arc<LibraryEvents>,
}

struct PendingRequests {
    unsolicited: UnsolicitedLimit,
    open: HashMap<RequestId, OpenRequest>,
    cancelled: VecDeque<RequestId>,
    listeners: HashMap<ProgressToken, ProgressListener>,
    /// The open `server/discover` request, and its deadline.
    discovery: Option<(RequestId, tokio::time::Instant)>,
    discovery_timeout: Duration,
}

/// A request without an answer yet.
struct OpenRequest {
    token: Option<ProgressToken>,
    /// True for a list, which a server can bring about itself. It does not end the count of its unsolicited messages.
    is_list: bool,
}

impl MessageTracker {
    /// Creates the state of a connection. The server may send `max_unsolicited` unsolicited messages in a call or a
    /// minute, and may take `discovery_timeout` to answer `server/discover`: some servers that do not support it never
    /// answer. `announcements` is woken when the server reports that its tools have changed, and `events` are told of
    /// changes of resources and prompts.
    pub(crate) fn new(
        max_unsolicited: u32,
        discovery_timeout: Duration,
        events: Arc<LibraryEvents>,
        announcements: Arc<Notify>,
    ) -> Arc<Self> {
        let requests = PendingRequests {
            unsolicited: UnsolicitedLimit::new(max_unsolicited),
            open: HashMap::new(),
            cancelled: VecDeque::new(),
            listeners: HashMap::new(),
            discovery: None,
            discovery_timeout,
        };
        Arc::new(Self {
            changed: AtomicBool::new(false),
            announcements,
            flooded: AtomicBool::new(false),
            unmatched_answers: AtomicU32::new(0),
            requests: Mutex::new(requests),
            events,
        })
    }

    /// Returns whether the tools have changed since the last call of this method.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Notes again that the tools have changed, because they could not be listed.
    pub(crate) fn set_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// Returns the number of answers to unknown requests since the last matching one.
    pub(crate) fn unmatched_answers(&self) -> u32 {
        self.unmatched_answers.load(Ordering::Relaxed)
    }

    /// Removes a request whose answer is not awaited any more.
    pub(crate) fn forget(&self, id: &RequestId) {
        self.lock().close(id);
    }

    /// Waits until the server has left `server/discover` unanswered for the timeout, and returns an error in its place.
    ///
    /// Never completes while no such request is open. Dropping the future loses nothing.
    pub(crate) async fn refuse_late_discovery(&self) -> ServerJsonRpcMessage {
        loop {
            let discovery = self.lock().discovery.clone();
            let Some((id, deadline)) = discovery else {
                // Nothing is sent while this waits: sending and receiving take turns until the handshake is complete.
                return std::future::pending().await;
            };
            tokio::time::sleep_until(deadline).await;
            let mut requests = self.lock();
            if requests.open.contains_key(&id) {
                requests.cancel(&id);
                let why = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the server keeps silent", None);
                return JsonRpcMessage::error(why, Some(id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingRequests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record_sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => self.lock().record_request(&request.id, &request.request),
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.lock().cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    pub(crate) fn inspect_received(&self, message: &ServerJsonRpcMessage) -> Verdict {
        match message {
            JsonRpcMessage::Response(response) => self.inspect_answer(&response.id),
            JsonRpcMessage::Error(error) => {
                error.id.as_ref().map_or_else(|| self.admit_unsolicited(true), |id| self.inspect_answer(id))
            }
            JsonRpcMessage::Request(_) => self.admit_unsolicited(true),
            JsonRpcMessage::Notification(received) => self.inspect_notification(&received.notification),
        }
    }

    fn inspect_answer(&self, id: &RequestId) -> Verdict {
        let answered = self.lock().match_answer(id);
        match answered {
            AnswerKind::Open => {
                self.unmatched_answers.store(0, Ordering::Relaxed);
                Verdict::Pass
            }
            // rmcp would treat it as the end of a handshake that has not begun.
            AnswerKind::Late => Verdict::Drop,
            AnswerKind::Unmatched => {
                self.unmatched_answers.fetch_add(1, Ordering::Relaxed);
                self.admit_unsolicited(false)
            }
        }
    }

    fn inspect_notification(&self, notification: &ServerNotification) -> Verdict {
        let passes = match notification {
            ServerNotification::ProgressNotification(progress) => {
                let listener = self.lock().listeners.get(&progress.params.progress_token).cloned();
                if let Some(ProgressListener(observer)) = listener {
                    observer.progress(progress::from_notification(&progress.params));
                }
                false
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.changed.store(true, Ordering::Relaxed);
                self.announcements.notify_one();
                true
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.events.resources_changed();
                false
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.events.prompts_changed();
                false
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.events.updated(&updated.params.uri);
                false
            }
            ServerNotification::LoggingMessageNotification(message) => {
                let listener = self.lock().only_listener();
                if let Some(ProgressListener(observer)) = listener {
                    let line = progress::to_log_line(&message.params);
                    observer.log(from_logging_level(message.params.level), &line);
                }
                false
            }
            ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => true,
            _ => false,
        };
        self.admit_unsolicited(passes)
    }

    fn admit_unsolicited(&self, passes: bool) -> Verdict {
        if !self.lock().unsolicited.admit(Instant::now()) {
            self.flooded.store(true, Ordering::Relaxed);
            return Verdict::Flood;
        }
        if passes { Verdict::Pass } else { Verdict::Drop }
    }
}

impl PendingRequests {
    fn record_request(&mut self, id: &RequestId, request: &ClientRequest) {
        let is_list = matches!(request, ClientRequest::ListToolsRequest(_));
        if !is_list {
            self.unsolicited.reset();
        }
        let mut token = None;
        if let Some(listener) = request.extensions().get::<ProgressListener>() {
            token = request.get_meta().get_progress_token();
            self.listeners.extend(token.clone().map(|token| (token, listener.clone())));
        }
        if matches!(request, ClientRequest::DiscoverRequest(_)) {
            self.discovery = Some((id.clone(), tokio::time::Instant::now() + self.discovery_timeout));
        }
        self.open.insert(id.clone(), OpenRequest { token, is_list });
    }

    /// Returns the listener of the running call, if there is one only. Log lines name no call: one that might be about another
    /// client's call is nobody's.
    fn only_listener(&self) -> Option<ProgressListener> {
        let mut listeners = self.listeners.values();
        let only = listeners.next().cloned();
        only.filter(|_| listeners.next().is_none())
    }

    fn cancel(&mut self, id: &RequestId) {
        if self.close(id).is_some() {
            self.cancelled.push_back(id.clone());
            let surplus = self.cancelled.len().saturating_sub(MAX_CANCELLED);
            self.cancelled.drain(..surplus);
        }
    }

    /// Removes a request, and returns it if it was open.
    fn close(&mut self, id: &RequestId) -> Option<OpenRequest> {
        let request = self.open.remove(id)?;
        if let Some(token) = &request.token {
            self.listeners.remove(token);
        }
        if self.discovery.as_ref().is_some_and(|(discovery, _)| discovery == id) {
            self.discovery = None;
        }
        Some(request)
    }

    fn match_answer(&mut self, id: &RequestId) -> AnswerKind {
        // Some servers send a number back as a string.
        let number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        for id in [Some(id), number.as_ref()].into_iter().flatten() {
            if let Some(request) = self.close(id) {
                if !request.is_list {
                    self.unsolicited.reset();
                }
                return AnswerKind::Open;
            }
            if let Some(position) = self.cancelled.iter().position(|cancelled| cancelled == id) {
                self.cancelled.remove(position);
                return AnswerKind::Late;
            }
        }
        AnswerKind::Unmatched
    }
}

enum AnswerKind {
    Open,
    /// The answer to a cancelled request.
    Late,
    /// The answer to an unknown request.
    Unmatched,
}

pub(crate) enum Verdict {
    Pass,
    Drop,
    Flood,
}

/// The time after which the count starts again.
const WINDOW: Duration = Duration::from_secs(60);

/// A limit on unsolicited messages: notifications, requests, and answers to unknown requests.
#[derive(Debug)]
pub(crate) struct UnsolicitedLimit {
    max: u32,
    count: u32,
    since: Option<Instant>,
}

impl UnsolicitedLimit {
    /// Creates a limit of `max` messages for one call, and for one minute between calls.
    pub(crate) fn new(max: u32) -> Self {
        Self { max, count: 0, since: None }
    }

    /// Starts the count again, after a request or its answer.
    pub(crate) fn reset(&mut self) {
        (self.count, self.since) = (0, None);
    }

    /// Counts one message. Returns whether it is within the limit.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > WINDOW {
            (self.count, self.since) = (0, Some(now));
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_with_every_call_and_every_minute() {
        let (mut unsolicited, start) = (UnsolicitedLimit::new(2), Instant::now());
        let mut take = |seconds: u64| unsolicited.admit(start + Duration::from_secs(seconds));
        assert_eq!(
            [take(0), take(1), take(2), take(60), take(61), take(62), take(63)],
            [true, true, false, false, true, true, false]
        );
        unsolicited.reset();
        assert!(unsolicited.admit(start) && unsolicited.admit(start) && !unsolicited.admit(start));
    }
}
