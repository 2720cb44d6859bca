//! The set of powers granted to one tool.

use std::time::Duration;

use super::files::{Folder, Quota, SCRATCH};
use super::http::{HttpGrant, Scheme};
use super::tcp::TcpGrant;
use super::{ClockStep, CommandLine, Environment, KeyValueQuota, Secret, Seed};
use crate::capability::{CapabilityGrant, CapabilityGrantError};
use crate::text::sanitize::printable;

/// The powers granted to one tool. Only the operator's own code adds to it.
///
/// Interfaces that are not granted are linked nevertheless, because language runtimes import all of WASI whether they
/// use it or not, and refuse at use. Without a grant, a tool has
///
/// - no folders, no network, no environment variables, no arguments,
/// - an empty stdin,
/// - clocks with a resolution of one millisecond,
/// - no pages that clients are shown.
///
/// Each power once:
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::policy::permission::files::{Folder, Quota};
/// use fumehood_core::policy::permission::http::{HttpGrant, HttpLimits};
/// use fumehood_core::policy::permission::tcp::{TcpGrant, TcpLimits};
/// use fumehood_core::policy::permission::{
///     ClockStep, CommandLine, Environment, Grant, Injection, KeyValueQuota, Secret, SecretValue, Seed,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = vec!["GET https://api.example.com/v1/**".parse()?];
/// let bearer = Injection::header("authorization", "Bearer {secret}")?;
/// let token = SecretValue::new("0123456789abcdef")?;
/// let grant = Grant::none()
///     .with_folder(Folder::read("./docs:/docs")?)?
///     .with_folder(Folder::write("./out:/out")?)?
///     .with_scratch(Quota::parse("10MiB")?)?
///     .with_http(HttpGrant::new(rules, Vec::new(), HttpLimits::default())?)
///     .with_tcp(TcpGrant::new(vec!["db.example.com:5432".parse()?], Vec::new(), TcpLimits::default())?)
///     .with_secret(Secret::new("api", token, "https://api.example.com/v1/**", bearer)?)?
///     .with_key_value(KeyValueQuota::parse("1MiB")?)
///     .with_environment(Environment::none().with("LANG", "en")?)
///     .with_command_line(CommandLine::new(["tool", "--quiet"])?)
///     .with_clock(ClockStep::parse("100us")?)
///     .with_fixed_time(Duration::from_secs(1_700_000_000))
///     .with_seed(Seed::from(7_u64))
///     .with_pages(vec!["https://api.example.com".to_owned()])?
///     .with_state();
/// assert_eq!(grant.folders().len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// A message to a worker process has only the powers that the worker enforces itself: no paths, rules or secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Grant {
    state: bool,
    environment: Environment,
    command_line: CommandLine,
    clock: ClockStep,
    fixed_time: Option<Duration>,
    seed: Option<Seed>,
    key_value: Option<KeyValueQuota>,
    #[cfg_attr(feature = "wire", serde(skip))]
    folders: Vec<Folder>,
    scratch: Option<Quota>,
    #[cfg_attr(feature = "wire", serde(skip))]
    http: Option<HttpGrant>,
    #[cfg_attr(feature = "wire", serde(skip))]
    tcp: Option<TcpGrant>,
    #[cfg_attr(feature = "wire", serde(skip))]
    secrets: Vec<Secret>,
    #[cfg_attr(feature = "wire", serde(skip))]
    page_origins: Option<Vec<String>>,
    #[cfg_attr(feature = "wire", serde(skip))]
    capabilities: Vec<CapabilityGrant>,
}

/// The reason why a power cannot be granted, and what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrantError(String);

impl GrantError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    fn duplicate_folder(guest: &str) -> Self {
        Self(format!("two folders are granted as `{guest}`; give them different paths"))
    }
}

