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

use super::call_client::CallClient;
use super::library::LibraryEvents;
use super::progress;
use crate::log_level::from_logging_level;

/// Maximum number of cancelled requests that are remembered, because they may still be answered.
const MAX_CANCELLED: usize = 256;
/// Time for which a server is taken to go on with a cancelled call, unless it answers that. Meanwhile, what names no call
/// may belong to it.
const CANCELLED_TIME: Duration = Duration::from_secs(60);
/// Time after which unsolicited messages are counted again from zero.
const UNSOLICITED_WINDOW: Duration = Duration::from_secs(60);

const NO_CALL: &str = "requests to the client are accepted only during a call, and no call is running";
const CALL_ENDED: &str = "the call that this request belongs to has ended";
const SEVERAL_CLIENTS: &str = "calls of several clients are running, so it is unknown which of them sent this \
                               request; connect over HTTP, or try again";
const CANCELLED_CALL: &str = "a cancelled call of another client was not answered, so it is unknown which call sent \
                              this request; answer cancelled calls, connect over HTTP, or try again";

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
    cancelled: VecDeque<CancelledRequest>,
    /// The open requests with these tokens.
    tokens: HashMap<ProgressToken, RequestId>,
    /// The open `server/discover` request, and its deadline.
    discovery: Option<(RequestId, tokio::time::Instant)>,
    discovery_timeout: Duration,
}

/// A request without an answer yet.
struct OpenRequest {
    token: Option<ProgressToken>,
    /// True for a list, which a server can bring about itself. It does not end the count of its unsolicited messages.
    is_list: bool,
    /// The client of the call that it belongs to, if it belongs to one.
    client: Option<CallClient>,
}

/// A request that was cancelled, and may still be answered.
struct CancelledRequest {
    id: RequestId,
    at: Instant,
    /// True if it belonged to a call.
    is_call: bool,
    /// The session of that call, if it has one.
    session: Option<u64>,
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
            tokens: HashMap::new(),
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

    /// Returns the client that a request of the server is for: that of the call `origin`, if the transport knows it, or the
    /// only one with calls under way.
    ///
    /// # Errors
    /// A sentence, if no call is under way, or more than one client may be meant.
    pub(crate) fn client_of(&self, origin: Option<&RequestId>) -> Result<CallClient, &'static str> {
        self.lock().client_of(origin, Instant::now())
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
                let why = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the server does not answer", None);
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

