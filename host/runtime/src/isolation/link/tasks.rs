//! Background tasks of a link: reading for parked callers, and sending what the socket did not accept at once.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::io::Interest;
use tokio::sync::Notify;

use super::{Link, lock};
use crate::socket::Wait;

/// A guard that counts a caller that left reading to the task.
pub(super) struct Parked<'l>(&'l Link);

impl<'l> Parked<'l> {
    pub(super) fn new(link: &'l Link) -> Self {
        link.parked.fetch_add(1, Ordering::SeqCst);
        link.wakeup.notify_one();
        Self(link)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reads for parked callers. The socket is watched only while there are any, because each message wakes this task.
pub(super) async fn read_for_parked_callers(link: Weak<Link>, wakeup: Arc<Notify>) {
    loop {
        wakeup.notified().await;
        let Some(strong) = link.upgrade() else { return };
        let Ok(watched) = strong.socket.watch() else {
            return strong.kill("cannot watch its socket");
        };
        drop(strong);
        // The link is not held while waiting, because dropping its last reference must end the worker.
        loop {
            let ready = tokio::select! {
                ready = watched.readable() => Some(ready),
                () = wakeup.notified() => None,
            };
            let Some(link) = link.upgrade() else { return };
            let has_more = match ready {
                Some(Ok(())) => {
                    // If nothing is left, `WouldBlock` makes the event loop wait for the next event.
                    let read = watched.try_io(Interest::READABLE, || {
                        if link.pump_if_free() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
                    });
                    read.is_ok()
                }
                Some(Err(_)) => return link.kill("cannot watch its socket"),
                // A caller that was reading has stopped, and may have left something.
                None => {
                    let has_more = link.pump_if_free();
                    if has_more {
                        // What is left makes no further event.
                        link.wakeup.notify_one();
                    }
                    has_more
                }
            };
            if link.death.get().is_some() {
                return;
            }
            if link.parked.load(Ordering::SeqCst) == 0 {
                break;
            }
            drop(link);
            if has_more {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends the frames that the socket did not accept at once.
pub(super) async fn flush(link: Arc<Link>) {
    let Ok(watched) = link.socket.watch() else {
        return link.kill("cannot watch its socket");
    };
    while link.death.get().is_none() {
        if watched.writable().await.is_err() {
            return link.kill("cannot watch its socket");
        }
        let mut unsent = lock(&link.unsent);
        while let Some(mut frame) = unsent.pop_front() {
            match link.socket.send(&frame, &[], Wait::Never) {
                Ok(sent) if sent == frame.len() => continue,
                Ok(sent) => unsent.push_front(frame.split_off(sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    unsent.push_front(frame);
                    let _full: io::Result<()> =
                        watched.try_io(Interest::WRITABLE, || Err(io::ErrorKind::WouldBlock.into()));
                    break;
                }
                Err(error) => {
                    drop(unsent);
                    return link.kill(&format!("it does not accept messages: {error}"));
                }
            }
        }
        if unsent.is_empty() {
            return;
        }
    }
}
