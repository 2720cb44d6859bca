//! A bound on lines from one place of the code, so that a client that fails again and again cannot fill a disk.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Time over which lines are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of warnings and errors from one place in a period.
const MAX_FAULTS: u32 = 30;
/// Maximum number of other lines from one place in a period. A start with hundreds of tools has a line for each.
const MAX_CHANGES: u32 = 1000;

/// The lines of each place of the code. There are as many places as the program has events.
#[derive(Debug, Default)]
pub(super) struct Repeats(Mutex<HashMap<Identifier, Counted>>);

#[derive(Debug)]
struct Counted {
    since: Instant,
    lines: u32,
    suppressed: u64,
}

impl Repeats {
    /// Counts a line at this time. Returns the number of suppressed lines before it, or `None` if it is suppressed, too.
    pub(super) fn admit(&self, metadata: &Metadata<'_>, now: Instant) -> Option<u64> {
        let max_lines = match *metadata.level() {
            Level::ERROR | Level::WARN => MAX_FAULTS,
            Level::INFO => MAX_CHANGES,
            // Whoever asked for these wants all of them.
            _ => return Some(0),
        };
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = places.entry(metadata.callsite()).or_insert(Counted { since: now, lines: 0, suppressed: 0 });
        if now.saturating_duration_since(counted.since) >= PERIOD {
            counted.since = now;
            counted.lines = 0;
        }
        if counted.lines >= max_lines {
            counted.suppressed = counted.suppressed.saturating_add(1);
            return None;
        }
        counted.lines = counted.lines.saturating_add(1);
        Some(std::mem::take(&mut counted.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    /// A layer that keeps what is admitted at its time.
    struct Admitted {
        repeats: Repeats,
        now: Arc<Mutex<Instant>>,
        found: Arc<Mutex<Vec<Option<u64>>>>,
    }

    impl<S: Subscriber> Layer<S> for Admitted {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let found = self.repeats.admit(event.metadata(), *self.now.lock().unwrap());
            self.found.lock().unwrap().push(found);
        }
    }

    #[test]
    fn faults_of_one_place_are_bounded_and_counted() {
        let now = Arc::new(Mutex::new(Instant::now()));
        let found = Arc::<Mutex<Vec<_>>>::default();
        let layer = Admitted { repeats: Repeats::default(), now: Arc::clone(&now), found: Arc::clone(&found) };
        let fail = || tracing::warn!("it failed");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            (0..MAX_FAULTS + 5).for_each(|_| fail());
            // Another place has lines of its own, and details are wanted as a whole.
            tracing::error!("something else failed");
            (0..MAX_FAULTS + 5).for_each(|_| tracing::debug!("a detail"));
            *now.lock().unwrap() += PERIOD;
            fail();
            fail();
        });
        let found = found.lock().unwrap();
        let faults = MAX_FAULTS as usize;
        assert!(found[..faults].iter().all(|found| *found == Some(0)));
        assert_eq!(found[faults..faults + 5], [None; 5]);
        assert!(found[faults + 5..found.len() - 2].iter().all(|found| *found == Some(0)));
        assert_eq!(found[found.len() - 2..], [Some(5), Some(0)]);
    }
}
