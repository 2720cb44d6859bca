//! The powers of one tool.

use super::http::{HttpGrant, Scheme};
use super::secret::{Secret, SecretGrantError};

/// The powers of one tool. It starts from nothing, and only the operator's own code adds to it.
///
/// Whatever is not granted here is linked all the same, because language runtimes import all of WASI whether they use
/// it or not, and refuses at use: no folders, no network, no environment, no arguments, an empty stdin, clocks that
/// tick in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    state: bool,
    http: Option<HttpGrant>,
    secrets: Vec<Secret>,
}

impl Grant {
    /// Nothing: no files, no network, no environment, no secrets, no agent state.
    #[must_use]
    pub const fn none() -> Self {
        Self { state: false, http: None, secrets: Vec::new() }
    }

    /// Adds: may read the snapshot of the agent's state that comes with a call.
    #[must_use]
    pub const fn with_state(mut self) -> Self {
        self.state = true;
        self
    }

    /// May it read the snapshot of the agent's state?
    #[must_use]
    pub const fn state(&self) -> bool {
        self.state
    }
}

/// Requests, and the secrets that go into them.
impl Grant {
    /// Allows these requests, instead of any allowed before.
    #[must_use]
    pub fn with_http(self, http: HttpGrant) -> Self {
        Self { http: Some(http), ..self }
    }

    /// The requests that it may make.
    #[must_use]
    pub const fn http(&self) -> Option<&HttpGrant> {
        self.http.as_ref()
    }

    /// Adds: the host puts this secret into the requests that it is for. Requests are granted first.
    ///
    /// # Errors
    /// If the secret could never be used, would travel where everybody can read it, or has another's name.
    pub fn with_secret(mut self, secret: Secret) -> Result<Self, SecretGrantError> {
        let name = secret.name().to_owned();
        if self.secrets.iter().any(|other| other.name() == name) {
            return Err(SecretGrantError::Taken(name));
        }
        let Some(http) = &self.http else {
            return Err(SecretGrantError::NoRequests(name));
        };
        if secret.target().scheme() == Scheme::Http && http.private().is_empty() {
            return Err(SecretGrantError::Readable(name));
        }
        self.secrets.push(secret);
        Ok(self)
    }

    /// The secrets that the host puts into its requests.
    #[must_use]
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }
}

impl Default for Grant {
    fn default() -> Self {
        Self::none()
    }
}
