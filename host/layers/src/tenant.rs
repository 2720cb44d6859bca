//! Tenants: the clients of a listener, with the tokens, tools and limits of each.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use fumehood_core::digest::Digest;
use subtle::ConstantTimeEq as _;

use crate::token::Token;

/// The clients that may call.
///
/// ```
/// use fumehood_layers::{Access, Tenant, Token, TokenError};
///
/// let token = Token::generate()?;
/// let access = Access::Tenants(vec![Tenant::new("acme", &token)]);
/// assert!(matches!(access, Access::Tenants(tenants) if tenants.len() == 1));
/// # Ok::<(), TokenError>(())
/// ```
#[derive(Debug, Clone)]
pub enum Access {
    /// Clients with a token. The sessions, calls and keys of one tenant do not exist for the others.
    Tenants(Vec<Tenant>),
    /// Every program on this machine. For loopback addresses only.
    Anyone,
}

/// A client that may call.
///
/// ```
/// use fumehood_layers::{Tenant, TenantLimits, Token, TokenError, ToolFilter};
///
/// let token = Token::generate()?;
/// let notes = ToolFilter::new("notes__*", |tool| tool.starts_with("notes__"));
/// let limits = TenantLimits { fuel_per_day: Some(1_000_000_000_000), ..TenantLimits::default() };
/// let tenant = Tenant::new("acme", &token).actor("acme-service").tools(notes).limits(limits).approves(false);
/// assert!(tenant.tools.allows("notes__read") && !tenant.tools.allows("mail__send"));
/// // The server keeps the digest of a token only.
/// assert_eq!(tenant.tokens, [token.digest()]);
/// # Ok::<(), TokenError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The name, unique in its listener. What a tenant used and what belongs to it is kept by this name.
    pub name: Arc<str>,
    /// The actor of its calls, unique in its listener. Tools may be given it, and calls are recorded with it.
    pub actor: Option<Arc<str>>,
    /// The digests of its tokens, any of which it may send: two of them while one replaces the other.
    pub tokens: Vec<Digest>,
    /// The values of the claim by which `HttpOptions::verifier` knows it, such as the
    /// identifiers of its clients. Unique in their listener.
    pub claims: Vec<String>,
    /// The tools that exist for it.
    pub tools: ToolFilter,
    /// True if it may answer approvals: those of its own sessions, in which its own messages may have caused the calls.
    pub approves: bool,
    /// True if the flag of its `traceparent` decides whether spans of its requests are collected, and not the server alone.
    pub decides_sampling: bool,
    /// Its limits.
    pub limits: TenantLimits,
}

/// Limits of one tenant. What is left out has no limit of its own.
///
/// ```
/// use std::num::NonZeroU32;
///
/// use fumehood_layers::TenantLimits;
///
/// let limits = TenantLimits {
///     requests_per_minute: NonZeroU32::new(60),
///     concurrent_requests: NonZeroU32::new(8),
///     calls_per_day: Some(10_000),
///     ..TenantLimits::default()
/// };
/// assert_eq!(limits.fuel_per_minute, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Maximum number of requests in a minute, of any kind. It may be used at once, and is refilled continuously.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Maximum number of concurrent requests, in place of `HttpOptions::requests`.
    pub concurrent_requests: Option<NonZeroU32>,
    /// Maximum fuel of calls in a minute. A call that uses more than is left runs to its end; the next ones wait for as
    /// long as it takes to refill that.
    pub fuel_per_minute: Option<u64>,
    /// Maximum number of calls in a day (UTC).
    pub calls_per_day: Option<u64>,
    /// Maximum fuel of calls in a day (UTC). No call is begun once it is used up.
    pub fuel_per_day: Option<u64>,
    /// Maximum bytes that calls write to the event log in a day (UTC). No call is begun once they are used up. It holds for
    /// each gateway.
    pub log_bytes_per_day: Option<u64>,
}

impl TenantLimits {
    /// Returns whether the fuel of calls is limited.
    pub(crate) fn has_fuel(&self) -> bool {
        self.fuel_per_minute.is_some() || self.fuel_per_day.is_some()
    }
}

/// A decision by the full name of a tool.
type Allows = dyn Fn(&str) -> bool + Send + Sync;

/// A rule that decides by the full name of a tool whether it exists for a tenant.
#[derive(Clone)]
pub struct ToolFilter {
    /// The rule as text. Filters with the same text are equal.
    rule: String,
    allows: Option<Arc<Allows>>,
}

impl ToolFilter {
    /// Creates a filter. `rule` is its text, such as the patterns that it was made of.
    pub fn new(rule: impl Into<String>, allows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { rule: rule.into(), allows: Some(Arc::new(allows)) }
    }

    /// Returns whether the tool of this full name exists for the tenant.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.allows.as_ref().is_none_or(|allows| allows(tool))
    }
}

impl Default for ToolFilter {
    /// Returns a filter that allows every tool.
    fn default() -> Self {
        Self { rule: "*".to_owned(), allows: None }
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolFilter").field(&self.rule).finish()
    }
}

impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule && self.allows.is_some() == other.allows.is_some()
    }
}

impl Eq for ToolFilter {}

impl Tenant {
    /// Creates a tenant with this token: without an actor or limits, with every tool, and with all rights.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, token: &Token) -> Self {
        Self { tokens: vec![token.digest()], ..Self::anyone(name) }
    }

    /// Creates a tenant that presents no token: the programs on this machine, or pages of the server itself. It has no
    /// actor and no limits, every tool, and all rights.
    #[must_use]
    pub fn anyone(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            actor: None,
            tokens: Vec::new(),
            claims: Vec::new(),
            tools: ToolFilter::default(),
            approves: true,
            decides_sampling: true,
            limits: TenantLimits::default(),
        }
    }

    /// Sets the actor of its calls.
    #[must_use]
    pub fn actor(self, actor: impl Into<Arc<str>>) -> Self {
        Self { actor: Some(actor.into()), ..self }
    }

    /// Creates a tenant without a token of its own, known by these claims of access tokens.
    #[must_use]
    pub fn with_claims(name: impl Into<Arc<str>>, claims: Vec<String>) -> Self {
        Self { claims, ..Self::anyone(name) }
    }

    /// Sets the tools that exist for it.
    #[must_use]
    pub fn tools(self, tools: ToolFilter) -> Self {
        Self { tools, ..self }
    }

    /// Sets whether it may answer approvals.
    #[must_use]
    pub fn approves(self, approves: bool) -> Self {
        Self { approves, ..self }
    }

    /// Sets whether the flag of its `traceparent` decides whether spans of its requests are collected.
    #[must_use]
    pub fn decides_sampling(self, decides_sampling: bool) -> Self {
        Self { decides_sampling, ..self }
    }

    /// Sets its limits.
    #[must_use]
    pub fn limits(self, limits: TenantLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns whether one of its tokens has this digest. All of them are compared, each in constant time.
    #[must_use]
    pub fn has_token(&self, presented: &Digest) -> bool {
        let presented = presented.as_bytes().as_slice();
        self.tokens.iter().fold(false, |found, token| found | bool::from(token.as_bytes().as_slice().ct_eq(presented)))
    }
}