    /// Gives an error without an id that of the only request which it can answer.
    pub(crate) fn address_error(&self, message: &mut ServerJsonRpcMessage) {
        if let JsonRpcMessage::Error(error) = message
            && error.id.is_none()
        {
            error.id = self.lock().only_request(Instant::now());
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
                let client = self.lock().client_with_token(&progress.params.progress_token);
                if let Some(client) = client {
                    client.observer().progress(progress::from_notification(&progress.params));
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
                let client = self.lock().only_client(Instant::now());
                if let Some(client) = client {
                    let line = progress::to_log_line(&message.params);
                    client.observer().log(from_logging_level(message.params.level), &line);
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
        let client = request.extensions().get::<CallClient>().cloned();
        let token = client.as_ref().and_then(|_| request.get_meta().get_progress_token());
        self.tokens.extend(token.clone().map(|token| (token, id.clone())));
        if matches!(request, ClientRequest::DiscoverRequest(_)) {
            self.discovery = Some((id.clone(), tokio::time::Instant::now() + self.discovery_timeout));
        }
        self.open.insert(id.clone(), OpenRequest { token, is_list, client });
    }

    /// Returns the clients of the open requests.
    fn clients(&self) -> impl Iterator<Item = &CallClient> {
        self.open.values().filter_map(|request| request.client.as_ref())
    }

    fn client_with_token(&self, token: &ProgressToken) -> Option<CallClient> {
        self.open.get(self.tokens.get(token)?)?.client.clone()
    }

    /// See [`MessageTracker::client_of`].
    fn client_of(&self, origin: Option<&RequestId>, now: Instant) -> Result<CallClient, &'static str> {
        if let Some(origin) = origin {
            return self.open.get(origin).and_then(|request| request.client.clone()).ok_or(CALL_ENDED);
        }
        let mut clients = self.clients();
        let first = clients.next().ok_or(NO_CALL)?;
        if clients.any(|client| client.session() != first.session()) {
            return Err(SEVERAL_CLIENTS);
        }
        if self.may_go_on_for_another(first, now) { Err(CANCELLED_CALL) } else { Ok(first.clone()) }
    }

    /// Returns the client of the running call, if there is one only. Log lines name no call: one that might be about another
    /// client's call is nobody's.
    fn only_client(&self, now: Instant) -> Option<CallClient> {
        let mut clients = self.clients();
        let only = clients.next()?;
        let is_alone = clients.next().is_none() && !self.may_go_on_for_another(only, now);
        is_alone.then(|| only.clone())
    }

    /// Returns the open request, if there is one only, and none was cancelled that may still be answered.
    fn only_request(&self, now: Instant) -> Option<RequestId> {
        let mut open = self.open.keys();
        let only = open.next().filter(|_| open.len() == 0)?;
        let is_recent = |request: &CancelledRequest| now.saturating_duration_since(request.at) < CANCELLED_TIME;
        (!self.cancelled.iter().any(is_recent)).then(|| only.clone())
    }

    /// Returns whether the server may still be busy with a cancelled call of another client than this one.
    fn may_go_on_for_another(&self, client: &CallClient, now: Instant) -> bool {
        let is_recent = |request: &&CancelledRequest| now.saturating_duration_since(request.at) < CANCELLED_TIME;
        let mut cancelled = self.cancelled.iter().filter(is_recent).filter(|request| request.is_call);
        // Of two clients without a session, nobody knows whether they are one.
        cancelled.any(|other| other.session.is_none() || other.session != client.session())
    }

    fn cancel(&mut self, id: &RequestId) {
        if let Some(OpenRequest { client, .. }) = self.close(id) {
            let session = client.as_ref().and_then(CallClient::session);
            self.cancelled.push_back(CancelledRequest {
                id: id.clone(),
                at: Instant::now(),
                is_call: client.is_some(),
                session,
            });
            let surplus = self.cancelled.len().saturating_sub(MAX_CANCELLED);
            self.cancelled.drain(..surplus);
        }
    }

    /// Removes a request, and returns it if it was open.
    fn close(&mut self, id: &RequestId) -> Option<OpenRequest> {
        let request = self.open.remove(id)?;
        if let Some(token) = &request.token {
            self.tokens.remove(token);
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
            if let Some(position) = self.cancelled.iter().position(|cancelled| cancelled.id == *id) {
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

/// A limit on unsolicited messages: notifications, requests, and answers to unknown requests.
#[derive(Debug)]
struct UnsolicitedLimit {
    max: u32,
    count: u32,
    since: Option<Instant>,
}

impl UnsolicitedLimit {
    /// Creates a limit of `max` messages for one call, and for one minute between calls.
    fn new(max: u32) -> Self {
        Self { max, count: 0, since: None }
    }

    /// Starts the count again, after a request or its answer.
    fn reset(&mut self) {
        (self.count, self.since) = (0, None);
    }

    /// Counts one message. Returns whether it is within the limit.
    fn admit(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > UNSOLICITED_WINDOW {
            (self.count, self.since) = (0, Some(now));
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.max
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::boxed::BoxFuture;
    use fumehood_core::call::client_requests::{ClientRequestKind, ClientRequests};
    use serde_json::{Value, json};

    use super::*;
    use crate::client::call_clock::CallClock;

    struct Session(u64);

    impl ClientRequests for Session {
        fn session(&self) -> u64 {
            self.0
        }

        fn send(&self, _kind: ClientRequestKind, params: Value) -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(std::future::ready(Ok(params)))
        }
    }

    fn tracker() -> Arc<MessageTracker> {
        MessageTracker::new(100, Duration::from_secs(1), Arc::default(), Arc::default())
    }

    /// Sends a call of the client of a session, or of one that cannot be asked.
    fn send_call(tracker: &MessageTracker, id: i64, session: Option<u64>) {
        let clock = CallClock::start(Duration::from_secs(60), Duration::from_secs(60));
        let requests = session.map(|session| Arc::new(Session(session)) as Arc<dyn ClientRequests>);
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "a"}});
        let mut message: ClientJsonRpcMessage = serde_json::from_value(call).unwrap();
        let JsonRpcMessage::Request(call) = &mut message else { panic!("{message:?}") };
        call.request.extensions_mut().insert(CallClient::new(&clock, None, requests));
        tracker.record_sent(&message);
    }

    fn cancel(tracker: &MessageTracker, id: i64) {
        let params = json!({"requestId": id});
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        tracker.record_sent(&serde_json::from_value(cancelled).unwrap());
    }

    fn answer(tracker: &MessageTracker, id: i64) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
        tracker.inspect_received(&serde_json::from_value(answer).unwrap());
    }

    fn session_of(tracker: &MessageTracker, origin: Option<i64>, later: Duration) -> Result<Option<u64>, &'static str> {
        let origin = origin.map(RequestId::Number);
        tracker.lock().client_of(origin.as_ref(), Instant::now() + later).map(|client| client.session())
    }

    const NOW: Duration = Duration::ZERO;

    fn address(tracker: &MessageTracker, id: Value) -> Option<i64> {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no"}});
        let mut error: ServerJsonRpcMessage = serde_json::from_value(error).unwrap();
        tracker.address_error(&mut error);
        serde_json::to_value(error).unwrap()["id"].as_i64()
    }

    #[tokio::test]
    async fn an_error_without_an_id_is_that_of_the_only_request() {
        let tracker = tracker();
        assert_eq!(address(&tracker, Value::Null), None);
        send_call(&tracker, 1, None);
        assert_eq!(address(&tracker, Value::Null), Some(1));
        assert_eq!(address(&tracker, json!(7)), Some(7));
        send_call(&tracker, 2, None);
        assert_eq!(address(&tracker, Value::Null), None, "it may be that of either");
        cancel(&tracker, 2);
        assert_eq!(address(&tracker, Value::Null), None, "it may be that of the cancelled one");
    }

    #[tokio::test]
    async fn a_request_reaches_the_call_that_it_names_or_the_only_session() {
        let tracker = tracker();
        assert_eq!(session_of(&tracker, None, NOW), Err(NO_CALL));
        send_call(&tracker, 1, Some(10));
        send_call(&tracker, 2, Some(10));
        assert_eq!(session_of(&tracker, None, NOW), Ok(Some(10)));
        send_call(&tracker, 3, Some(11));
        assert_eq!(session_of(&tracker, None, NOW), Err(SEVERAL_CLIENTS));
        assert_eq!(session_of(&tracker, Some(3), NOW), Ok(Some(11)));
        answer(&tracker, 3);
        assert_eq!(session_of(&tracker, Some(3), NOW), Err(CALL_ENDED), "it never goes to another session");
        assert_eq!(session_of(&tracker, None, NOW), Ok(Some(10)));
    }

    fn has_listener(tracker: &MessageTracker, later: Duration) -> bool {
        tracker.lock().only_client(Instant::now() + later).is_some()
    }

    #[tokio::test]
    async fn a_cancelled_call_of_another_session_may_still_ask_and_log() {
        for (cancelled, next, is_known) in
            [(Some(10), Some(11), false), (None, Some(11), false), (None, None, false), (Some(10), Some(10), true)]
        {
            let tracker = tracker();
            send_call(&tracker, 1, cancelled);
            cancel(&tracker, 1);
            send_call(&tracker, 2, next);
            let expected = if is_known { Ok(next) } else { Err(CANCELLED_CALL) };
            assert_eq!(session_of(&tracker, None, NOW), expected, "{cancelled:?}, {next:?}");
            assert_eq!(has_listener(&tracker, NOW), is_known);
            assert_eq!(session_of(&tracker, Some(2), NOW), Ok(next), "one that names its call is known");
            assert_eq!(session_of(&tracker, None, CANCELLED_TIME), Ok(next), "but not for ever");
            assert!(has_listener(&tracker, CANCELLED_TIME));
            answer(&tracker, 1);
            assert_eq!(session_of(&tracker, None, NOW), Ok(next), "nor once it is answered");
            assert!(has_listener(&tracker, NOW));
        }
    }

    #[test]
    fn resets_with_every_call_and_every_minute() {
        let mut unsolicited = UnsolicitedLimit::new(2);
        let start = Instant::now();
        let mut take = |seconds: u64| unsolicited.admit(start + Duration::from_secs(seconds));
        assert_eq!(
            [take(0), take(1), take(2), take(60), take(61), take(62), take(63)],
            [true, true, false, false, true, true, false]
        );
        unsolicited.reset();
        assert!(unsolicited.admit(start) && unsolicited.admit(start) && !unsolicited.admit(start));
    }
}
