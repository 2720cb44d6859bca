//! The `fumehood` command line tool.

mod args;
mod commands;
mod config;
mod configured;
mod exit;
mod host;
mod power_arguments;
mod render;
mod value;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Arguments, Command};
use exit::Exit;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.color.write_global();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return render::failure(&anyhow::Error::new(error), arguments.json, Exit::Host),
    };
    let ended = runtime.block_on(async {
        match &arguments.command {
            Command::Demo => commands::demo::run(&arguments).await,
            Command::Inspect(inspect) => commands::inspect::run(&arguments, inspect).await,
            Command::Call(call) => commands::call::run(&arguments, call).await,
            Command::Approve(approve) => commands::approve::run(&arguments, approve).await,
            Command::Config(configuration) => commands::config::run(&arguments, configuration),
            Command::Completions { shell } => commands::completions::run(*shell),
        }
    });
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = exit::of_error(&error);
            render::failure(&error, arguments.json, exit)
        }
    }
}
