//! `fumehood mcp login` and `logout`: the tokens of an MCP server's authorization server.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use fumehood::mcp::{Login, logout as forget_tokens};
use fumehood::sanitize::printable;

use crate::app::App;
use crate::args::{Arguments, Login as TypedLogin, Logout as TypedLogout};
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::render;
use crate::servers::{self, Server};

/// Program that opens an address in the user's browser.
const OPENER: &str = "xdg-open";

pub(crate) async fn login(arguments: &Arguments, typed: &TypedLogin) -> Result<Exit> {
    let app = App::open(arguments)?;
    let server = find(&app.config, &typed.name)?;
    // Nothing is asked of a server before somebody has seen where it is.
    if server.reason_not_to_start(app.lock()?).is_some() {
        let message = format!(
            "the address of the MCP server `{0}` is not approved, or changed; review it with `fumehood approve {0}`",
            server.name
        );
        return Err(UsageError(message).into());
    }
    let (url, options) = server.login(&app.config)?;
    let login = Login::begin(&url, &options).await.with_context(|| format!("cannot log in at `{}`", server.name))?;
    render::note("open this URL in a browser on this machine, and log in:");
    render::note(login.url());
    if typed.open {
        open(login.url());
    }
    login.finish(typed.timeout).await.with_context(|| format!("cannot log in at `{}`", server.name))?;
    render::note(&format!("logged in at `{}`; log out with `fumehood mcp logout {0}`", server.name));
    Ok(Exit::Ok)
}

pub(crate) fn logout(arguments: &Arguments, typed: &TypedLogout) -> Result<Exit> {
    let app = App::open(arguments)?;
    let server = find(&app.config, &typed.name)?;
    let options = server.logout(&app.config)?;
    let note = if forget_tokens(&options).context("the tokens cannot be removed")? {
        format!("the tokens of `{}` were removed here; the server may accept them until they expire", server.name)
    } else {
        format!("you were not logged in at `{}`", server.name)
    };
    render::note(&note);
    Ok(Exit::Ok)
}

fn find(config: &Config, name: &str) -> Result<Server> {
    let missing = || UsageError(format!("the configuration has no [mcp.servers.{}]", printable(name)));
    Ok(servers::find(config, name)?.ok_or_else(missing)?)
}

/// Opens an address with the desktop's own program. A failure is a warning: the address was printed.
fn open(url: &str) {
    let mut opener = Command::new(OPENER);
    opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = opener.spawn() {
        render::warning(&format!("cannot run `{OPENER}`: {error}"));
    }
}
