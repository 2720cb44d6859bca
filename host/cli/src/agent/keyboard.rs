//! What is typed on standard input, line by line, without holding up anything else.

use std::io::{BufRead as _, Read as _};

use tokio::sync::{Mutex, mpsc};

/// A longer line is taken for several.
const LONGEST: u64 = 1 << 20;

/// Lines of standard input. Nothing is read before the first is asked for.
pub(crate) struct Keyboard {
    lines: Mutex<Option<mpsc::Receiver<String>>>,
}

impl Keyboard {
    pub(crate) fn new() -> Self {
        Self { lines: Mutex::new(None) }
    }

    /// The next line, without its end; `None` once there are no more.
    pub(crate) async fn line(&self) -> Option<String> {
        let mut lines = self.lines.lock().await;
        lines.get_or_insert_with(start).recv().await
    }
}

/// A thread of its own, because reading cannot be cancelled and must not keep the process from ending.
fn start() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    let reading = std::thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = stdin.by_ref().take(LONGEST).read_until(b'\n', &mut line);
            if !read.is_ok_and(|bytes| bytes > 0) {
                return;
            }
            let text = String::from_utf8_lossy(&line);
            if sender.blocking_send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
        }
    });
    // Without a thread the sender is gone, which is the same as the end of the input.
    drop(reading);
    lines
}
