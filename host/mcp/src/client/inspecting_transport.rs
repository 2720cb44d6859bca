//! A transport of which every message is looked at before the protocol's library sees it.
//!
//! Here progress finds its call, in order and without a task for each report; here a server that says far more than it was
//! asked for is cut off; and here a server that does not know the newest revision is answered for, if it keeps silent.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::event::Progress;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use super::allowance::Allowance;
use super::report;

/// Questions that were taken back and may still be answered.
const TAKEN_BACK: usize = 256;

/// Told of the progress of one call. Must not block.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Goes with a request through the library, so that its progress can be told.
#[derive(Clone)]
pub(crate) struct Listener(pub(crate) OnProgress);

/// What is known of a connection from its messages.
pub(crate) struct News {
    /// Whether the server said that its tools changed.
    changed: AtomicBool,
    /// Whether it said far more than it was asked for.
    flooded: AtomicBool,
    /// Answers to questions that nobody asked, since the last good one.
    strays: AtomicU32,
    asked: Mutex<PendingRequests>,
}

struct PendingRequests {
    allowance: Allowance,
    open: HashMap<RequestId, Option<ProgressToken>>,
    taken_back: VecDeque<RequestId>,
    listeners: HashMap<ProgressToken, Listener>,
    /// The question whether it knows the newest revision, and until when that is waited for.
    discovery: Option<(RequestId, tokio::time::Instant)>,
    think: Duration,
}

impl News {
    /// Of a connection whose server may say `most` messages that nobody asked for, in a call or a minute, and may think
    /// for `think` about whether it knows the newest revision: some of those that do not never answer.
    pub(crate) fn new(most: u32, think: Duration) -> Arc<Self> {
        let asked = PendingRequests {
            allowance: Allowance::new(most),
            open: HashMap::new(),
            taken_back: VecDeque::new(),
            listeners: HashMap::new(),
            discovery: None,
            think,
        };
        Arc::new(Self {
            changed: AtomicBool::new(false),
            flooded: AtomicBool::new(false),
            strays: AtomicU32::new(0),
            asked: Mutex::new(asked),
        })
    }

    /// Whether the server said that its tools changed, since this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn was_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// Answers to questions that nobody asked, since the last good one.
    pub(crate) fn strays(&self) -> u32 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Nobody waits for the answer to this request any more.
    pub(crate) fn ended(&self, id: &RequestId) {
        self.lock().close(id);
    }

    fn lock(&self) -> MutexGuard<'_, PendingRequests> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => self.lock().asks(&request.id, &request.request),
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.lock().takes_back(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    fn came(&self, message: &ServerJsonRpcMessage) -> Verdict {
        match message {
            JsonRpcMessage::Response(response) => self.answered(&response.id),
            JsonRpcMessage::Error(error) => {
                error.id.as_ref().map_or_else(|| self.unasked(true), |id| self.answered(id))
            }
            JsonRpcMessage::Request(_) => self.unasked(true),
            JsonRpcMessage::Notification(told) => self.told(&told.notification),
        }
    }

    fn answered(&self, id: &RequestId) -> Verdict {
        let answered = self.lock().is_answered(id);
        match answered {
            Answered::Open => {
                self.strays.store(0, Ordering::Relaxed);
                Verdict::Pass
            }
            // The library would take it for the end of a handshake that has not begun.
            Answered::Late => Verdict::Drop,
            Answered::Stray => {
                self.strays.fetch_add(1, Ordering::Relaxed);
                self.unasked(false)
            }
        }
    }

    fn told(&self, notification: &ServerNotification) -> Verdict {
        let passes = match notification {
            ServerNotification::ProgressNotification(told) => {
                let listener = self.lock().listeners.get(&told.params.progress_token).cloned();
                if let Some(Listener(tell)) = listener {
                    tell(report::progress(&told.params));
                }
                false
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.changed.store(true, Ordering::Relaxed);
                true
            }
            ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_) => true,
            _ => false,
        };
        self.unasked(passes)
    }

    fn unasked(&self, passes: bool) -> Verdict {
        if !self.lock().allowance.take(Instant::now()) {
            self.flooded.store(true, Ordering::Relaxed);
            return Verdict::Flood;
        }
        if passes { Verdict::Pass } else { Verdict::Drop }
    }
}

impl PendingRequests {
    fn asks(&mut self, id: &RequestId, request: &ClientRequest) {
        self.allowance.renew();
        let mut token = None;
        match request {
            ClientRequest::CallToolRequest(call) => {
                if let Some(listener) = call.extensions().get::<Listener>() {
                    token = request.get_meta().get_progress_token();
                    self.listeners.extend(token.clone().map(|token| (token, listener.clone())));
                }
            }
            ClientRequest::DiscoverRequest(_) => {
                self.discovery = Some((id.clone(), tokio::time::Instant::now() + self.think));
            }
            _ => {}
        }
        self.open.insert(id.clone(), token);
    }

    fn takes_back(&mut self, id: &RequestId) {
        if self.close(id) {
            self.taken_back.push_back(id.clone());
            let surplus = self.taken_back.len().saturating_sub(TAKEN_BACK);
            self.taken_back.drain(..surplus);
        }
    }

    fn close(&mut self, id: &RequestId) -> bool {
        let Some(token) = self.open.remove(id) else { return false };
        if let Some(token) = token {
            self.listeners.remove(&token);
        }
        if self.discovery.as_ref().is_some_and(|(asked, _)| asked == id) {
            self.discovery = None;
        }
        true
    }

    fn is_answered(&mut self, id: &RequestId) -> Answered {
        // Some servers send a number back as a text.
        let number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        for id in [Some(id), number.as_ref()].into_iter().flatten() {
            if self.close(id) {
                self.allowance.renew();
                return Answered::Open;
            }
            if let Some(position) = self.taken_back.iter().position(|taken| taken == id) {
                self.taken_back.remove(position);
                return Answered::Late;
            }
        }
        Answered::Stray
    }
}

enum Answered {
    Open,
    /// The question was taken back.
    Late,
    /// Nobody asked.
    Stray,
}

enum Verdict {
    Pass,
    Drop,
    Flood,
}

/// A transport whose messages are looked at.
pub(crate) struct InspectingTransport<T> {
    inner: T,
    news: Arc<News>,
    /// Cancelled when the server is cut off.
    closed: CancellationToken,
}

impl<T> InspectingTransport<T> {
    pub(crate) fn new(inner: T, news: Arc<News>, closed: CancellationToken) -> Self {
        Self { inner, news, closed }
    }

    /// Waits until a server has thought long enough about the newest revision.
    async fn silence(news: &News) -> ServerJsonRpcMessage {
        loop {
            let waiting = news.lock().discovery.clone();
            let Some((id, until)) = waiting else {
                // Nothing is asked while this waits: asking and receiving take turns until hands are shaken.
                return std::future::pending().await;
            };
            tokio::time::sleep_until(until).await;
            let mut asked = news.lock();
            if asked.open.contains_key(&id) {
                asked.takes_back(&id);
                let why = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the server keeps silent", None);
                return JsonRpcMessage::error(why, Some(id));
            }
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InspectingTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        "the connection".into()
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.news.sent(&message);
        self.inner.send(message)
    }

    /// May be dropped at any point and called again, if that of the transport below may.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = tokio::select! {
                biased;
                message = self.inner.receive() => message?,
                silence = Self::silence(&self.news) => return Some(silence),
            };
            match self.news.came(&message) {
                Verdict::Pass => return Some(message),
                Verdict::Drop => {}
                Verdict::Flood => {
                    self.closed.cancel();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
