//! Where a server is.

use std::path::PathBuf;

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
    pub through: Option<Through>,
}

/// A program that is given a command line, after arguments of its own, and becomes the program in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The program.
    pub program: PathBuf,
    /// Its arguments before the command line.
    pub arguments: Vec<String>,
}

impl Endpoint {
    /// For people: the address, or the program.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Process(launch) => launch.program.display().to_string(),
            Self::Http { url, .. } => url.clone(),
        }
    }
}
