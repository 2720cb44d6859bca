//! Limits on the requests of one tenant, so that it cannot use what the others need.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds::Size;
use crate::connections::Connection;

/// Size of a message up to which it is not counted, in bytes.
const FREE_BYTES: usize = 64 << 10;
/// Maximum memory of a parsed value while a message is handled, besides the message itself, in bytes.
///
/// Measured with objects in the order of their members and numbers as text, which makes a value 72 bytes wide: numbers and
/// short strings in an array hold 127, members of an object 98, arrays of one number 215.
const VALUE_BYTES: usize = 224;
/// Time that a request waits for a slot that is being freed.
const SLOT_TIMEOUT: Duration = Duration::from_secs(1);

/// The limits on the requests of one tenant.
pub(crate) struct RequestLimits {
    tenant: Arc<str>,
    requests: Arc<Semaphore>,
    /// Permits of 1 KiB each.
    memory: Arc<Semaphore>,
    /// A single permit: one message of a tenant is parsed at a time.
    parsing: Arc<Semaphore>,
}

/// Memory that a request holds. Clones share it; it is free again when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct MemoryPermit {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// A memory reservation that can grow.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Option<OwnedSemaphorePermit>);

impl MemoryReservation {
    pub(crate) fn into_permit(self) -> MemoryPermit {
        MemoryPermit { _permit: self.0.map(Arc::new) }
    }
}

impl RequestLimits {
    /// Creates limits of `requests` concurrent requests, whose messages take at most `bytes` of memory. Messages of at
    /// most [`FREE_BYTES`] are not counted.
    pub(crate) fn new(tenant: Arc<str>, requests: usize, bytes: usize) -> Self {
        Self {
            tenant,
            requests: new_semaphore(requests),
            memory: new_semaphore(bytes >> 10),
            parsing: new_semaphore(1),
        }
    }

    /// Returns the semaphore of this tenant for parsing a message.
    pub(crate) fn parse_turn(&self) -> Arc<Semaphore> {
        Arc::clone(&self.parsing)
    }

    /// Acquires a slot for a request. If there is none, a request that has stalled is dropped for it.
    ///
    /// Returns `None` if all requests are busy.
    pub(crate) async fn acquire_slot(&self, connection: &Connection) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = Arc::clone(&self.requests).try_acquire_owned() {
            return Some(slot);
        }
        if !connection.make_room_among_requests(&self.tenant) {
            return None;
        }
        let slot = tokio::time::timeout(SLOT_TIMEOUT, Arc::clone(&self.requests).acquire_owned()).await;
        slot.ok()?.ok()
    }

    /// Extends a reservation to `bytes`. If less is left, a request that has stalled is dropped for it, and the others
    /// are waited for.
    pub(crate) async fn reserve(&self, reservation: &mut MemoryReservation, bytes: usize, connection: &Connection) {
        if bytes <= FREE_BYTES {
            return;
        }
        let permit = &mut reservation.0;
        let has = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.div_ceil(1 << 10).saturating_sub(has)).unwrap_or(u32::MAX);
        let memory = Arc::clone(&self.memory);
        let more = match Arc::clone(&memory).try_acquire_many_owned(missing) {
            Ok(more) => more,
            Err(_) => {
                connection.make_room_among_requests(&self.tenant);
                // The semaphore is never closed.
                let Ok(more) = memory.acquire_many_owned(missing).await else { return };
                more
            }
        };
        match permit {
            Some(permit) => permit.merge(more),
            None => *permit = Some(more),
        }
    }
}

fn new_semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}

/// Returns the memory that a message takes while it is handled, in bytes.
#[must_use]
pub fn message_memory_bytes(size: Size) -> usize {
    size.bytes.saturating_add(size.values.saturating_mul(VALUE_BYTES))
}
