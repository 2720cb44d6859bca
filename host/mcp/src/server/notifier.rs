//! The news of one call as messages to the client.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and clients of older revisions have it")]

use fumehood_core::event::Level;
use fumehood_core::untrusted::PrintableText;
use rmcp::model::{LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::Value;

use super::log_level;
use super::news::{News, Outbox, Pace};

/// Whom the news of one call goes to.
pub(crate) struct Notifier<'a> {
    pub(crate) peer: &'a Peer<RoleServer>,
    pub(crate) token: Option<ProgressToken>,
    /// The tool, as the client knows it.
    pub(crate) tool: &'a str,
}

impl Notifier<'_> {
    /// Tells everything, until the call has ended and nothing is left.
    pub(crate) async fn all(&self, outbox: &Outbox) {
        let mut pace = Pace::new();
        while let Some(news) = outbox.next(&mut pace).await {
            self.tell(news).await;
        }
    }

    /// A client that is gone is told nothing; its calls end by themselves.
    async fn tell(&self, news: News) {
        match news {
            News::Progress { done, total, message } => {
                let Some(token) = self.token.clone() else { return };
                let mut report = ProgressNotificationParam::new(token, done);
                report.total = total;
                report.message = message.map(String::from);
                let _gone = self.peer.notify_progress(report).await;
            }
            News::Log(level, line) => self.log(level, line).await,
            News::Dropped(lines) => self.log(Level::Warn, format!("{lines} log lines were dropped").into()).await,
        }
    }

    async fn log(&self, level: Level, line: PrintableText) {
        let line = LoggingMessageNotificationParam::new(log_level::name(level), Value::String(line.into()))
            .with_logger(self.tool);
        let _gone = self.peer.notify_logging_message(line).await;
    }
}
