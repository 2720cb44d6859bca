//! Credentials for registries, from the files and helpers of Docker and Podman.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use zeroize::Zeroizing;

/// Maximum size of a file with credentials, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum time that a helper may take, in seconds: it may ask a person.
const MAX_HELPER_SECONDS: u64 = 60;
/// Variable with the folder of Docker's configuration.
const DOCKER_FOLDER: &str = "DOCKER_CONFIG";
/// Variable with Podman's file.
const PODMAN_FILE: &str = "REGISTRY_AUTH_FILE";

/// A credential. It is cleared from memory when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// An identity token, which is exchanged for tokens with an OAuth 2 server.
    IdentityToken(Zeroizing<String>),
}

/// The places where credentials are looked for.
#[derive(Debug, Clone, Default)]
pub struct CredentialSource {
    files: Vec<PathBuf>,
    fixed: Vec<(String, Credential)>,
}

/// An error of looking for credentials. No message repeats any part of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("cannot read the credentials in {path}: {reason}; log in again, or repair the file")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The helper failed.
    #[error("the credential helper in {path} for {host} failed: {reason}; run `docker-credential-…  get` to see why")]
    Helper {
        /// The file.
        path: PathBuf,
        /// The registry.
        host: String,
        /// The reason.
        reason: &'static str,
    },
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic { user, .. } => write!(f, "Basic({user}, …)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(…)"),
        }
    }
}

impl CredentialSource {
    /// Creates a source without any credentials.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a source that reads the files of Podman and Docker, in this order, where they are by default or where
    /// `REGISTRY_AUTH_FILE` and `DOCKER_CONFIG` say.
    #[must_use]
    pub fn standard(environment: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let path = |variable: &str| environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME");
        let docker = path(DOCKER_FOLDER).or_else(|| Some(home.as_ref()?.join(".docker")));
        let mut files = Vec::new();
        match path(PODMAN_FILE) {
            Some(file) => files.push(file),
            None => {
                files.extend(path("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")));
                files.extend(home.as_ref().map(|home| home.join(".config/containers/auth.json")));
            }
        }
        files.extend(docker.map(|folder| folder.join("config.json")));
        Self { files, fixed: Vec::new() }
    }

    /// Adds a file in Docker's format.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Adds a credential for a host, which takes precedence over files.
    #[must_use]
    pub fn credential(mut self, host: impl Into<String>, credential: Credential) -> Self {
        self.fixed.push((host.into(), credential));
        self
    }

    /// Finds the credential for a repository: the most specific entry of the first file that has one. Helpers are started
    /// on a thread of their own.
    ///
    /// # Errors
    /// If a file cannot be read, or a helper fails.
    pub(crate) async fn find(&self, host: &str, repository: &str) -> Result<Option<Credential>, CredentialError> {
        if let Some((_, credential)) = self.fixed.iter().find(|(fixed, _)| fixed == host) {
            return Ok(Some(credential.clone()));
        }
        for path in &self.files {
            let Some(bytes) = read(path)? else { continue };
            let keys = keys(host, repository);
            let file = path.clone();
            let owned_host = host.to_owned();
            let (sender, search) = tokio::sync::oneshot::channel();
            // A thread of its own: a runtime that is dropped would wait for a helper that never ends.
            std::thread::spawn(move || drop(sender.send(search_file(&file, &owned_host, &bytes, &keys))));
            let helper = |reason| CredentialError::Helper { path: path.clone(), host: host.to_owned(), reason };
            let found = tokio::time::timeout(Duration::from_secs(MAX_HELPER_SECONDS), search).await;
            let found = found.map_err(|_| helper("it took too long"))?;
            if let Some(credential) = found.map_err(|_| helper("it ended unexpectedly"))?? {
                return Ok(Some(credential));
            }
        }
        Ok(None)
    }
}

/// Returns the keys that a file may have an entry under, the most specific one first (containers-auth.json(5)).
fn keys(host: &str, repository: &str) -> Vec<String> {
    let mut keys = vec![format!("{host}/{repository}")];
    let mut rest = repository;
    while let Some((shorter, _)) = rest.rsplit_once('/') {
        keys.push(format!("{host}/{shorter}"));
        rest = shorter;
    }
    keys.push(host.to_owned());
    keys
}

fn search_file(path: &Path, host: &str, bytes: &[u8], keys: &[String]) -> Result<Option<Credential>, CredentialError> {
    // Helpers know hosts only; asking them for every key would start them several times.
    for key in keys {
        let has_entry = key == host || mentions(bytes, key);
        if !has_entry {
            continue;
        }
        match docker_credential::get_credential_from_reader(bytes, key) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                return Ok(Some(Credential::Basic { user, password: Zeroizing::new(password) }));
            }
            Ok(DockerCredential::IdentityToken(token)) => {
                return Ok(Some(Credential::IdentityToken(Zeroizing::new(token))));
            }
            Err(error) => missing_or_error(path, host, &error)?,
        }
    }
    Ok(None)
}

/// Returns whether a file has an entry of its own under a key.
fn mentions(bytes: &[u8], key: &str) -> bool {
    let file: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    let has = |name: &str, file: &serde_json::Value| file.get(name).and_then(|entries| entries.get(key)).is_some();
    file.is_ok_and(|file| has("auths", &file) || has("credHelpers", &file))
}

/// Returns an error unless it only says that there is no credential.
fn missing_or_error(path: &Path, host: &str, error: &CredentialRetrievalError) -> Result<(), CredentialError> {
    let file = |reason: &str| Err(CredentialError::File { path: path.to_owned(), reason: reason.to_owned() });
    let helper = |reason| Err(CredentialError::Helper { path: path.to_owned(), host: host.to_owned(), reason });
    match error {
        CredentialRetrievalError::NoCredentialConfigured | CredentialRetrievalError::ConfigNotFound => Ok(()),
        // Every helper says so in these words.
        CredentialRetrievalError::HelperFailure { stdout, stderr, .. }
            if format!("{stdout}{stderr}").contains("not found") =>
        {
            Ok(())
        }
        CredentialRetrievalError::HelperFailure { .. } => helper("it ended with an error"),
        CredentialRetrievalError::HelperCommunicationError => helper("it cannot be started"),
        CredentialRetrievalError::MalformedHelperResponse => helper("its answer is malformed"),
        CredentialRetrievalError::CredentialMismatchError => file("an entry has two different credentials"),
        CredentialRetrievalError::CredentialDecodingError => file("an entry is malformed"),
        CredentialRetrievalError::ConfigReadError => file("it is not JSON in the expected form"),
    }
}

fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, CredentialError> {
    let failed = |reason: String| CredentialError::File { path: path.to_owned(), reason };
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failed(error.to_string()))?,
    };
    let mut bytes = Zeroizing::new(Vec::new());
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    let size = read.map_err(|error| failed(error.to_string()))? as u64;
    if size > MAX_FILE_BYTES {
        Err(failed(format!("it has more than {MAX_FILE_BYTES} bytes")))
    } else {
        Ok(Some(bytes))
    }
}
