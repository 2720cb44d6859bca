//! `fumehood call`: one call of one tool.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fumehood::{Call, CallResult, ErrorKind, EventStream, Host, Observed};

use crate::args::{self, Arguments};
use crate::exit::{self, Exit, UsageError};
use crate::host;
use crate::render;

/// The largest memory that `--memory` may ask for.
const MEMORY_CEILING: usize = 4 << 30;
/// More than this is no arguments, whatever the gate says.
const MOST_ARGUMENTS: u64 = 16 << 20;

pub(crate) async fn run(arguments: &Arguments, call: &args::Call) -> Result<Exit> {
    let limits = call.limits.limits(MEMORY_CEILING).map_err(|error| UsageError(error.to_string()))?;
    let json = read_arguments(call)?;
    let host = host::builder(arguments).limits(limits).memory_ceiling(limits.memory.max(64 << 20)).build()?;
    let (load, name) = host::load_of(&call.component, call.allow_slow_compile);
    host::load(&host, &host::file_name(&call.component), load).await?;
    let prefix = format!("{name}__");
    let tool = call.tool.strip_prefix(&prefix).unwrap_or(&call.tool);
    let mut request = Call::new(format!("{prefix}{tool}"), json);
    if let Some(actor) = &call.actor {
        request = request.with_actor(actor.as_str());
    }
    let mut result = watched(&host, request).await;
    host.shut_down(Duration::ZERO).await;
    if let Some(error) = result.outcome.as_mut().err().filter(|error| error.kind == ErrorKind::UnknownTool) {
        // There is one component, so its name in front of every tool says nothing.
        error.message = error.message.replace(&prefix, "");
        error.hint = error.hint.take().map(|hint| hint.replace(&prefix, ""));
    }
    if arguments.json {
        render::json(&result)?;
    } else {
        render::result(&result)?;
    }
    Ok(exit::of_result(&result))
}

/// Calls, and shows log lines and progress as they come. Ctrl-C stops the tool.
async fn watched(host: &Host, request: Call) -> CallResult {
    let mut events = host.subscribe();
    let mut called = std::pin::pin!(host.call_until(request, tokio::signal::ctrl_c()));
    let result = loop {
        tokio::select! {
            biased;
            observed = events.next() => show(observed),
            result = &mut called => break result,
        }
    };
    drain(&mut events);
    result
}

fn drain(events: &mut EventStream) {
    while let Some(observed) = events.try_next() {
        show(Some(observed));
    }
}

fn show(observed: Option<Observed>) {
    match observed {
        Some(Observed::Event(event)) => render::event(&event),
        Some(Observed::Lost(lost)) => render::warning(&format!("{lost} log lines or progress updates were lost")),
        None => {}
    }
}

fn read_arguments(call: &args::Call) -> Result<String> {
    match (&call.args_file, call.arguments.as_deref()) {
        (Some(path), _) => read_file(path),
        (None, Some("-")) => read_all(std::io::stdin().lock(), "standard input"),
        (None, Some(text)) => Ok(text.to_owned()),
        (None, None) => Ok("{}".to_owned()),
    }
}

fn read_file(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let usage = |error: std::io::Error| UsageError(format!("cannot read the arguments from {name}: {error}"));
    read_all(std::fs::File::open(path).map_err(usage)?, &name)
}

fn read_all(source: impl std::io::Read, name: &str) -> Result<String> {
    let mut text = String::new();
    let read = source.take(MOST_ARGUMENTS + 1).read_to_string(&mut text);
    read.map_err(|error| UsageError(format!("the arguments from {name} cannot be read: {error}")))
        .context("a JSON object in UTF-8 was expected")?;
    if text.len() as u64 > MOST_ARGUMENTS {
        return Err(UsageError(format!("the arguments from {name} are larger than {MOST_ARGUMENTS} bytes")).into());
    }
    Ok(text)
}
