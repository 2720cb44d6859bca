//! The current tenants of a listener, each with its rate and its concurrent requests.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::digest::Digest;
use governor::clock::{Clock as _, DefaultClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};

use crate::guard::single_value;
use crate::limits::RequestLimits;
use crate::options::HttpError;
use crate::rejection::Rejection;
use crate::token_verifier::{Credential, Identity, VerifiedToken};
use fumehood_layers::BudgetLeases;
use fumehood_layers::now;
use fumehood_layers::{Access, Tenant};

/// Name of the tenant of a listener without tokens.
const ANYONE: &str = "anyone";

/// Limits of each tenant that has none of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestDefaults {
    /// Maximum number of concurrent requests.
    pub(crate) requests: usize,
    /// Maximum memory of messages, in bytes.
    pub(crate) in_flight_bytes: usize,
}

/// The tenants of a listener. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Tenants(Arc<Inner>);

struct Inner {
    current: RwLock<Arc<[Arc<Client>]>>,
    defaults: RequestDefaults,
    /// True if every program on this machine may call.
    is_open: bool,
    /// True if tenants may be known by access tokens alone.
    has_verifier: bool,
    /// Slices of budgets that other gateways have, too, once they are shared.
    shared: OnceLock<BudgetLeases>,
    /// Called after the tenants were replaced.
    watchers: Mutex<Vec<Box<Watcher>>>,
}

/// A function that is called with the tenants after they were replaced.
type Watcher = dyn Fn(&Tenants) + Send + Sync;

/// A tenant with the state of its limits on requests.
pub(crate) struct Client {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) limits: RequestLimits,
    rate: Option<RateLimiter<NotKeyed, InMemoryState, DefaultClock>>,
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenants")
            .field(&self.all().iter().map(|tenant| Arc::clone(&tenant.name)).collect::<Vec<_>>())
            .finish()
    }
}

impl Tenants {
    /// Creates the tenants of a listener.
    ///
    /// # Errors
    /// If there is none, or two of them cannot be told apart.
    pub(crate) fn new(access: &Access, defaults: RequestDefaults, has_verifier: bool) -> Result<Self, HttpError> {
        let (tenants, is_open) = match access {
            Access::Anyone => (vec![Tenant::anyone(ANYONE)], true),
            Access::Tenants(tenants) => (tenants.clone(), false),
        };
        match is_open {
            true if has_verifier => return Err(HttpError::Unverified),
            true => {}
            false => check(&tenants, has_verifier)?,
        }
        let current = tenants.into_iter().map(|tenant| Arc::new(Client::new(tenant, defaults))).collect();
        Ok(Self(Arc::new(Inner {
            current: RwLock::new(current),
            defaults,
            is_open,
            has_verifier,
            shared: OnceLock::new(),
            watchers: Mutex::default(),
        })))
    }

    /// Replaces the tenants. Those that stay as they are keep their sessions; those that changed keep their calls and
    /// what they used. Requests that run go on, but streams end whose token is not accepted any more.
    ///
    /// # Errors
    /// If there is none, or two of them cannot be told apart, or the listener has no tokens. Nothing is changed then.
    pub fn replace(&self, tenants: Vec<Tenant>) -> Result<(), HttpError> {
        if self.0.is_open {
            return Err(HttpError::Open);
        }
        check(&tenants, self.0.has_verifier)?;
        let before = self.clients();
        let client = |tenant: Tenant| {
            let same = before.iter().find(|client| *client.tenant == tenant);
            same.cloned().unwrap_or_else(|| Arc::new(Client::new(tenant, self.0.defaults)))
        };
        let current = tenants.into_iter().map(client).collect();
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        let watchers = self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.iter().for_each(|watcher| watcher(self));
        Ok(())
    }

