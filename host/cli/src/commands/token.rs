//! `fumehood token`: tokens of the clients of `serve`.

use anyhow::Result;
use fumehood::listener;
use fumehood::sanitize::printable;
use serde::Serialize;

use crate::args::{Arguments, Token};
use crate::config::tenant::is_name;
use crate::exit::{Exit, UsageError};
use crate::render;

/// A new token, for `--json`.
#[derive(Serialize)]
struct NewToken<'a> {
    name: &'a str,
    token: &'a str,
    digest: String,
}

pub(crate) fn run(arguments: &Arguments, token: &Token) -> Result<Exit> {
    let Token::New { name } = token;
    if !is_name(name) {
        let message = format!(
            "invalid tenant name `{}`; expected at most 64 letters, digits, `.`, `_`, `-` and `@`",
            printable(name)
        );
        return Err(UsageError(message).into());
    }
    let token = listener::Token::generate()?;
    let made = NewToken { name, token: token.reveal(), digest: token.digest().to_string() };
    if arguments.json {
        render::json(&made)?;
        return Ok(Exit::Ok);
    }
    let section = if name.contains(['.', '@']) { format!("\"{name}\"") } else { name.clone() };
    render::note_lines(&format!(
        "add this to fumehood.toml; the token itself is not shown again\n\n[tenants.{section}]\ntokens = [\"{}\"]\n",
        made.digest
    ));
    render::line(made.token)?;
    Ok(Exit::Ok)
}
