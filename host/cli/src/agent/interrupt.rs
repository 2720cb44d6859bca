//! Ctrl-C, and for a saved run SIGTERM: once to stop what is under way, twice to end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fumehood::agent::agent::CancelHandle;
use tokio::sync::Notify;

use crate::exit::Exit;
use crate::{render, signals};

/// A listener for Ctrl-C on a thread of its own, so that it takes effect whatever the loop is doing.
#[derive(Clone)]
pub(crate) struct Interrupts(Arc<Inner>);

/// The effect of a first interruption on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It ends as cancelled.
    Cancels,
    /// It stays under way in its saved session, for `--resume`.
    Suspends,
}

struct Inner {
    cancel: CancelHandle,
    effect: Interruption,
    /// Set while a run is under way.
    running: AtomicBool,
    /// Set once the run that is under way was interrupted, or the session ends: then nothing is left that could be
    /// stopped in order.
    pressed: AtomicBool,
    idle: Notify,
}

impl Interrupts {
    /// Starts to listen. Ctrl-C has this effect on the agent's run from now on.
    pub(crate) fn watch(cancel: CancelHandle, effect: Interruption) -> Self {
        let running = AtomicBool::new(false);
        let pressed = AtomicBool::new(false);
        let interrupts = Self(Arc::new(Inner { cancel, effect, running, pressed, idle: Notify::new() }));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let listener = interrupts.clone();
        let thread = std::thread::Builder::new().name("interrupts".to_owned());
        let started = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(listener.listen(&ready));
            }
        });
        // Waits until the signal is caught. Without a thread, Ctrl-C ends the process by its default.
        if started.is_ok() {
            let _ready_or_failed = is_ready.recv();
        }
        interrupts
    }

    async fn listen(&self, ready: &std::sync::mpsc::Sender<()>) {
        // SIGTERM ends other runs as it ends any program.
        let mut stop = match self.0.effect {
            Interruption::Suspends => signals::listen_for_stop().ok(),
            Interruption::Cancels => None,
        };
        loop {
            let mut pressed = std::pin::pin!(async {
                match &mut stop {
                    Some(stop) => {
                        stop.received().await;
                        Ok(())
                    }
                    None => tokio::signal::ctrl_c().await,
                }
            });
            // Polled once, because the signal is caught from the first poll on.
            let first = std::future::poll_fn(|cx| std::task::Poll::Ready(pressed.as_mut().poll(cx))).await;
            let _receiver_gone = ready.send(());
            let caught = match first {
                std::task::Poll::Ready(caught) => caught,
                std::task::Poll::Pending => pressed.await,
            };
            if caught.is_err() {
                return;
            }
            self.press();
        }
    }

    fn press(&self) {
        if !self.0.running.load(Ordering::Acquire) {
            self.0.idle.notify_one();
        } else if self.0.pressed.swap(true, Ordering::AcqRel) {
            render::note("");
            std::process::exit(Exit::Interrupted as i32);
        } else {
            match self.0.effect {
                Interruption::Cancels => self.0.cancel.cancel(),
                Interruption::Suspends => self.0.cancel.suspend(),
            }
        }
    }

    /// Marks the beginning of a run.
    pub(crate) fn begin(&self) {
        self.0.pressed.store(false, Ordering::Release);
        self.0.running.store(true, Ordering::Release);
    }

    /// Marks the end of the run.
    pub(crate) fn end(&self) {
        self.0.running.store(false, Ordering::Release);
    }

    /// Marks the end of the session. Only writing to disk is left, so the next Ctrl-C ends the process.
    pub(crate) fn leave(&self) {
        self.0.pressed.store(true, Ordering::Release);
        self.0.running.store(true, Ordering::Release);
    }

    /// Waits until Ctrl-C is pressed while nothing is under way.
    pub(crate) async fn idle(&self) {
        self.0.idle.notified().await;
    }
}