    /// Calls a function each time that the tenants were replaced.
    pub fn on_replaced(&self, watcher: impl Fn(&Self) + Send + Sync + 'static) {
        self.0.watchers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(watcher));
    }

    /// Returns whether a request with this credential would be one of this tenant.
    pub(crate) fn accepts(&self, identity: &Identity) -> bool {
        let Identity { tenant, credential } = identity;
        match credential {
            Credential::Open => true,
            Credential::Token(digest) => {
                self.clients().iter().any(|client| client.tenant.name == *tenant && client.tenant.has_token(digest))
            }
            Credential::Access(verified) => self.of_token(verified).is_ok_and(|client| client.tenant.name == *tenant),
        }
    }

    /// Returns the current tenants.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tenant>> {
        self.clients().iter().map(|client| Arc::clone(&client.tenant)).collect()
    }

    /// Lets the rate of each tenant hold over all gateways that share its counter, besides that of this one. Does nothing the
    /// second time.
    pub fn share_budgets(&self, leases: BudgetLeases) {
        let _shared_before = self.0.shared.set(leases);
    }

    /// Counts a request.
    ///
    /// # Errors
    /// If there are too many in a minute, here or of all gateways, or those of the others are not known.
    pub(crate) async fn count_request(&self, client: &Client) -> Result<(), Rejection> {
        client.count_request()?;
        let Some(shared) = self.0.shared.get() else { return Ok(()) };
        shared.admit_request(&client.tenant, now()).await.map_err(|error| match error.kind {
            ErrorKind::Quota => {
                let why = "too many requests with this token in a minute; wait before the next request";
                Rejection::too_many(why, error.retry_after.unwrap_or_default())
            }
            _ => Rejection::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the rate of this token is shared with other gateways, but its counter does not answer; try again in \
                 a second",
            ),
        })
    }

    fn clients(&self) -> Arc<[Arc<Client>]> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the tenant that sent the request, and the credential that it sent.
    ///
    /// # Errors
    /// If the token is not accepted.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<(Arc<Client>, Credential), Rejection> {
        let why = "send the server's bearer token: `Authorization: Bearer TOKEN`";
        let clients = self.clients();
        let found = if self.0.is_open {
            clients.first().map(|client| (Arc::clone(client), Credential::Open))
        } else {
            find(&clients, headers).map(|(client, digest)| (client, Credential::Token(digest)))
        };
        found.ok_or(Rejection::new(StatusCode::UNAUTHORIZED, why))
    }

    /// Returns the tenant of a verified access token: the one that has its claim, or else the default.
    ///
    /// # Errors
    /// If there is none, or its claims are those of several tenants.
    pub(crate) fn of_token(&self, verified: &VerifiedToken) -> Result<Arc<Client>, Rejection> {
        let clients = self.clients();
        let mut known =
            clients.iter().filter(|client| client.tenant.claims.iter().any(|claim| verified.claims.contains(claim)));
        let found = match (known.next(), known.next(), &verified.default_tenant) {
            (Some(_), Some(_), _) => {
                let why = "the token matches several tenants of this server; request a token with fewer claims from \
                           its issuer";
                return Err(Rejection::new(StatusCode::FORBIDDEN, why));
            }
            (Some(client), None, _) => Some(client),
            (None, _, Some(default)) => clients.iter().find(|client| client.tenant.name == *default),
            (None, _, None) => None,
        };
        let why = "the token is valid, but its client is not a tenant of this server; its operator can add it";
        found.cloned().ok_or(Rejection::new(StatusCode::FORBIDDEN, why))
    }
}

/// Returns the bearer token of the request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single_value(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Finds the tenant of the token in the request, and the digest of the token.
fn find(clients: &[Arc<Client>], headers: &HeaderMap) -> Option<(Arc<Client>, Digest)> {
    // The digest hides the length of the token, and what differs in digests says nothing about the token.
    let presented = Digest::of(bearer_token(headers)?.as_bytes());
    let mut found = None;
    // All tokens are compared, so that the time it takes does not reveal which one matched.
    for client in clients {
        if client.tenant.has_token(&presented) {
            found = Some(client);
        }
    }
    found.map(|client| (Arc::clone(client), presented))
}

