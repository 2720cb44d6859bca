//! The powers of one tool.

use super::files::{Folder, FolderError, Quota, SCRATCH};
use super::http::{HttpGrant, Scheme};
use super::secret::{Secret, SecretGrantError};
use super::{ClockStep, CommandLine, Environment, KeyValueQuota, Seed};

/// The powers of one tool. It starts from nothing, and only the operator's own code adds to it.
///
/// Whatever is not granted here is linked all the same, because language runtimes import all of WASI whether they use
/// it or not, and refuses at use: no folders, no network, no environment, no arguments, an empty stdin, clocks that
/// tick in whole milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    state: bool,
    environment: Environment,
    command_line: CommandLine,
    clock: ClockStep,
    seed: Option<Seed>,
    key_value: Option<KeyValueQuota>,
    folders: Vec<Folder>,
    scratch: Option<Quota>,
    http: Option<HttpGrant>,
    secrets: Vec<Secret>,
}

impl Grant {
    /// Nothing: no files, no network, no environment, no secrets, no agent state.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            state: false,
            environment: Environment::none(),
            command_line: CommandLine::none(),
            clock: ClockStep::DEFAULT,
            seed: None,
            key_value: None,
            folders: Vec::new(),
            scratch: None,
            http: None,
            secrets: Vec::new(),
        }
    }

    /// Adds: may read the snapshot of the agent's state that comes with a call.
    #[must_use]
    pub const fn with_state(mut self) -> Self {
        self.state = true;
        self
    }

    /// Adds: sees a folder.
    ///
    /// # Errors
    /// If it sees another one in that place already.
    pub fn with_folder(mut self, folder: Folder) -> Result<Self, FolderError> {
        let taken = self.folders.iter().any(|other| other.guest() == folder.guest())
            || (self.scratch.is_some() && folder.guest() == SCRATCH);
        if taken {
            return Err(FolderError::Twice(folder.guest().to_owned()));
        }
        self.folders.push(folder);
        Ok(self)
    }

    /// Adds: has an empty folder of its own at [`SCRATCH`] for the time of one call.
    ///
    /// # Errors
    /// If it sees another folder in that place already.
    pub fn with_scratch(mut self, quota: Quota) -> Result<Self, FolderError> {
        if self.folders.iter().any(|folder| folder.guest() == SCRATCH) {
            return Err(FolderError::Twice(SCRATCH.to_owned()));
        }
        self.scratch = Some(quota);
        Ok(self)
    }

    /// The folders that it sees.
    #[must_use]
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// How much it may put into its scratch space, if it has any.
    #[must_use]
    pub const fn scratch(&self) -> Option<Quota> {
        self.scratch
    }

    /// May it read the snapshot of the agent's state?
    #[must_use]
    pub const fn state(&self) -> bool {
        self.state
    }
}

/// Environment, command line, clocks, randomness, and a private store.
impl Grant {
    /// Gives it these environment variables, instead of any given before.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Its environment variables.
    #[must_use]
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Gives it this command line, instead of any given before.
    #[must_use]
    pub fn with_command_line(self, command_line: CommandLine) -> Self {
        Self { command_line, ..self }
    }

    /// Its command line.
    #[must_use]
    pub const fn command_line(&self) -> &CommandLine {
        &self.command_line
    }

    /// Gives it clocks of this step, finer or coarser than the usual millisecond.
    #[must_use]
    pub const fn with_clock(mut self, step: ClockStep) -> Self {
        self.clock = step;
        self
    }

    /// The smallest step of its clocks.
    #[must_use]
    pub const fn clock(&self) -> ClockStep {
        self.clock
    }

    /// Draws its randomness from a seed: every call gets the same numbers.
    #[must_use]
    pub fn with_seed(self, seed: Seed) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// What its randomness is drawn from; `None` if it is real.
    #[must_use]
    pub const fn seed(&self) -> Option<&Seed> {
        self.seed.as_ref()
    }

    /// Adds: may keep so much in a store of keys and values of its own.
    #[must_use]
    pub const fn with_key_value(mut self, quota: KeyValueQuota) -> Self {
        self.key_value = Some(quota);
        self
    }

    /// How much it may keep in its store; `None` if it has none.
    #[must_use]
    pub const fn key_value(&self) -> Option<KeyValueQuota> {
        self.key_value
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
        if !http.rules().iter().any(|rule| rule.target().meets(secret.target())) {
            return Err(SecretGrantError::NoRule { name, target: Box::new(secret.target().clone()) });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_nothing_and_each_builder_adds_one_power() {
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
            .with_seed(Seed::from(1))
            .with_key_value(KeyValueQuota::new(1024).unwrap());
        assert_eq!(
            (all.environment(), all.clock(), all.seed()),
            (&environment, ClockStep::MIN, Some(&Seed::from(1)))
        );
        assert!(all.state() && all.key_value().is_some() && Grant::none().key_value().is_none());
    }

    #[test]
    fn every_folder_has_a_place_of_its_own() {
        let docs = || Folder::read("./docs:/docs").unwrap();
        let grant = Grant::none().with_folder(docs()).unwrap();
        assert_eq!(grant.clone().with_folder(docs()), Err(FolderError::Twice("/docs".to_owned())));
        let scratch = || Folder::read("./x:/scratch").unwrap();
        let twice = Err(FolderError::Twice(SCRATCH.to_owned()));
        assert_eq!(Grant::none().with_scratch(Quota::default()).unwrap().with_folder(scratch()), twice);
        assert_eq!(Grant::none().with_folder(scratch()).unwrap().with_scratch(Quota::default()), twice);
    }
}
