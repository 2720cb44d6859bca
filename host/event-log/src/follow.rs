//! New records, as they come.

use std::thread;
use std::time::{Duration, Instant};

use crate::filter::{Filter, Order};
use crate::reader::{ReadError, Reader};
use crate::row::Stored;

/// How often the database is looked at: one step in its index, if there is nothing new.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Follows a log, whichever process writes it.
pub struct Follow {
    reader: Reader,
    filter: Filter,
}

impl Reader {
    /// Follows the records that fit a filter and come after its `after_seq`; if that is not set, from the first on.
    /// Its order does not matter, and its limit is that of one turn.
    #[must_use]
    pub fn follow(&self, filter: Filter) -> Follow {
        Follow { reader: self.clone(), filter: Filter { order: Order::Ascending, ..filter } }
    }
}

impl Follow {
    /// Blocks until there are new records, and returns them in order; none if there are none within `timeout`.
    ///
    /// # Errors
    /// The database cannot be read, or a row holds no record. The next turn tries the same again.
    pub fn next(&mut self, timeout: Duration) -> Result<Vec<Stored>, ReadError> {
        let started = Instant::now();
        loop {
            let found = self.reader.query(&self.filter)?;
            if let Some(last) = found.last() {
                self.filter.after_seq = Some(last.seq);
                return Ok(found);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(found);
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }
}
