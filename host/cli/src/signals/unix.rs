//! Signals of POSIX.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The number of SIGXFSZ, the same on every system that this is built for.
const FILE_SIZE_LIMIT: i32 = 25;

pub(super) fn survive_file_size_limit() {
    // The handler stays after the listener is dropped. If it cannot be installed, the signal ends the process as
    // before.
    let _listener = signal(SignalKind::from_raw(FILE_SIZE_LIMIT));
}

/// A listener for the signals that ask this process to end.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A listener for the signal that asks for the configuration to be read again.
#[derive(Debug)]
pub(crate) struct Hangup(Signal);

impl Hangup {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for it.
    pub(crate) async fn received(&mut self) {
        self.0.recv().await;
    }
}

/// A listener for all signals that are passed on to a program.
#[derive(Debug)]
pub(crate) struct AllSignals(UnboundedReceiver<i32>);

impl AllSignals {
    pub(super) fn listen() -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::window_change(),
        ];
        for kind in kinds {
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(
                async move { while signals.recv().await.is_some() && sender.send(kind.as_raw_value()).is_ok() {} },
            );
        }
        Ok(Self(receiver))
    }

    /// Waits for one of them, and returns its number.
    pub(crate) async fn received(&mut self) -> i32 {
        match self.0.recv().await {
            Some(number) => number,
            None => std::future::pending().await,
        }
    }
}
