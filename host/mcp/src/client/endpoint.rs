//! Endpoints of servers: programs to start, and URLs.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use fumehood_core::call::Refusal;
use fumehood_transport::Url;

use fumehood_server::Token;

use super::oauth::OAuthOptions;

/// The endpoint of a server.
///
/// ```
/// use fumehood_mcp::{Credentials, Endpoint, Launch, Token, check_address};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The environment of the program has nothing else of this process than `PATH`, `HOME`, `LANG` and `TZ`.
/// let arguments = vec!["--local-timezone=Europe/Vienna".to_owned()];
/// let _program = Endpoint::Process(Launch { program: "mcp-server-time".into(), arguments, ..Launch::default() });
///
/// let url = "https://mcp.example.com/mcp".to_owned();
/// check_address(&url, true)?;
/// let _server = Endpoint::Http { url, credentials: Credentials::Token(Token::from_foreign("0123456789abcdef")?) };
/// // A token would cross the network unencrypted.
/// assert!(check_address("http://mcp.example.com/mcp", true).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A program that speaks MCP over its standard input and output. It ends with the connection.
    Process(Launch),
    /// A server over streamable HTTP.
    Http {
        /// The URL, with the scheme `http` or `https`.
        url: String,
        /// The credentials to send.
        credentials: Credentials,
    },
}

impl Endpoint {
    /// Returns the sandbox of its program.
    pub(super) fn sandbox(&self) -> Option<&dyn LaunchSandbox> {
        match self {
            Self::Process(launch) => launch.sandbox.as_deref(),
            Self::Http { .. } => None,
        }
    }

    /// Returns the way to log in at this server; `None` without OAuth.
    pub(super) fn login_hint(&self) -> Option<&str> {
        match self {
            Self::Http { credentials: Credentials::OAuth(options), .. } => Some(&options.hint),
            _ => None,
        }
    }
}

/// The credentials for a server at a URL.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Credentials {
    /// None.
    #[default]
    None,
    /// A bearer token that was configured.
    Token(Token),
    /// Access tokens of a login at its authorization server. Before a login it is asked without one.
    OAuth(OAuthOptions),
}

/// The command line and environment of a program.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The program: a path, or a name that is searched in `PATH`.
    pub program: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// Its environment besides `PATH`, `HOME`, `LANG` and `TZ`, which it inherits from this process. Nothing else is
    /// inherited. A sandbox may replace `HOME`.
    pub environment: Vec<(String, String)>,
    /// The working directory; `None` for that of this process.
    pub folder: Option<PathBuf>,
    /// A program that starts it, see [`end_with_parent`](crate::end_with_parent). Without one, a program that does not
    /// exit at the end of its input outlives this process if that is killed.
    pub wrapper: Option<LaunchWrapper>,
    /// The sandbox in which it is started, in place of the wrapper; `None` for none.
    pub sandbox: Option<Arc<dyn LaunchSandbox>>,
}

/// A sandbox for the program of one server.
pub trait LaunchSandbox: fmt::Debug + Send + Sync {
    /// Prepares one start of the program. Called within a tokio runtime.
    ///
    /// # Errors
    /// If the sandbox cannot be set up.
    fn prepare(&self) -> io::Result<SandboxedLaunch>;

    /// Returns the number of attempts of the program that the sandbox refused, in all of its starts.
    fn refusal_count(&self) -> u64;

    /// Returns the refused attempts after the first `count`, as far as they are known.
    fn refusals_since(&self, count: u64) -> Vec<Refusal>;
}

/// One start of a program in a sandbox.
pub struct SandboxedLaunch {
    /// The program that starts it. It ends all processes of the program when it is terminated (`SIGTERM`), or this process
    /// ends.
    pub wrapper: LaunchWrapper,
    /// Variables of the program, which those of [`Launch::environment`] replace.
    pub environment: Vec<(String, String)>,
    /// Dropped once the program is gone.
    pub guard: Box<dyn Send + Sync>,
}

impl fmt::Debug for SandboxedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may have a password.
        f.debug_struct("SandboxedLaunch").field("wrapper", &self.wrapper).finish_non_exhaustive()
    }
}

/// A program that gets a command line after arguments of its own, and becomes the program in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchWrapper {
    /// The program.
    pub program: PathBuf,
    /// The arguments before the command line.
    pub arguments: Vec<String>,
}

/// Errors returned by [`check_address`]. The URL is not repeated: it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not a URL with the scheme `http` or `https` and a host.
    #[error("invalid URL; expected one such as https://mcp.example.com/mcp")]
    NotHttp,
    /// A user or a password in the URL, which is displayed and logged.
    #[error("the URL contains a user or a password; use a token or a header instead")]
    Credentials,
    /// A secret that would be sent unencrypted to another machine.
    #[error("a token or a secret header would be sent unencrypted to another machine; use https")]
    InTheOpen,
}

/// Validates the URL of a server. `with_secret` is true if a token or a secret header is sent to it.
///
/// # Errors
/// If the URL is invalid, contains credentials, or would send the secret over plain HTTP to another machine.
pub fn check_address(address: &str, with_secret: bool) -> Result<(), AddressError> {
    let url = Url::parse(address).map_err(|_| AddressError::NotHttp)?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(AddressError::NotHttp);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials);
    }
    if with_secret && url.scheme() == "http" && !is_loopback_url(&url) {
        return Err(AddressError::InTheOpen);
    }
    Ok(())
}

fn is_loopback_url(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_rejection(address: &str, with_secret: bool, expected: Option<AddressError>) {
        assert_eq!(check_address(address, with_secret).err(), expected, "{address}");
    }

    #[test]
    fn requires_tls_for_secrets_beyond_loopback() {
        check_rejection("https://mcp.example.com/mcp", true, None);
        check_rejection("http://mcp.example.com/mcp", false, None);
        check_rejection("http://mcp.example.com/mcp", true, Some(AddressError::InTheOpen));
        for here in ["http://127.0.0.1:8080/mcp", "http://localhost/mcp", "http://[::1]:1/"] {
            check_rejection(here, true, None);
        }
        check_rejection("http://localhost.example.com/", true, Some(AddressError::InTheOpen));
        check_rejection("https://me:secret@example.com/", false, Some(AddressError::Credentials));
        for none in ["", "mcp.example.com", "ftp://example.com/", "file:///etc/passwd", "http://"] {
            check_rejection(none, false, Some(AddressError::NotHttp));
        }
    }
}