/// Checks that there are tenants, and that they can be told apart.
fn check(tenants: &[Tenant], has_verifier: bool) -> Result<(), HttpError> {
    if tenants.is_empty() || !has_verifier && tenants.iter().all(|tenant| tenant.tokens.is_empty()) {
        return Err(HttpError::Nobody);
    }
    let mut names = BTreeSet::new();
    let mut actors = BTreeSet::new();
    let mut tokens = BTreeSet::new();
    let mut claims = BTreeSet::new();
    for tenant in tenants {
        let same = |what| Err(HttpError::Same { what, tenant: tenant.name.to_string() });
        if !names.insert(&tenant.name) {
            return same("name");
        }
        // Calls are recorded and found by their actor.
        if tenants.len() > 1 && !actors.insert(&tenant.actor) {
            return same("actor");
        }
        if tenant.tokens.iter().any(|token| !tokens.insert(token)) {
            return same("token");
        }
        if tenant.claims.iter().any(|claim| !claims.insert(claim)) {
            return same("claim");
        }
    }
    Ok(())
}

impl Client {
    fn new(tenant: Tenant, defaults: RequestDefaults) -> Self {
        let own =
            tenant.limits.concurrent_requests.map(|requests| usize::try_from(requests.get()).unwrap_or(usize::MAX));
        let requests = own.unwrap_or(defaults.requests);
        let limits = RequestLimits::new(Arc::clone(&tenant.name), requests, defaults.in_flight_bytes);
        let rate = tenant.limits.requests_per_minute.map(|requests| RateLimiter::direct(Quota::per_minute(requests)));
        Self { tenant: Arc::new(tenant), limits, rate }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// If there are too many in a minute.
    fn count_request(&self) -> Result<(), Rejection> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.check().map_err(|refused| {
            let wait = refused.wait_time_from(DefaultClock::default().now());
            Rejection::too_many("too many requests with this token in a minute; wait before the next request", wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use http::HeaderValue;

    use super::*;
    use fumehood_layers::TenantLimits;
    use fumehood_layers::Token;

    const DEFAULTS: RequestDefaults = RequestDefaults { requests: 4, in_flight_bytes: 1 << 20 };

    fn tenant(name: &str, token: &str) -> Tenant {
        Tenant::new(name, &Token::parse(token).unwrap()).actor(name)
    }

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap())).collect()
    }

    fn name(tenants: &Tenants, values: &[&str]) -> Result<String, u16> {
        let found = tenants.authenticate(&headers(values));
        found.map(|(client, _)| client.tenant.name.to_string()).map_err(|rejection| rejection.status.as_u16())
    }

    #[test]
    fn finds_the_tenant_of_a_token() {
        let mut rotated = tenant("b", "fedcba9876543210");
        rotated.tokens.push(Token::parse("another-token-of-b").unwrap().digest());
        let access = Access::Tenants(vec![tenant("a", "0123456789abcdef"), rotated]);
        let tenants = Tenants::new(&access, DEFAULTS, false).unwrap();
        for (value, expected) in [
            ("Bearer 0123456789abcdef", "a"),
            ("bearer  0123456789abcdef ", "a"),
            ("Bearer fedcba9876543210", "b"),
            ("Bearer another-token-of-b", "b"),
        ] {
            assert_eq!(name(&tenants, &[value]).as_deref(), Ok(expected), "{value}");
        }
        for wrong in ["Bearer 0123456789abcdee", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer "] {
            assert_eq!(name(&tenants, &[wrong]), Err(401), "{wrong}");
        }
        // A digest is no token.
        let digest = format!("Bearer {}", Digest::of(b"0123456789abcdef"));
        assert_eq!(name(&tenants, &[&digest]), Err(401));
        assert_eq!(name(&tenants, &[]), Err(401));
        assert_eq!(name(&tenants, &["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"]), Err(401));
        assert_eq!(name(&Tenants::new(&Access::Anyone, DEFAULTS, false).unwrap(), &[]).as_deref(), Ok(ANYONE));
    }

    #[test]
    fn replaces_tenants_and_keeps_those_that_stay() {
        let access = Access::Tenants(vec![tenant("a", "0123456789abcdef"), tenant("b", "fedcba9876543210")]);
        let tenants = Tenants::new(&access, DEFAULTS, false).unwrap();
        let before = tenants.all();
        let bad = [
            vec![],
            vec![Tenant { tokens: Vec::new(), ..tenant("a", "0123456789abcdef") }],
            vec![tenant("a", "0123456789abcdef"), tenant("a", "fedcba9876543210")],
            vec![tenant("a", "0123456789abcdef"), tenant("b", "fedcba9876543210").actor("a")],
            vec![tenant("a", "0123456789abcdef"), tenant("b", "0123456789abcdef")],
        ];
        for bad in bad {
            tenants.replace(bad).unwrap_err();
            assert_eq!(tenants.all(), before);
        }
        tenants.replace(vec![tenant("c", "0123456789abcdef"), tenant("b", "fedcba9876543210")]).unwrap();
        assert_eq!(name(&tenants, &["Bearer 0123456789abcdef"]).as_deref(), Ok("c"));
        assert!(Arc::ptr_eq(&tenants.all()[1], &before[1]));
        let open = Tenants::new(&Access::Anyone, DEFAULTS, false).unwrap();
        assert!(matches!(open.replace(vec![tenant("a", "0123456789abcdef")]), Err(HttpError::Open)));
    }

    fn tenant_with_claims(name: &str, claims: &[&str]) -> Tenant {
        Tenant::with_claims(name, claims.iter().map(|claim| (*claim).to_owned()).collect()).actor(name)
    }

    fn find_name(tenants: &Tenants, claims: &[&str], default: Option<&str>) -> Result<String, u16> {
        let claims = claims.iter().map(|claim| (*claim).to_owned()).collect();
        let found = tenants.of_token(&VerifiedToken { claims, default_tenant: default.map(Arc::from) });
        found.map(|client| client.tenant.name.to_string()).map_err(|rejection| rejection.status.as_u16())
    }

    #[test]
    fn finds_the_tenant_of_a_claim() {
        let all = vec![
            tenant_with_claims("a", &["one", "two"]),
            tenant_with_claims("b", &["three"]),
            tenant("c", "0123456789abcdef"),
        ];
        let access = Access::Tenants(all.clone());
        let tenants = Tenants::new(&access, DEFAULTS, true).unwrap();
        for (values, default, expected) in [
            (&["two"] as &[&str], None, Ok("a")),
            (&["one", "two", "other"], None, Ok("a")),
            (&["three"], Some("c"), Ok("b")),
            (&["other"], Some("c"), Ok("c")),
            (&["other"], None, Err(403)),
            (&[], None, Err(403)),
            (&["one", "three"], Some("c"), Err(403)),
            (&["other"], Some("gone"), Err(403)),
            // The name of a tenant is no claim.
            (&["a"], None, Err(403)),
        ] {
            assert_eq!(find_name(&tenants, values, default), expected.map(str::to_owned), "{values:?} {default:?}");
        }
        tenants.replace(all[1..].to_vec()).unwrap();
        assert_eq!(find_name(&tenants, &["one"], None), Err(403));
        let same = vec![tenant_with_claims("a", &["one"]), tenant_with_claims("b", &["one"])];
        assert!(matches!(tenants.replace(same), Err(HttpError::Same { what: "claim", .. })));
        assert!(matches!(Tenants::new(&Access::Anyone, DEFAULTS, true), Err(HttpError::Unverified)));
        assert!(matches!(Tenants::new(&Access::Tenants(Vec::new()), DEFAULTS, true), Err(HttpError::Nobody)));
    }

    #[test]
    fn limits_the_rate_of_requests() {
        let limits = TenantLimits { requests_per_minute: NonZeroU32::new(2), ..TenantLimits::default() };
        let access = Access::Tenants(vec![tenant("a", "0123456789abcdef").limits(limits)]);
        let tenants = Tenants::new(&access, DEFAULTS, false).unwrap();
        let (client, _) = tenants.authenticate(&headers(&["Bearer 0123456789abcdef"])).unwrap();
        assert!(client.count_request().is_ok() && client.count_request().is_ok());
        let refused = client.count_request().unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        let wait = refused.retry_after.unwrap();
        assert!(!wait.is_zero() && wait.as_secs() <= 30, "{wait:?}");
    }
}
