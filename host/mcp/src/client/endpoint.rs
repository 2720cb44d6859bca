//! Where a server is.

use std::path::PathBuf;

use reqwest::Url;

use crate::http::Token;

/// A server: a program to start, or an address.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A program that speaks over its standard input and output. It ends with the connection.
    Process(Launch),
    /// A streamable HTTP server.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// What to show it.
        token: Option<Token>,
    },
}

/// How a program is started.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The program: a path, or a name to be looked for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, besides `PATH`, `HOME`, `LANG` and `TZ`, which it has from this process. Nothing else is handed
    /// on.
    pub environment: Vec<(String, String)>,
    /// Where it runs; where this process does, if not said.
    pub folder: Option<PathBuf>,
    /// A program that becomes it: see [`end_with_parent`](crate::end_with_parent). Without one, a program that does not
    /// look whether its input has ended outlives this process where that is killed.
    pub wrapper: Option<LaunchWrapper>,
}

/// A program that is given a command line, after arguments of its own, and becomes the program in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchWrapper {
    /// The program.
    pub program: PathBuf,
    /// Its arguments before the command line.
    pub arguments: Vec<String>,
}

impl Endpoint {
    /// For people: the address, or the program.
    #[must_use]
    pub fn display_name(&self) -> String {
        match self {
            Self::Process(launch) => launch.program.display().to_string(),
            Self::Http { url, .. } => url.clone(),
        }
    }
}

/// Why no server is asked there. The address is not repeated: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no address of the web.
    #[error("the address is not one such as https://mcp.example.com/mcp")]
    NotHttp,
    /// It holds what is secret, in a place that is shown and logged.
    #[error("the address has a user or a password in it; give a token or a header instead")]
    Credentials,
    /// Anybody on the way could read it.
    #[error("a token or a secret header would travel over plain http to another machine; use https")]
    InTheOpen,
}

/// Looks at the address of a server, to which something secret is sent or not.
///
/// # Errors
/// If no server can be there, or the secret would be seen by others on the way.
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

    #[test]
    fn secrets_go_to_this_machine_or_over_tls() {
        let check = |address: &str, with_secret: bool, expected: Option<AddressError>| {
            assert_eq!(check_address(address, with_secret).err(), expected, "{address}");
        };
        check("https://mcp.example.com/mcp", true, None);
        check("http://mcp.example.com/mcp", false, None);
        check("http://mcp.example.com/mcp", true, Some(AddressError::InTheOpen));
        for here in ["http://127.0.0.1:8080/mcp", "http://localhost/mcp", "http://[::1]:1/"] {
            check(here, true, None);
        }
        check("http://localhost.example.com/", true, Some(AddressError::InTheOpen));
        check("https://me:secret@example.com/", false, Some(AddressError::Credentials));
        for none in ["", "mcp.example.com", "ftp://example.com/", "file:///etc/passwd", "http://"] {
            check(none, false, Some(AddressError::NotHttp));
        }
    }
}
