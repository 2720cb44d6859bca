//! `fumehood call`: calls one tool of a component, or of an MCP server of the configuration.

pub(crate) mod arguments;
mod observed;
mod server;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use fumehood::policy::Policies;
use fumehood::{
    Call, CallError, CallLog, CallResult, CancellationToken, Component, ErrorKind, EventStream, Host, HostBuilder,
    Limits, Load, Namespace, Observed, QualifiedName, ResultForm, SEPARATOR, Stack, ToolName,
};

use self::arguments::TypedArguments;
use super::approve;
use crate::app::App;
use crate::args::{self, Arguments};
use crate::config::amount::MAX_MEMORY_BYTES;
use crate::configured::{ConfiguredComponent, Version};
use crate::exit::{self, Exit, UsageError};
use crate::grants::{Answer, Grants, wishes_of_file};
use crate::hooks::{self, TerminalHookApprover};
use crate::recording::{EntryPoint, Recording};
use crate::render::WishReport;
use crate::{flags, host, published, render, servers, source, user_folders};

pub(crate) async fn run(arguments: &Arguments, call: &args::Call) -> Result<Exit> {
    // Errors of the command line are reported before any file is read.
    args::limits_over(&call.limits, Limits::default(), MAX_MEMORY_BYTES)?;
    let call = &*split_full_name(call);
    let typed_arguments = TypedArguments::read(call.args_file.as_deref(), &call.arguments)?;
    let state = call.state.as_deref().map(source::parse_state).transpose()?;
    let app = open(arguments, call)?;
    let call = &*with_wishes(&app, call).await?;
    // Before anything is loaded: nothing runs that cannot be recorded, and only existing files can be protected from
    // tools.
    let recording = app.record(&call.recording, EntryPoint::Call, call.actor.as_deref()).await?;
    let invocation = Invocation { app: &app, call, recording: recording.as_ref() };
    let server = host::configured_name(&call.component).map(|name| servers::find(&app.config, name));
    let server = server.transpose()?.flatten();
    let exit = match server {
        Some(server) => invocation.call_server(&server, typed_arguments).await?,
        None => invocation.call_component(typed_arguments, state).await?,
    };
    if let Some(recording) = recording {
        recording.end(exit.kind()).await?;
    }
    Ok(exit)
}

/// One invocation of this command.
struct Invocation<'a> {
    app: &'a App<'a>,
    call: &'a args::Call,
    recording: Option<&'a Recording>,
}

impl Invocation<'_> {
    /// Calls a tool of a component and prints its result.
    async fn call_component(&self, typed_arguments: TypedArguments, state: Option<Arc<str>>) -> Result<Exit> {
        let Self { app, call, recording } = self;
        let Target { builder, load, name, file, default_limits } = choose_target(app, call).await?;
        let limits = args::limits_over(&call.limits, default_limits, MAX_MEMORY_BYTES)?;
        let (host, hook_components) = self.build_host(builder, at_least_default(&limits)).await?;
        let is_typed = host::configured_name(&call.component).is_none();
        let loaded = host::load(&host, &file, load.limits(at_least_default(&limits))).await;
        let component = if is_typed { loaded.map_err(host::with_option_hints)? } else { loaded? };
        let hooks = self.load_hooks(&host, hook_components).await?;
        let Some(tool) = &call.tool else { return Err(missing_component_tool(call, &component).into()) };
        let names: Vec<_> = component.definitions().iter().map(|tool| tool.name.as_str()).collect();
        let tool = own_name(&names, tool, &name);
        let definition = component.definitions().iter().find(|it| it.name.as_str() == tool);
        let request = self.request(&format!("{name}{SEPARATOR}{tool}"), typed_arguments.into_json(definition));
        let request = request.limits(limits);
        let request = if let Some(state) = state { request.state(state) } else { request };
        let mut result = call_and_watch(&host, request, hooks, recording.map(Recording::calls)).await;
        if let Err(error) = &mut result.outcome {
            translate_for_cli(error, &format!("{name}{SEPARATOR}"), is_typed);
            if error.kind == ErrorKind::Denied && is_typed && !call.grant_wishes && has_wishes(&component) {
                let option = "`--grant-wishes` grants what its author asks for";
                error.hint = error.hint.take().map(|hint| format!("{hint}; {option}").into());
            }
        }
        let rendered = self.print(&result, ResultForm::Parts);
        if call.observe {
            let section = observed::section(&name, &call.component, &result.metadata.refused);
            render::note_lines(section.as_deref().unwrap_or("# This call was refused nothing."));
        }
        // Scratch space is removed after the answer.
        host.shutdown(Duration::ZERO).await;
        rendered?;
        Ok(exit::from_result(&result))
    }

    /// Builds a host for a component with these limits, and for hooks, which are returned and not loaded yet.
    async fn build_host(&self, mut builder: HostBuilder, limits: Limits) -> Result<(Host, Vec<ConfiguredComponent>)> {
        if let Some(recording) = self.recording {
            builder = recording.protect(builder);
        }
        if self.call.observe {
            builder = builder.observe_lookups();
        }
        let hook_components = hooks::components(self.app).await?;
        let hook_memory = hook_components.iter().map(|hook| hook.limits.memory).max().unwrap_or_default();
        let host = builder.limits(limits).memory_ceiling(limits.memory.max(hook_memory)).build()?;
        Ok((host, hook_components))
    }

    async fn load_hooks(&self, host: &Host, components: Vec<ConfiguredComponent>) -> Result<Policies> {
        for hook in components {
            host::load(host, &hook.label, hook.load).await?;
        }
        hooks::from_config(&self.app.config, host)
    }

    fn request(&self, tool: &str, arguments: String) -> Call {
        let request = Call::new(tool, arguments);
        if let Some(actor) = &self.call.actor { request.actor(actor.as_str()) } else { request }
    }

    /// Prints a result: for people what a model reads, and for programs everything.
    fn print(&self, result: &CallResult, form: ResultForm) -> Result<()> {
        if self.app.arguments.json { render::json(result) } else { render::result(result, form) }
    }
}

