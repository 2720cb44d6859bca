//! The thread that writes lines of the log.
//!
//! Calls never wait for a reader: lines wait in a bounded queue, and further ones are lost and counted. While something
//! else owns the terminal, such as a question, lines are held back; progress bars are lifted for them.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use indicatif::{MultiProgress, WeakProgressBar};

use super::line::Line;
use crate::service_manager::Journal;

/// Maximum number of lines that wait to be written.
const MAX_WAITING_LINES: usize = 1024;
/// Maximum number of lines that are held back while something else owns the terminal.
const MAX_HELD_LINES: usize = 256;
/// Interval between two attempts to queue a request to flush.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// The place that lines are written to.
#[derive(Debug)]
pub(super) enum Destination {
    /// Standard error, as text for people.
    Pretty,
    /// Standard error, as JSON.
    Json,
    /// The journal of systemd.
    Journal(Journal),
}

/// The queue to the writer, which is started by the first line.
#[derive(Debug)]
pub(super) struct Output {
    destination: Mutex<Option<Destination>>,
    queue: OnceLock<Option<SyncSender<Message>>>,
    lost: AtomicU64,
}

enum Message {
    Line(Line),
    /// The terminal is free again.
    Released,
    Flush(SyncSender<()>),
}

impl Output {
    pub(super) const fn new(destination: Destination) -> Self {
        Self { destination: Mutex::new(Some(destination)), queue: OnceLock::new(), lost: AtomicU64::new(0) }
    }

    /// Queues a line. It is lost if too many wait.
    pub(super) fn write(&'static self, line: Line) {
        let Some(queue) = self.queue.get_or_init(|| self.start()) else { return };
        if let Err(TrySendError::Full(_)) = queue.try_send(Message::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all queued lines are written, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let Some(Some(queue)) = self.queue.get() else { return };
        let until = Instant::now() + limit;
        let (done, wait) = mpsc::sync_channel(1);
        while let Err(TrySendError::Full(_)) = queue.try_send(Message::Flush(done.clone())) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(FLUSH_INTERVAL);
        }
        let _too_late = wait.recv_timeout(until.saturating_duration_since(Instant::now()));
    }

    fn release(&self) {
        if let Some(Some(queue)) = self.queue.get() {
            // A full queue writes what is held with its next line.
            let _full = queue.try_send(Message::Released);
        }
    }

    /// Starts the thread; `None` if the system starts none.
    fn start(&'static self) -> Option<SyncSender<Message>> {
        let destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let (queue, messages) = mpsc::sync_channel(MAX_WAITING_LINES);
        let writer = Writer { destination, lost: &self.lost, held: Vec::new() };
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(&messages)).ok()?;
        Some(queue)
    }
}

struct Writer {
    destination: Destination,
    lost: &'static AtomicU64,
    held: Vec<Line>,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            match message {
                Message::Line(line) => self.take(line),
                Message::Released => self.write_held(),
                Message::Flush(done) => {
                    self.write_held();
                    let _nobody_waits = done.send(());
                }
            }
        }
    }

    /// Writes a line, or holds it back.
    fn take(&mut self, line: Line) {
        let terminal = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
        if terminal.holds == 0 {
            drop(terminal);
            self.write_held();
            self.write(&line);
        } else if self.held.len() < MAX_HELD_LINES {
            self.held.push(line);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write_held(&mut self) {
        for line in std::mem::take(&mut self.held) {
            self.write(&line);
        }
        match self.lost.swap(0, Ordering::Relaxed) {
            0 => {}
            count => self.write(&Line::lost(count, SystemTime::now())),
        }
    }

    fn write(&self, line: &Line) {
        // A failure cannot be reported.
        let _unreportable = match &self.destination {
            Destination::Journal(journal) => journal.send(&line.to_journal_entry()),
            Destination::Json => {
                let text = line.to_json();
                lift_bars(|| io::stderr().lock().write_all(format!("{text}\n").as_bytes()))
            }
            Destination::Pretty => {
                let text = line.to_pretty();
                lift_bars(|| writeln!(anstream::stderr().lock(), "{text}"))
            }
        };
    }
}

/// The use of the terminal that standard error may be.
struct Terminal {
    /// The number of those that nothing may be written next to.
    holds: usize,
    bars: Vec<WeakProgressBar>,
    many_bars: Vec<MultiProgress>,
}

static TERMINAL: Mutex<Terminal> = Mutex::new(Terminal { holds: 0, bars: Vec::new(), many_bars: Vec::new() });

/// Writes while no progress bar is drawn.
fn lift_bars<T>(write: impl FnOnce() -> T) -> T {
    let mut terminal = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
    terminal.bars.retain(|bar| bar.upgrade().is_some_and(|bar| !bar.is_finished()));
    if let Some(many_bars) = terminal.many_bars.last() {
        return many_bars.suspend(write);
    }
    match terminal.bars.last().and_then(WeakProgressBar::upgrade) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// A guard that holds back lines while something else owns the terminal.
#[derive(Debug)]
pub(crate) struct Hold(Option<&'static Output>);

impl Hold {
    pub(super) fn new(output: Option<&'static Output>) -> Self {
        let Some(output) = output.filter(|_| io::stderr().is_terminal()) else { return Self(None) };
        TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).holds += 1;
        Self(Some(output))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(output) = self.0 {
            TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).holds -= 1;
            output.release();
        }
    }
}

/// Lifts a progress bar for lines of the log, as long as it is drawn.
pub(crate) fn lift_bar(bar: &indicatif::ProgressBar) {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).bars.push(bar.downgrade());
}

/// Lifts these progress bars for lines of the log, until the process ends.
pub(crate) fn lift_many_bars(bars: &MultiProgress) {
    let mut terminal = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
    terminal.many_bars = vec![bars.clone()];
}
