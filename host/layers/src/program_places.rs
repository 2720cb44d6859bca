//! Places for the calls of programs: the place of the program itself, or one of those for calls, shared fairly between
//! tenants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::history::CallHistory;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::call_places::{CallPlace, CallPlaces};

/// The places of running programs, which wait while their calls run. Cheap to clone; clones share their state.
///
/// A program lends its place to one call at a time, so that programs which have all places never wait for each other.
/// Further calls wait for places of their own, as calls that are made directly do.
#[derive(Clone, Default)]
pub(crate) struct ProgramPlaces(Arc<Mutex<HashMap<usize, LentPlace>>>);

/// The place of one program, while calls of it wait or run.
struct LentPlace {
    calls: usize,
    place: Arc<Semaphore>,
}

/// The place of a call of a program. Dropping it gives it back.
pub(crate) struct ProgramCallPlace {
    _lent: Option<OwnedSemaphorePermit>,
    _own: Option<CallPlace>,
    _call: ProgramCall,
}

/// A call of a program that waits or runs.
struct ProgramCall {
    programs: ProgramPlaces,
    program: usize,
}

impl ProgramPlaces {
    /// Waits for a place for a call of `program`: that of the program, or one of `places`, whichever is free first.
    pub(crate) async fn enter(
        &self,
        program: &Arc<CallHistory>,
        places: &CallPlaces,
        tenant: &Arc<str>,
    ) -> ProgramCallPlace {
        let (call, lent) = self.add(program);
        let waiting = async {
            match places.enter(tenant).await {
                Some(place) => place,
                // Too many wait for those already.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // The semaphore is never closed.
            Ok(lent) = lent.acquire_owned() => ProgramCallPlace { _lent: Some(lent), _own: None, _call: call },
            own = waiting => ProgramCallPlace { _lent: None, _own: Some(own), _call: call },
        }
    }

    fn add(&self, program: &Arc<CallHistory>) -> (ProgramCall, Arc<Semaphore>) {
        // The calls of a program hold its history, so that no other one has its address.
        let program = Arc::as_ptr(program).addr();
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lent =
            programs.entry(program).or_insert_with(|| LentPlace { calls: 0, place: Arc::new(Semaphore::new(1)) });
        lent.calls += 1;
        (ProgramCall { programs: self.clone(), program }, Arc::clone(&lent.place))
    }
}

impl Drop for ProgramCall {
    fn drop(&mut self) {
        let mut programs = self.programs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lent) = programs.get_mut(&self.program) {
            lent.calls = lent.calls.saturating_sub(1);
            if lent.calls == 0 {
                programs.remove(&self.program);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn calls_of_a_program_share_its_place_and_the_free_ones() {
        let places = CallPlaces::new(3, 8);
        let programs = ProgramPlaces::default();
        let tenant = Arc::<str>::from("one");
        let other = Arc::<str>::from("two");
        let first = Arc::<CallHistory>::default();
        let second = Arc::<CallHistory>::default();
        let _running = (places.enter(&tenant).await.unwrap(), places.enter(&tenant).await.unwrap());
        let lent = programs.enter(&first, &places, &tenant).await;
        let own = programs.enter(&first, &places, &tenant).await;
        let mut third = Box::pin(programs.enter(&first, &places, &tenant));
        assert!(poll!(third.as_mut()).is_pending());
        // Another program has a place to lend, and another tenant comes first.
        drop(programs.enter(&second, &places, &tenant).await);
        let mut modest = Box::pin(places.enter(&other));
        assert!(poll!(modest.as_mut()).is_pending());
        drop(own);
        drop(modest.await.unwrap());
        drop(third.await);
        drop(lent);
        assert!(programs.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_program_goes_on_without_any_free_place() {
        let places = CallPlaces::new(1, 0);
        let programs = ProgramPlaces::default();
        let tenant = Arc::<str>::from("one");
        let program = Arc::<CallHistory>::default();
        let _running = places.enter(&tenant).await.unwrap();
        let lent = programs.enter(&program, &places, &tenant).await;
        let mut next = Box::pin(programs.enter(&program, &places, &tenant));
        assert!(poll!(next.as_mut()).is_pending());
        drop(lent);
        drop(next.await);
    }
}