impl Grant {
    /// Creates an empty grant: no files, no network, no environment, no secrets, no agent state.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            state: false,
            environment: Environment::none(),
            command_line: CommandLine::none(),
            clock: ClockStep::DEFAULT,
            fixed_time: None,
            seed: None,
            key_value: None,
            folders: Vec::new(),
            scratch: None,
            http: None,
            tcp: None,
            secrets: Vec::new(),
            page_origins: None,
            capabilities: Vec::new(),
        }
    }

    /// Grants reading the snapshot of the agent's state that is passed with a call.
    #[must_use]
    pub const fn with_state(mut self) -> Self {
        self.state = true;
        self
    }

    /// Grants access to a folder.
    ///
    /// # Errors
    /// If another folder has the same guest path.
    pub fn with_folder(mut self, folder: Folder) -> Result<Self, GrantError> {
        let taken = self.folders.iter().any(|other| other.guest() == folder.guest())
            || (self.scratch.is_some() && folder.guest() == SCRATCH);
        if taken {
            return Err(GrantError::duplicate_folder(folder.guest()));
        }
        self.folders.push(folder);
        Ok(self)
    }

    /// Grants an empty folder at [`SCRATCH`], separate for each call and removed after it.
    ///
    /// # Errors
    /// If another folder has that guest path.
    pub fn with_scratch(mut self, quota: Quota) -> Result<Self, GrantError> {
        if self.folders.iter().any(|folder| folder.guest() == SCRATCH) {
            return Err(GrantError::duplicate_folder(SCRATCH));
        }
        self.scratch = Some(quota);
        Ok(self)
    }

    /// Returns the granted folders.
    #[must_use]
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// Returns the quota of the scratch space, if it is granted.
    #[must_use]
    pub const fn scratch(&self) -> Option<Quota> {
        self.scratch
    }

    /// Returns whether the snapshot of the agent's state may be read.
    #[must_use]
    pub const fn state(&self) -> bool {
        self.state
    }
}

/// Environment, command line, clocks, randomness, and the private store.
impl Grant {
    /// Sets the environment variables, replacing previous ones.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Returns the environment variables.
    #[must_use]
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Sets the command line, replacing a previous one.
    #[must_use]
    pub fn with_command_line(self, command_line: CommandLine) -> Self {
        Self { command_line, ..self }
    }

    /// Returns the command line.
    #[must_use]
    pub const fn command_line(&self) -> &CommandLine {
        &self.command_line
    }

    /// Sets the resolution of the clocks. The default is [`ClockStep::DEFAULT`].
    #[must_use]
    pub const fn with_clock(mut self, step: ClockStep) -> Self {
        self.clock = step;
        self
    }

    /// Returns the resolution of the clocks.
    #[must_use]
    pub const fn clock(&self) -> ClockStep {
        self.clock
    }

    /// Stops the wall clock at a time since 1970, for replay and tests, so that results do not depend on the date. Time
    /// still passes on the monotonic clock, so that tools can wait.
    #[must_use]
    pub const fn with_fixed_time(mut self, since_epoch: Duration) -> Self {
        self.fixed_time = Some(since_epoch);
        self
    }

    /// Returns the time since 1970 at which the wall clock stands; `None` if it advances.
    #[must_use]
    pub const fn fixed_time(&self) -> Option<Duration> {
        self.fixed_time
    }

    /// Derives randomness from a seed, so that every call gets the same numbers.
    #[must_use]
    pub fn with_seed(self, seed: Seed) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Returns the seed of the randomness; `None` if it comes from the operating system.
    #[must_use]
    pub const fn seed(&self) -> Option<&Seed> {
        self.seed.as_ref()
    }

    /// Grants a private key-value store with this quota.
    #[must_use]
    pub const fn with_key_value(mut self, quota: KeyValueQuota) -> Self {
        self.key_value = Some(quota);
        self
    }

    /// Returns the quota of the private store; `None` if it is not granted.
    #[must_use]
    pub const fn key_value(&self) -> Option<KeyValueQuota> {
        self.key_value
    }
}