/// Returns whether the author of a component asks for something.
fn has_wishes(component: &Component) -> bool {
    WishReport::read(component).is_some_and(|report| !report.wanted().is_empty())
}

/// Rewrites an error for the command line: removes the prefix of the only component from names of tools, and names the
/// option that changes a limit or grant.
fn translate_for_cli(error: &mut CallError, prefix: &str, is_typed: bool) {
    if error.kind == ErrorKind::UnknownTool {
        error.message.revise(error.message.replace(prefix, ""));
        error.hint = error.hint.take().map(|hint| hint.replace(prefix, "").into());
    }
    let option = match error.kind {
        ErrorKind::Deadline => Some("--timeout"),
        ErrorKind::Fuel => Some("--fuel"),
        ErrorKind::Memory => Some("--memory"),
        ErrorKind::OutputTooLarge => Some("--max-output"),
        _ => None,
    };
    error.hint = error.hint.take().map(|hint| match option {
        Some(option) => format!("{hint}; raise the limit with `{option}`").into(),
        None if is_typed => flags::translate(&hint).into(),
        None => hint,
    });
}

/// Splits the full name of a configured tool, such as `notes__read`, where no file has that name.
fn split_full_name(call: &args::Call) -> Cow<'_, args::Call> {
    let names = call.component.to_str().filter(|_| !call.component.is_file()).and_then(QualifiedName::split);
    let names = names.filter(|(component, tool)| Namespace::parse(component).is_ok() && ToolName::parse(tool).is_ok());
    let Some((component, tool)) = names else { return Cow::Borrowed(call) };
    let arguments = call.tool.iter().chain(&call.arguments).cloned().collect();
    Cow::Owned(args::Call { component: component.into(), tool: Some(tool.to_owned()), arguments, ..call.clone() })
}

/// Adds the wishes of a component that was typed to its powers and limits, if the options say so.
async fn with_wishes<'a>(app: &App<'_>, call: &'a args::Call) -> Result<Cow<'a, args::Call>> {
    if !call.grant_wishes {
        return Ok(Cow::Borrowed(call));
    }
    if let Some(name) = host::configured_name(&call.component) {
        let message = format!("the powers of `{name}` are set in the configuration; leave `--grant-wishes` out");
        return Err(UsageError(message).into());
    }
    let file = host::typed_component(&app.config, &call.component, call.allow_slow_compile).await?.file;
    let mut grants = Grants::typed(&call.powers.typed, &call.limits);
    grants.decide(&wishes_of_file(&file)?, Answer::All, false, Path::new("."))?;
    grants.report_unfilled()?;
    let mut granted = call.clone();
    (granted.powers.typed, granted.limits) = grants.into_parts();
    Ok(Cow::Owned(granted))
}

/// Opens the configuration if the component is one of it or if the configuration was named. For a component file, the
/// one in the working folder is not read: only a named one decides where calls are recorded.
fn open<'a>(arguments: &'a Arguments, call: &args::Call) -> Result<App<'a>> {
    // The policy for components of registries is there.
    let is_published = published::is_reference(&call.component);
    App::open_if(
        arguments,
        host::configured_name(&call.component).is_some() || is_published || arguments.config.is_some(),
    )
}

/// A component to call, with a host builder for it.
struct Target {
    builder: HostBuilder,
    load: Load,
    name: String,
    /// Name of the file, for messages.
    file: String,
    /// Limits for those that were not typed.
    default_limits: Limits,
}

