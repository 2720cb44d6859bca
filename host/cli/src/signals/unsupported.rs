//! Systems that have Ctrl-C and no other signal.

use std::io;

pub(super) fn survive_file_size_limit() {}

/// A listener for Ctrl-C.
#[derive(Debug)]
pub(crate) struct Stop;

impl Stop {
    #[expect(clippy::unnecessary_wraps, reason = "the handlers of other systems may fail")]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for it.
    pub(crate) async fn received(&mut self) {
        let _unheard = tokio::signal::ctrl_c().await;
    }
}

/// A listener for nothing.
#[derive(Debug)]
pub(crate) struct Hangup;

impl Hangup {
    #[expect(clippy::unnecessary_wraps, reason = "the handlers of other systems may fail")]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never returns.
    pub(crate) async fn received(&mut self) {
        std::future::pending().await
    }
}

/// A listener for nothing.
#[derive(Debug)]
pub(crate) struct AllSignals;

impl AllSignals {
    #[expect(clippy::unnecessary_wraps, reason = "the handlers of other systems may fail")]
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never returns.
    pub(crate) async fn received(&mut self) -> i32 {
        std::future::pending().await
    }
}
