//! `fumehood completions`: a completion script for a shell.

use anyhow::Result;
use clap::CommandFactory as _;

use crate::args::Arguments;
use crate::exit::Exit;

pub(crate) fn run(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "fumehood", &mut script);
    crate::render::bytes(&script)?;
    Ok(Exit::Ok)
}
