//! The file of a server's tokens, which belongs to this user alone.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fumehood_core::boxed::BoxFuture;
use fumehood_platform::private;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use super::ClientSecret;

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// A file of tokens for one server.
#[derive(Debug, Clone)]
pub(super) struct CredentialFile {
    path: PathBuf,
    /// The URL of the server. Tokens of another one are not used.
    server: String,
    /// Written with the tokens.
    origin: Origin,
    /// True if this process keeps others waiting already, so that a refresh need not.
    is_held: bool,
}

/// The origin of tokens, as the login found it. Later findings do not change it, because a server may name anybody.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    /// The identifier of the authorization server.
    pub(super) issuer: Option<String>,
    /// The secret that the authorization server gave the client when it registered itself.
    pub(super) client_secret: Option<ClientSecret>,
    /// The endpoint that issued the tokens. It gets the token for refreshes, and the secret.
    pub(super) token_endpoint: Option<String>,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Content {
    server: String,
    credentials: StoredCredentials,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
}

impl CredentialFile {
    pub(super) fn new(path: &Path, server: &str) -> Self {
        Self::with_origin(path, server, Origin::default())
    }

    /// Keeps where the tokens are from, too.
    pub(super) fn with_origin(path: &Path, server: &str, origin: Origin) -> Self {
        Self { path: path.to_owned(), server: server.to_owned(), origin, is_held: false }
    }

    /// Lets refreshes go on without a lock, because [`Self::hold`] has it.
    pub(super) fn held(self) -> Self {
        Self { is_held: true, ..self }
    }

    /// Waits until no other process refreshes these tokens, and keeps others waiting until the result is dropped.
    ///
    /// # Errors
    /// If the lock cannot be opened.
    pub(super) async fn hold(&self) -> Result<File, AuthError> {
        blocking(self, Self::lock).await
    }

    /// Reads the tokens; `None` if there are none for this server.
    ///
    /// # Errors
    /// If the file cannot be read, others can read it, or it has another form.
    pub(super) fn read(&self) -> io::Result<Option<StoredCredentials>> {
        Ok(self.read_all()?.map(|(credentials, _)| credentials))
    }

    /// Reads the tokens, and where they are from.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(super) fn read_all(&self) -> io::Result<Option<(StoredCredentials, Origin)>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error.to_string())),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() || private::is_open_to_others(&metadata) {
            return Err(self.failed("other users can read it; remove it and log in again"));
        }
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
        let content: Content = serde_json::from_slice(&text)
            .map_err(|_| self.failed("it has an unknown format; remove it and log in again"))?;
        let client_secret = content.client_secret.map(ClientSecret::new);
        // Logins of before have the issuer among the tokens only.
        let issuer = content.issuer.or_else(|| match content.token_endpoint {
            None => content.credentials.issuer.clone(),
            Some(_) => None,
        });
        let origin = Origin { issuer, client_secret, token_endpoint: content.token_endpoint };
        Ok((content.server == self.server).then_some((content.credentials, origin)))
    }

    /// Writes the tokens beside the file, and renames the result over it.
    fn write(&self, credentials: StoredCredentials) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let Origin { issuer, client_secret, token_endpoint } = self.origin.clone();
        let client_secret = client_secret.map(|secret| secret.reveal().to_owned());
        let content = Content { server: self.server.clone(), credentials, client_secret, token_endpoint, issuer };
        let text = serde_json::to_vec(&content).map_err(|error| self.failed(&error.to_string()))?;
        if let Some(folder) = self.path.parent() {
            private::create_folders(folder)?;
        }
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let new = self.path.with_extension(format!("{}-{number}", std::process::id()));
        let written = private::write_options().create_new(true).open(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        });
        if written.is_err() {
            let _never_created = fs::remove_file(&new);
        }
        written?;
        private::sync_parent(&self.path)
    }

    /// Removes the tokens. Returns whether there were any.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub(super) fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> io::Result<File> {
        let file = private::write_options().create(true).truncate(false).open(self.path.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn failed(&self, why: &str) -> io::Error {
        io::Error::other(format!("the tokens in {}: {why}", self.path.display()))
    }
}

/// Runs something that may wait for the disk.
async fn blocking<T: Send + 'static>(
    file: &CredentialFile,
    work: impl FnOnce(&CredentialFile) -> io::Result<T> + Send + 'static,
) -> Result<T, AuthError> {
    let file = file.clone();
    let done = tokio::task::spawn_blocking(move || work(&file)).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| AuthError::CredentialStoreError(error.to_string()))
}

impl CredentialStore for CredentialFile {
    fn load<'a, 'f>(&'a self) -> BoxFuture<'f, Result<Option<StoredCredentials>, AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(blocking(self, Self::read))
    }

    fn save<'a, 'f>(&'a self, credentials: StoredCredentials) -> BoxFuture<'f, Result<(), AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(blocking(self, |file| file.write(credentials)))
    }

    fn clear<'a, 'f>(&'a self) -> BoxFuture<'f, Result<(), AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(blocking(self, |file| file.remove().map(drop)))
    }

    fn acquire_refresh_guard<'a, 'f>(&'a self) -> BoxFuture<'f, Result<Option<CredentialRefreshGuard>, AuthError>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async {
            if self.is_held { Ok(None) } else { self.hold().await.map(|lock| Some(CredentialRefreshGuard::new(lock))) }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keeps_tokens_for_one_server_and_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oauth/tokens.json");
        let file = CredentialFile::new(&path, "https://a.example/mcp");
        assert!(file.read().unwrap().is_none());
        let credentials = StoredCredentials::new("client".to_owned(), None, Vec::new(), None);
        file.write(credentials.clone()).unwrap();
        file.write(credentials).unwrap();
        assert_eq!(file.read().unwrap().unwrap().client_id, "client");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("oauth")).unwrap().count(), 1);
        assert!(CredentialFile::new(&path, "https://b.example/mcp").read().unwrap().is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("log in again"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "[]").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("log in again"));
        assert!(file.remove().unwrap() && !file.remove().unwrap());
    }
}