/// HTTP requests, the secrets injected into them, and TCP connections.
impl Grant {
    /// Grants HTTP requests, replacing a previous grant of them.
    #[must_use]
    pub fn with_http(self, http: HttpGrant) -> Self {
        Self { http: Some(http), ..self }
    }

    /// Returns the granted HTTP requests.
    #[must_use]
    pub const fn http(&self) -> Option<&HttpGrant> {
        self.http.as_ref()
    }

    /// Grants TCP connections, replacing a previous grant of them.
    #[must_use]
    pub fn with_tcp(self, tcp: TcpGrant) -> Self {
        Self { tcp: Some(tcp), ..self }
    }

    /// Returns the granted TCP connections.
    #[must_use]
    pub const fn tcp(&self) -> Option<&TcpGrant> {
        self.tcp.as_ref()
    }

    /// Grants the injection of a secret into the requests that it is for. Requests must be granted first.
    ///
    /// # Errors
    /// If the secret could never be used, would be sent unencrypted to an address that was not named, or has the name
    /// of another one.
    pub fn with_secret(mut self, secret: Secret) -> Result<Self, GrantError> {
        let name = secret.name().to_owned();
        if self.secrets.iter().any(|other| other.name() == name) {
            return Err(GrantError(format!("two secrets are named `{name}`; rename one of them")));
        }
        let Some(http) = &self.http else {
            return Err(GrantError(format!(
                "the secret `{name}` could never be used, because the tool has no grant of requests; add `http`"
            )));
        };
        if secret.target().scheme() == Scheme::Http && http.private().is_empty() {
            return Err(GrantError(format!(
                "the secret `{name}` would be sent unencrypted; use an `https` URL (`http` is allowed only for addresses in \
                 private_addresses)"
            )));
        }
        if !http.rules().iter().any(|rule| rule.target().overlaps(secret.target())) {
            let target = secret.target();
            return Err(GrantError(format!(
                "the secret `{name}` could never be used, because no rule allows a request to {target}; grant one, such as \
                 http = [\"GET {target}\"], or correct what the secret is for"
            )));
        }
        self.secrets.push(secret);
        Ok(self)
    }

    /// Returns the secrets that are injected into requests.
    #[must_use]
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }
}

/// Pages of MCP Apps.
impl Grant {
    /// Lets clients show pages of the component, which may reach these origins, such as `https://api.example.com`.
    ///
    /// # Errors
    /// If one of them is no origin.
    pub fn with_pages(self, origins: Vec<String>) -> Result<Self, GrantError> {
        match origins.iter().find(|origin| !is_page_origin(origin)) {
            Some(wrong) => Err(GrantError(format!(
                "invalid origin `{}`; expected a scheme and a host, such as \"https://api.example.com\"",
                printable(wrong)
            ))),
            None => Ok(Self { page_origins: Some(origins), ..self }),
        }
    }

    /// Returns the origins that its pages may reach; `None` if clients are not shown any.
    #[must_use]
    pub fn page_origins(&self) -> Option<&[String]> {
        self.page_origins.as_deref()
    }
}

/// Capabilities of the embedder.
impl Grant {
    /// Grants a capability, which [`Capability::grant`](crate::capability::Capability::grant) describes.
    ///
    /// # Errors
    /// If the same capability was granted before.
    pub fn with_capability(mut self, granted: CapabilityGrant) -> Result<Self, CapabilityGrantError> {
        if self.capability(granted.name()).is_some() {
            return Err(CapabilityGrantError::Duplicate(granted.name().to_owned()));
        }
        self.capabilities.push(granted);
        Ok(self)
    }

    /// Returns the granted capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &[CapabilityGrant] {
        &self.capabilities
    }

    /// Returns the grant of the capability with this name; `None` if it is not granted.
    #[must_use]
    pub fn capability(&self, name: &str) -> Option<&CapabilityGrant> {
        self.capabilities.iter().find(|granted| granted.name() == name)
    }
}

