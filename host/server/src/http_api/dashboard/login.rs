//! Logins: the sessions of browsers, their cookies, and the token of every form.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::digest::Digest;
use http::HeaderMap;
use http::header::COOKIE;

use crate::{Token, TokenError};

/// Name of the cookie. Cookies do not know ports, so a name of its own keeps it apart from other programs here.
pub(crate) const COOKIE_NAME: &str = "fumehood-dashboard";
/// Maximum number of sessions; the oldest ends for one more.
const MAX_SESSIONS: usize = 64;
/// Time without a request after which a session ends.
const IDLE_TIMEOUT: Duration = Duration::from_hours(2);
/// Maximum number of failed attempts within [`ATTEMPT_INTERVAL`].
const MAX_FAILED_ATTEMPTS: usize = 10;
/// Interval over which failed attempts are counted.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(60);

/// The sessions of all browsers.
pub(crate) struct Logins {
    token: Token,
    lifetime: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the digest of the cookie, so that the time of a lookup reveals nothing about it.
    sessions: HashMap<Digest, Session>,
    failed: Vec<Instant>,
}

struct Session {
    csrf: Token,
    started: Instant,
    used: Instant,
}

/// Reasons for which a login is refused.
#[derive(Debug)]
pub(crate) enum LoginError {
    /// The token is another one.
    Wrong,
    /// Too many attempts have failed.
    TooMany,
    /// The system gave no random bytes.
    Random,
}

impl From<TokenError> for LoginError {
    fn from(_: TokenError) -> Self {
        Self::Random
    }
}

impl Logins {
    pub(crate) fn new(token: Token, lifetime: Duration) -> Self {
        Self { token, lifetime, state: Mutex::default() }
    }

    /// Begins a session, and returns the value of its cookie. The right token is always accepted: any page of the web can have
    /// a browser send wrong ones, which must not keep the operator out.
    ///
    /// # Errors
    /// If the presented token is wrong; from the tenth wrong one within a minute on, with another reason.
    pub(crate) fn begin(&self, presented: &str) -> Result<String, LoginError> {
        let now = Instant::now();
        let is_right = self.token.matches(presented);
        let mut state = self.lock();
        if !is_right {
            state.failed.retain(|at| now.duration_since(*at) < ATTEMPT_INTERVAL);
            if state.failed.len() >= MAX_FAILED_ATTEMPTS {
                return Err(LoginError::TooMany);
            }
            state.failed.push(now);
            return Err(LoginError::Wrong);
        }
        let cookie = Token::generate()?;
        let csrf = Token::generate()?;
        if state.sessions.len() >= MAX_SESSIONS
            && let Some(oldest) = state.sessions.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id)
        {
            state.sessions.remove(&oldest);
        }
        state.sessions.insert(Digest::of(cookie.reveal().as_bytes()), Session { csrf, started: now, used: now });
        Ok(cookie.reveal().to_owned())
    }

    /// Returns the form token of the request's session; `None` if it has none that is still open.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<Token> {
        let id = session_id(headers)?;
        let now = Instant::now();
        let mut state = self.lock();
        state.sessions.retain(|_, session| !self.is_over(session, now));
        let session = state.sessions.get_mut(&id)?;
        session.used = now;
        Some(session.csrf.clone())
    }

    /// Returns whether the session of the request is still open. Does not count as its use.
    pub(crate) fn is_open(&self, headers: &HeaderMap) -> bool {
        let Some(id) = session_id(headers) else { return false };
        let now = Instant::now();
        let state = self.lock();
        state.sessions.get(&id).is_some_and(|session| !self.is_over(session, now))
    }

    fn is_over(&self, session: &Session, now: Instant) -> bool {
        now.duration_since(session.started) >= self.lifetime || now.duration_since(session.used) >= IDLE_TIMEOUT
    }

    /// Ends the session of the request.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(id) = session_id(headers) {
            self.lock().sessions.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the digest of the cookie of the request. A request with several such cookies has none: another program of
/// this machine may have set one of them.
fn session_id(headers: &HeaderMap) -> Option<Digest> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(name, _)| *name == COOKIE_NAME);
    let (Some((_, value)), None) = (found.next(), found.next()) else { return None };
    Some(Digest::of(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TOKEN: &str = "a-token-for-one-test";

    fn logins(lifetime: Duration) -> Logins {
        Logins::new(Token::parse(TOKEN).unwrap(), lifetime)
    }

    fn with_cookies(cookies: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookies).unwrap())])
    }

    fn check_found(logins: &Logins, cookies: String, expected: bool) {
        assert_eq!(logins.find(&with_cookies(&cookies)).is_some(), expected, "{cookies}");
    }

    #[test]
    fn a_session_is_found_by_exactly_one_cookie() {
        let logins = logins(Duration::from_secs(60));
        let cookie = logins.begin(TOKEN).unwrap();
        check_found(&logins, format!("{COOKIE_NAME}={cookie}"), true);
        check_found(&logins, format!("other=1; {COOKIE_NAME}={cookie}"), true);
        check_found(&logins, format!("{COOKIE_NAME}={cookie}; {COOKIE_NAME}=x"), false);
        check_found(&logins, format!("{COOKIE_NAME}={cookie}x"), false);
        check_found(&logins, format!("{COOKIE_NAME}="), false);
        check_found(&logins, "other=1".to_owned(), false);
        logins.end(&with_cookies(&format!("{COOKIE_NAME}={cookie}")));
        check_found(&logins, format!("{COOKIE_NAME}={cookie}"), false);
    }

    #[test]
    fn a_session_ends_after_its_lifetime() {
        let logins = logins(Duration::ZERO);
        let cookie = logins.begin(TOKEN).unwrap();
        assert!(logins.find(&with_cookies(&format!("{COOKIE_NAME}={cookie}"))).is_none());
    }

    #[test]
    fn many_wrong_tokens_do_not_keep_the_right_one_out() {
        let logins = logins(Duration::from_secs(60));
        for _ in 0..MAX_FAILED_ATTEMPTS {
            assert!(matches!(logins.begin("a-wrong-token-of-a-guess"), Err(LoginError::Wrong)));
        }
        assert!(matches!(logins.begin("a-wrong-token-of-a-guess"), Err(LoginError::TooMany)));
        assert!(logins.begin(TOKEN).is_ok());
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let logins = logins(Duration::from_secs(60));
        let cookies: Vec<String> = (0..=MAX_SESSIONS).map(|_| logins.begin(TOKEN).unwrap()).collect();
        let open = |cookie: &String| logins.find(&with_cookies(&format!("{COOKIE_NAME}={cookie}"))).is_some();
        assert_eq!(cookies.iter().filter(|cookie| open(cookie)).count(), MAX_SESSIONS);
        assert!(!open(&cookies[0]));
    }
}