/// Returns the component file with the powers that were typed, or a configured component with its own powers.
async fn choose_target(app: &App<'_>, call: &args::Call) -> Result<Target> {
    if let Some(name) = host::configured_name(&call.component) {
        return target_from_configuration(app, call, name).await;
    }
    let grant = call.powers.grant()?;
    let typed = host::typed_component(&app.config, &call.component, call.allow_slow_compile).await?;
    let load = typed.load.grant(grant);
    let load = if call.powers.strict_imports { load.strict_imports() } else { load };
    // Hooks may need what the configuration names, such as a store.
    let builder =
        if app.config.hooks.component.is_empty() { host::builder(app.arguments) } else { app.host_builder()? };
    let builder = host::with_typed_secrets(builder, &call.powers);
    let builder = match &call.powers.key_value_store {
        Some(file) => host::with_store(builder, file)?,
        None if call.powers.needs_store() => host::with_store(builder, &default_store(app.arguments, call)?)?,
        None => builder,
    };
    Ok(Target { builder, load, name: typed.name, file: typed.label, default_limits: Limits::default() })
}

/// Returns the default file for the component's keys and values. Its first use is reported.
fn default_store(arguments: &Arguments, call: &args::Call) -> Result<PathBuf> {
    let file = user_folders::store_of(&call.component)?;
    if !arguments.json && !file.exists() {
        render::note(&format!("the key-value store is {}; use another with `--key-value-store FILE`", file.display()));
    }
    Ok(file)
}

async fn target_from_configuration(app: &App<'_>, call: &args::Call, name: &str) -> Result<Target> {
    let config = &app.config;
    if config.hooks.has_component(name) {
        let message = format!("`{name}` is a hook in {}, and has no tools to call", config.origin.display());
        return Err(UsageError(message).into());
    }
    let found = app.component(name, Version::Pinned).await?;
    let Some(ConfiguredComponent { name, label, load, limits, .. }) = found else {
        return Err(UsageError(format!("no such file {name}, and {}", approve::unknown_component(config, name))).into());
    };
    if call.powers.has_any() {
        let place = config.origin.display();
        let message = format!("the powers of `{name}` are set in {place}; change them there, or call the `.wasm` file");
        return Err(UsageError(message).into());
    }
    let load = if call.allow_slow_compile { load.allow_slow_compile() } else { load };
    let builder = app.host_builder()?;
    Ok(Target { builder, load, name: name.to_string(), file: label, default_limits: limits })
}

/// Raises limits to at least the defaults, for a component that describes its tools before the call. Otherwise a small
/// `--fuel` would be used up before the call.
fn at_least_default(limits: &Limits) -> Limits {
    let default = Limits::default();
    limits
        .deadline(limits.deadline.max(default.deadline))
        .fuel(limits.fuel.max(default.fuel))
        .memory(limits.memory.max(default.memory))
        .output(limits.output.max(default.output))
}

/// Returns the tool's own name. Its full name is accepted too.
fn own_name<'a>(names: &[&str], typed: &'a str, namespace: &str) -> &'a str {
    match QualifiedName::split(typed) {
        Some((typed_namespace, tool)) if !names.contains(&typed) && typed_namespace == namespace => tool,
        _ => typed,
    }
}

/// Returns the error for a call that names no tool of a component.
fn missing_component_tool(call: &args::Call, component: &Component) -> UsageError {
    let file = call.component.display().to_string();
    let tools: Vec<&str> = component.definitions().iter().map(|tool| tool.name.as_str()).collect();
    missing_tool(&file, &tools, &format!("fumehood inspect {file}"))
}

/// Returns the error for a call that names no tool, with the tools and the command that shows their arguments.
fn missing_tool(target: &str, tools: &[&str], inspect: &str) -> UsageError {
    let first = tools.first().copied().unwrap_or("TOOL");
    UsageError(format!(
        "missing TOOL; {target} has: {}\nCall one like this: `fumehood call {target} {first} '{{…}}'`; `{inspect}` shows their \
         arguments",
        tools.join(", ")
    ))
}

/// Calls a tool, and prints log lines and progress as they arrive. Ctrl-C stops the tool.
async fn call_and_watch(host: &Host, request: Call, hooks: Policies, log: Option<&CallLog>) -> CallResult {
    let mut events = host.subscribe();
    let interrupted = CancellationToken::new();
    let request = request.cancelled_by(interrupted.clone());
    let stack = Stack::new().policies(hooks).approver(TerminalHookApprover::from_terminal()).log(log.cloned());
    let tools = stack.around([host.clone()]);
    let mut called = tools.dispatch(request);
    let mut signal = std::pin::pin!(tokio::signal::ctrl_c());
    let result = loop {
        tokio::select! {
            biased;
            // Before the events, which a tool can make endless.
            result = &mut called => break result,
            _ = &mut signal, if !interrupted.is_cancelled() => interrupted.cancel(),
            observed = events.next() => print_observed(observed),
        }
    };
    print_pending(&mut events);
    result
}

/// Prints the events that have arrived already.
fn print_pending(events: &mut EventStream) {
    while let Some(observed) = events.try_next() {
        print_observed(Some(observed));
    }
}

fn print_observed(observed: Option<Observed>) {
    match observed {
        Some(Observed::Event(event)) => render::event(&event),
        Some(Observed::Lost(lost)) => render::warning(&format!("{lost} log lines or progress updates were lost")),
        None => {}
    }
}