/// Returns whether a text is the origin of a web server: a scheme, a host, and possibly a port.
fn is_page_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |c: u8| c.is_ascii_alphanumeric() || b"-.:[]".contains(&c);
    rest.is_some_and(|host| !host.is_empty() && host.bytes().all(is_host))
}

impl Default for Grant {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_empty_and_each_setter_adds_one_power() {
        let none = Grant::none();
        assert_eq!(none, Grant::default());
        assert!(none.environment().variables().is_empty() && none.command_line().arguments().is_empty());
        assert_eq!((none.clock(), none.seed(), none.state()), (ClockStep::DEFAULT, None, false));
        let environment = Environment::none().with("A", "1").unwrap();
        let all = none
            .with_state()
            .with_environment(environment.clone())
            .with_command_line(CommandLine::new(["tool"]).unwrap())
            .with_clock(ClockStep::MIN)
            .with_fixed_time(Duration::from_secs(7))
            .with_seed(Seed::from(1))
            .with_key_value(KeyValueQuota::new(1024).unwrap());
        assert_eq!((all.environment(), all.clock(), all.seed()), (&environment, ClockStep::MIN, Some(&Seed::from(1))));
        assert_eq!((Grant::none().fixed_time(), all.fixed_time()), (None, Some(Duration::from_secs(7))));
        assert!(all.state() && all.key_value().is_some() && Grant::none().key_value().is_none());
    }

    #[test]
    fn each_power_has_a_line_of_its_own() {
        let rules = vec!["https://a.example/**".parse().unwrap()];
        let http = HttpGrant::new(rules, Vec::new(), Default::default()).unwrap();
        let none = Grant::none;
        let singles = [
            none().with_state(),
            none().with_environment(Environment::none().with("A", "1").unwrap()),
            none().with_command_line(CommandLine::new(["tool"]).unwrap()),
            none().with_clock(ClockStep::MIN),
            none().with_fixed_time(Duration::from_secs(7)),
            none().with_seed(Seed::from(1)),
            none().with_key_value(KeyValueQuota::new(1024).unwrap()),
            none().with_folder(Folder::read("./docs:/docs").unwrap()).unwrap(),
            none().with_scratch(Quota::default()).unwrap(),
            none().with_http(http),
            none()
                .with_tcp(TcpGrant::new(vec!["a.example:1".parse().unwrap()], Vec::new(), Default::default()).unwrap()),
            none().with_pages(Vec::new()).unwrap(),
        ];
        let mut lines: Vec<String> = singles.iter().flat_map(|single| single.lines(None)).collect();
        assert!(singles.iter().all(|single| single.lines(None).len() == 1), "{lines:?}");
        lines.dedup();
        assert_eq!(lines.len(), singles.len());
        // A new field belongs into the list above. Secrets and capabilities have tests of their own.
        let Grant {
            state: _,
            environment: _,
            command_line: _,
            clock: _,
            fixed_time: _,
            seed: _,
            key_value: _,
            folders: _,
            scratch: _,
            http: _,
            tcp: _,
            secrets: _,
            page_origins: _,
            capabilities: _,
        } = none();
    }

    #[test]
    fn rejects_two_folders_with_one_guest_path() {
        fn scratch() -> Folder {
            Folder::read("./x:/scratch").unwrap()
        }

        fn docs() -> Folder {
            Folder::read("./docs:/docs").unwrap()
        }

        let grant = Grant::none().with_folder(docs()).unwrap();
        assert_eq!(grant.clone().with_folder(docs()), Err(GrantError::duplicate_folder("/docs")));
        let duplicate = Err(GrantError::duplicate_folder(SCRATCH));
        assert_eq!(Grant::none().with_scratch(Quota::default()).unwrap().with_folder(scratch()), duplicate);
        assert_eq!(Grant::none().with_folder(scratch()).unwrap().with_scratch(Quota::default()), duplicate);
    }
}
