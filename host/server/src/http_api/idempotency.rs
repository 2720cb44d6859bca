//! Answers by `Idempotency-Key`: a call that is sent again with its key is not run again.
//!
//! After draft-ietf-httpapi-idempotency-key-header: another body under the same key is refused with 422, and a key whose
//! call still runs with 409.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::response::IntoResponse;
use fumehood_core::digest::Digest;
use fumehood_core::job::JobKey;
use http::{HeaderMap, HeaderName, StatusCode};
use serde::Serialize;
use tokio_util::bytes::Bytes;

use crate::http_api::problem::Problem;
use crate::http_api::response::{self, Response};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;
/// Time for which an answer is kept.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// Maximum number of answers of one tenant.
const MAX_ANSWERS: usize = 1000;
/// Maximum size of the answers of one tenant, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// An answer that is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Creates an answer with a value in JSON.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // Its parts are texts and numbers.
        let body = serde_json::to_vec(value).unwrap_or_default().into();
        Self { status, headers: response::content_type("application/json"), body }
    }

    /// Creates an answer with problem details.
    pub(crate) fn problem(problem: &Problem<'_>) -> Self {
        Self { status: problem.status(), headers: problem.headers(), body: problem.to_json().into() }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        response::with_headers(self.status, self.headers, self.body)
    }
}

/// Keeps an answer for its key, if the request had one.
pub(crate) fn keep(claimed: Option<ClaimedKey>, answer: &Answer) {
    if let Some(claimed) = claimed {
        claimed.answer(answer.clone());
    }
}

/// The state of a key.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is new: the call is to be run, and its answer to be given.
    Run(ClaimedKey),
    /// Its call has ended with this answer.
    Answered(Answer),
    /// Its call is running.
    Running,
    /// It was used for another call.
    Different,
}

/// The answers of all tenants. Cheap to clone; clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<HashMap<Arc<str>, Keys>>>);

#[derive(Debug, Default)]
struct Keys {
    entries: HashMap<String, Entry>,
    /// The keys of answered calls, by the order in which they were answered.
    answered: BTreeMap<u64, String>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// The digest of the tool and the arguments.
    request: Digest,
    /// `None` while the call runs.
    answer: Option<(u64, Instant, Answer)>,
}

/// A key whose call runs. If it is dropped without an answer, the key is free again, unless the call had started.
#[derive(Debug)]
pub(crate) struct ClaimedKey {
    answers: Answers,
    tenant: Arc<str>,
    key: String,
    /// The digest of the tool and the arguments.
    request: Digest,
    has_answer: bool,
    /// The answer if it is dropped: a call that was stopped in the middle may have had effects, and must not run again.
    if_stopped: Option<Answer>,
}

/// Returns the key of a request: 1 to 255 visible ASCII characters. The quotes of the structured form are part of it.
///
/// # Errors
/// If there are several, or it is malformed.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|c| c.is_ascii_graphic()));
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => Err("invalid Idempotency-Key; expected 1 to 255 visible ASCII characters without spaces"),
    }
}

