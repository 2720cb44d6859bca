//! The `fumehood` command line tool: [`main`] is all of it.
//!
//! This crate is not meant to be built on: it is a library so that the parser of configurations can be fuzzed apart
//! from the program. Embedders use the crate `fumehood`.

mod agent;
mod app;
mod args;
#[cfg(test)]
mod book;
#[cfg(feature = "cell")]
mod cell;
mod commands;
mod config;
mod configuration_file;
mod configured;
mod exit;
mod flags;
mod flows;
mod grants;
mod hooks;
mod host;
mod hostile_env;
mod isolation;
mod jail;
mod list_notices;
mod log_place;
mod log_space;
mod logging;
mod moment;
mod packages;
mod persist_rules;
mod plot;
mod power_arguments;
mod protected_files;
mod published;
#[cfg(feature = "cell")]
mod pushed_components;
mod question;
mod recording;
mod registry;
mod render;
mod servers;
mod service_manager;
mod signals;
mod signing_key;
mod source;
#[cfg(feature = "postgres")]
mod storage_server;
mod telemetry;
mod text_file;
mod trust;
mod user_folders;

use std::process::ExitCode;

use args::Command;
use config::logging::LoggingSection;
use exit::Exit;

/// Number of tasks that run before sockets are looked at again. With the default of 61, a request of one client of a
/// server is not seen while those of others are answered.
const EVENT_INTERVAL: u32 = 8;

/// Runs the command that this process was started as.
#[must_use]
pub fn main() -> ExitCode {
    // Checked before anything else is set up: every component that is loaded waits for this.
    if std::env::args_os().nth(1).is_some_and(|first| first == args::COMPILE_COMPONENT) {
        return fumehood::serve_compiler();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == isolation::RUN_WORKER) {
        return fumehood::serve_worker();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == fumehood::settings::RUN_PROGRAM) {
        return fumehood::run_program(fumehood::settings::RUN_PROGRAM, std::env::args_os().skip(2));
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == args::END_WITH_PARENT) {
        return end_with_parent();
    }
    let arguments = match args::parse::parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    arguments.color.write_global();
    logging::set_typed(arguments.logging());
    if !arguments.begins_log() {
        logging::begin(&LoggingSection::default(), None);
    }
    let runtime =
        match tokio::runtime::Builder::new_current_thread().event_interval(EVENT_INTERVAL).enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return render::failure(&anyhow::Error::new(error), arguments.failure_form(), Exit::Host),
        };
    let ended = runtime.block_on(async {
        signals::survive_file_size_limit();
        run_command(&arguments).await
    });
    telemetry::end();
    logging::end();
    // A thread may still be reading from a terminal; the process does not wait for it.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => {
            let exit = exit::from_error(&error);
            render::failure(&error, arguments.failure_form(), exit)
        }
    }
}

/// Runs the command of these arguments.
async fn run_command(arguments: &args::Arguments) -> anyhow::Result<ExitCode> {
    let ended = match &arguments.command {
        // Its exit code is that of a program.
        Command::Jail(jail) => return commands::jail::run(arguments, jail).await,
        Command::Demo => commands::demo::run(arguments).await,
        Command::Selftest(selftest) => commands::selftest::run(arguments, selftest).await,
        Command::Inspect(inspect) => commands::inspect::run(arguments, inspect).await,
        Command::EmbedDocs(embed) => commands::embed_docs::run(arguments, embed),
        Command::New(new) => commands::new::run(arguments, new),
        Command::Build(build) => commands::build::run(arguments, build).await,
        Command::Test(test) => commands::test::run(arguments, test).await,
        Command::Dev(dev) => commands::dev::run(arguments, dev).await,
        Command::Key(key) => commands::key::run(arguments, key),
        Command::Token(token) => commands::token::run(arguments, token),
        Command::Publish(publish) => commands::publish::run(arguments, publish).await,
        Command::Index(index) => commands::index::run(arguments, index).await,
        Command::Search(search) => commands::search::run(arguments, search).await,
        Command::Call(call) => commands::call::run(arguments, call).await,
        Command::Run(run) => commands::run::run(arguments, run).await,
        Command::Chat(chat) => commands::chat::run(arguments, chat).await,
        Command::Log(log) => commands::log::run(arguments, log).await,
        Command::Sessions(sessions) => commands::sessions::run(arguments, sessions).await,
        Command::ApproveCall(approve) => commands::approve_call::run(arguments, approve).await,
        Command::Add(add) => commands::add::run(arguments, add).await,
        Command::Remove(remove) => commands::remove::run(arguments, remove),
        Command::Update(update) => commands::update::run(arguments, update).await,
        Command::Store(store) => commands::store::run(arguments, store),
        Command::Audit => commands::audit::run(arguments).await,
        Command::Approve(approve) => commands::approve::run(arguments, approve).await,
        Command::Trust(trust) => commands::trust::run(arguments, trust).await,
        Command::Config(configuration) => commands::config::run(arguments, configuration).await,
        Command::Serve(serve) => commands::serve::run(arguments, serve).await,
        #[cfg(feature = "cell")]
        Command::Worker(worker) => commands::worker::run(arguments, worker).await,
        #[cfg(feature = "cell")]
        Command::Cell(cell) => commands::cell::run(arguments, cell),
        #[cfg(feature = "cell")]
        Command::Bench(bench) => commands::bench::run(arguments, bench).await,
        Command::Top(top) => commands::top::run(arguments, top).await,
        Command::Mcp(mcp) => commands::mcp::run(arguments, mcp).await,
        Command::Completions { shell } => commands::completions::run(*shell),
        Command::Man { folder } => commands::man::run(folder.as_deref()),
    };
    ended.map(ExitCode::from)
}

/// Reads the text of a `fumehood.toml`, and returns it as `config check --json` prints it. For fuzz targets.
///
/// # Errors
/// Everything that is wrong with the text, with a place in the file on each line.
#[doc(hidden)]
pub fn check_configuration(text: &str) -> Result<String, String> {
    let config =
        config::parse(std::path::Path::new(config::DEFAULT_FILE_NAME), text).map_err(|error| error.to_string())?;
    serde_json::to_string(&config).map_err(|error| error.to_string())
}

/// Replaces this process by the program that the rest of the command line names.
fn end_with_parent() -> ExitCode {
    let mut words = std::env::args_os().skip(2);
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, words.next()) else {
        render::note("this command is for internal use by fumehood");
        return Exit::Usage.into();
    };
    let shown = program.to_string_lossy().into_owned();
    let error = fumehood::mcp::end_with_parent(parent, program, words);
    render::note(&format!("cannot start {shown}: {error}"));
    Exit::Host.into()
}