impl Answers {
    pub(crate) fn claim(&self, tenant: &Arc<str>, key: &str, request: Digest) -> Claim {
        let mut all = self.lock();
        let keys = all.entry(Arc::clone(tenant)).or_default();
        keys.remove_expired(Instant::now());
        match keys.entries.get(key) {
            Some(entry) if entry.request != request => Claim::Different,
            Some(Entry { answer: Some((_, _, answer)), .. }) => Claim::Answered(answer.clone()),
            Some(_) => Claim::Running,
            None => {
                keys.entries.insert(key.to_owned(), Entry { request, answer: None });
                let answers = self.clone();
                let tenant = Arc::clone(tenant);
                let key = key.to_owned();
                Claim::Run(ClaimedKey { answers, tenant, key, request, has_answer: false, if_stopped: None })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Keys>> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn remove_expired(&mut self, now: Instant) {
        while let Some(first) = self.answered.values().next().cloned() {
            let answered = self.entries.get(&first).and_then(|entry| entry.answer.as_ref());
            if answered.is_some_and(|(_, at, _)| now.duration_since(*at) < KEPT) {
                return;
            }
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((_, key)) = self.answered.pop_first() else { return };
        if let Some((_, _, answer)) = self.entries.remove(&key).and_then(|entry| entry.answer) {
            self.bytes = self.bytes.saturating_sub(answer.body.len());
        }
    }

    fn answer(&mut self, key: &str, answer: Answer) {
        let number = self.next;
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.bytes = self.bytes.saturating_add(answer.body.len());
        entry.answer = Some((number, Instant::now(), answer));
        self.next = self.next.saturating_add(1);
        self.answered.insert(number, key.to_owned());
        // The newest stays, however large it is: its client may not have it yet.
        while self.answered.len() > 1 && (self.bytes > MAX_BYTES || self.answered.len() > MAX_ANSWERS) {
            self.remove_oldest();
        }
    }
}

impl ClaimedKey {
    pub(crate) fn job_key(&self) -> JobKey {
        JobKey { key: Digest::of(self.key.as_bytes()), request: self.request }
    }

    /// Sets the answer that is kept if the call is stopped because its client has left.
    pub(crate) fn started(&mut self, if_stopped: Answer) {
        self.if_stopped = Some(if_stopped);
    }

    /// Frees the key, because nothing of the call ran.
    pub(crate) fn release(mut self) {
        self.if_stopped = None;
    }

    /// Keeps the answer of the call.
    pub(crate) fn answer(mut self, answer: Answer) {
        self.has_answer = true;
        if let Some(keys) = self.answers.lock().get_mut(&self.tenant) {
            keys.answer(&self.key, answer);
        }
    }
}

impl Drop for ClaimedKey {
    fn drop(&mut self) {
        if self.has_answer {
            return;
        }
        if let Some(keys) = self.answers.lock().get_mut(&self.tenant) {
            match self.if_stopped.take() {
                Some(answer) => keys.answer(&self.key, answer),
                None => drop(keys.entries.remove(&self.key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u8) -> Arc<str> {
        Arc::from(number.to_string())
    }

    fn answer(size: usize) -> Answer {
        Answer { status: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from(vec![b'x'; size]) }
    }

    fn run(answers: &Answers, key: &str, request: Digest) -> ClaimedKey {
        match answers.claim(&tenant(0), key, request) {
            Claim::Run(claimed) => claimed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_stands_for_one_request_of_one_tenant() {
        let answers = Answers::default();
        let one = Digest::of(b"one");
        let other = Digest::of(b"other");
        let claimed = run(&answers, "k", one);
        assert!(matches!(answers.claim(&tenant(0), "k", one), Claim::Running));
        assert!(matches!(answers.claim(&tenant(0), "k", other), Claim::Different));
        assert!(matches!(answers.claim(&tenant(1), "k", other), Claim::Run(_)));
        claimed.answer(answer(1));
        assert!(matches!(answers.claim(&tenant(0), "k", one), Claim::Answered(found) if found == answer(1)));
        assert!(matches!(answers.claim(&tenant(0), "k", other), Claim::Different));
        drop(run(&answers, "l", one));
        let mut started = run(&answers, "l", other);
        started.started(answer(2));
        drop(started);
        assert!(matches!(answers.claim(&tenant(0), "l", other), Claim::Answered(found) if found == answer(2)));
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let answers = Answers::default();
        let request = Digest::of(b"one");
        for number in 0..=MAX_ANSWERS {
            run(&answers, &number.to_string(), request).answer(answer(1));
        }
        drop(run(&answers, "0", request));
        assert!(matches!(answers.claim(&tenant(0), "1", request), Claim::Answered(_)));
        run(&answers, "large", request).answer(answer(MAX_BYTES + 1));
        drop(run(&answers, "2", request));
        assert!(matches!(answers.claim(&tenant(0), "large", request), Claim::Answered(_)));
        let expired = Instant::now() + KEPT;
        answers.lock().get_mut(&tenant(0)).unwrap().remove_expired(expired);
        drop(run(&answers, "large", request));
    }
}
