//! `fumehood mcp list` and `call`: an MCP client on the command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use fumehood::mcp::{
    ConnectError, Credentials, Endpoint, Launch, LaunchSandbox, Remote, RemoteOptions, RemoteTool, Token, ToolNotice,
};
use fumehood::sanitize::printable;
use fumehood::{
    Call, CallContext, CallEntry, CallError, CallResult, ErrorKind, Metadata, NameForm, Namespace, ResultForm,
    SEPARATOR, ToolAliases, Untrusted,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::args::{Arguments, CallRemote, List, ServerOptions};
use crate::commands::call::arguments::TypedArguments;
use crate::config::{self, Config};
use crate::exit::{self, Exit, UsageError};
use crate::jail;
use crate::recording::{EntryPoint, Recording};
use crate::render;
use crate::render::quotation::Quotation;
use crate::servers::{self, through_this_program};

/// Name of the server, because on the command line it has none.
const SERVER_NAME: &str = "server";
/// The warning about a server without tools.
const NO_TOOLS: &str = "the server offers no tools";

pub(crate) async fn list(arguments: &Arguments, list: &List) -> Result<Exit> {
    hint_at_configured(arguments, &list.server);
    let patience = start_timeout(&list.server, list.timeout);
    let limits = RemoteOptions { patience, ..RemoteOptions::default() };
    let Client { remote, sandbox } = new_client(arguments, &list.server, &list.options, limits)?;
    let listed = remote.tools().await;
    let said = remote.stderr_tail().await;
    remote.close().await;
    sandbox.iter().for_each(|sandbox| jail::report_refusals(&**sandbox));
    let tools = listed.map_err(|error| list_error(error, "--timeout"))?;
    let rejected = remote.rejected_tools();
    if tools.is_empty() && rejected.is_empty() {
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = if lines.is_empty() { String::new() } else { format!("; it wrote: {}", lines.join("; ")) };
        render::warning(&format!("{NO_TOOLS}{said}"));
    }
    for line in ToolNotice::lines(&rejected) {
        render::warning(&format!("ignored {line}"));
    }
    for line in ToolNotice::lines(&remote.unchecked_schemas()) {
        render::warning(&format!("only partly checked: {line}"));
    }
    if arguments.json {
        let tools: Vec<Value> = tools.iter().map(to_json).collect();
        render::json(&json!({"tools": tools}))?;
    } else {
        let mut quotation = Quotation::new(true);
        for tool in &tools {
            let description = tool.definition.description.to_sanitized();
            let about = description.lines().next().unwrap_or_default();
            let alias = alias(tool).map(|alias| format!("(for models: {alias}) ")).unwrap_or_default();
            let about = format!("{alias}{about}");
            quotation.write_styled(&format!("{} ", printable(&tool.foreign)), render::STRONG, &about)?;
        }
    }
    Ok(Exit::Ok)
}

/// Says how to use a server of the configuration, if a program is meant to be started whose name is that of one.
fn hint_at_configured(arguments: &Arguments, server: &[String]) {
    let [name] = server else { return };
    let file = Config::place(arguments.config.as_deref());
    // Only the names are read, which needs no trust.
    if config::load(&file).is_ok_and(|config| config.mcp.servers.contains_key(name)) {
        render::hint(&format!(
            "starting the program `{name}`; for the MCP server `{name}` of {}, use `fumehood approve {name} --check --full` \
             and `fumehood call {name} TOOL`",
            file.display()
        ));
    }
}

/// Returns the time that the server may take to start.
fn start_timeout(server: &[String], typed: Option<Duration>) -> Duration {
    typed.unwrap_or_else(|| servers::start_timeout(Some(server)).max(RemoteOptions::default().patience))
}

/// Converts an error of the connection; a timeout names the flag that allows more time.
fn list_error(error: ConnectError, flag: &str) -> anyhow::Error {
    match error {
        ConnectError::Late(time) => {
            anyhow!("the server did not start and list its tools within {time:?}; raise the limit with `{flag}`")
        }
        ConnectError::Unauthorized { address, has_token: false } => {
            anyhow!("{address} requires a bearer token; name a file with it by `--token-file FILE` before the URL")
        }
        // The messages of these errors are complete without a context.
        error @ (ConnectError::NoProgram { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Unauthorized { .. }
        | ConnectError::Answer { .. }) => error.into(),
        error => anyhow::Error::new(error).context("cannot list the tools"),
    }
}

fn to_json(tool: &RemoteTool) -> Value {
    // For programs, so the values are the server's own; hidden characters in them are written as escapes.
    let definition = &tool.definition;
    let mut listed = json!({
        "name": tool.foreign.as_ref(),
        "title": definition.title.as_ref().map(Untrusted::expose_raw),
        "description": definition.description.expose_raw(),
        "input_schema": definition.input_schema.expose_raw(),
        "output_schema": definition.output_schema.as_ref().map(Untrusted::expose_raw),
        "annotations": definition.annotations,
        "digest": tool.tool.digest(),
    });
    let host_name = definition.name.as_str();
    if let Some(members) = listed.as_object_mut().filter(|_| host_name != &*tool.foreign) {
        members.insert("host_name".to_owned(), host_name.into());
    }
    if let (Some(members), Some(alias)) = (listed.as_object_mut(), alias(tool)) {
        members.insert("alias".to_owned(), alias.into());
    }
    listed
}

/// Returns the name that models are given for a tool of a server called `server`, if it is not the tool's full name.
fn alias(tool: &RemoteTool) -> Option<String> {
    let name = tool.tool.full_name();
    (!NameForm::Portable.accepts(name)).then(|| NameForm::Portable.alias(name).into_owned())
}

/// Finds a tool by the name that its server uses, its name in this host, or its alias.
fn find<'a>(tools: &'a [RemoteTool], typed: &str) -> Option<&'a RemoteTool> {
    tools.iter().find(|tool| *tool.foreign == *typed).or_else(|| {
        let aliases = ToolAliases::of_tools(tools.iter().map(|tool| tool.tool.as_ref()), NameForm::Portable);
        let full_name = format!("{SERVER_NAME}{SEPARATOR}{typed}");
        let name = aliases.resolve(typed).or_else(|| aliases.resolve(&full_name))?;
        tools.iter().find(|tool| tool.tool.full_name() == name)
    })
}

pub(crate) async fn call(arguments: &Arguments, call: &CallRemote) -> Result<Exit> {
    let typed = TypedArguments::read(None, &call.arguments)?;
    let config = arguments.config.as_deref().map(config::load).transpose()?.unwrap_or_default();
    let recording = Recording::begin(&call.recording, &config, EntryPoint::McpCall, None).await?;
    let request = Call::new(call.tool.as_str(), typed.clone().into_json(None));
    let mut entry = recording.as_ref().map(|recording| recording.calls().entry(&request));
    let patience = start_timeout(&call.server, call.start_timeout);
    let limits =
        RemoteOptions { deadline: call.timeout, patience, string: call.max_string, ..RemoteOptions::default() };
    let Client { remote, sandbox } = new_client(arguments, &call.server, &call.options, limits)?;
    let called = tokio::select! {
        called = call_checked(&remote, call, typed, entry.as_mut()) => called,
        _ = tokio::signal::ctrl_c() => Ok(failed_call(call, CallError::cancelled())),
    };
    remote.close().await;
    // Those of a call are in its metadata.
    sandbox.iter().filter(|_| called.is_err()).for_each(|sandbox| jail::report_refusals(&**sandbox));
    let result = called?;
    if let Some(entry) = entry {
        entry.ended(&result).await;
    }
    if arguments.json {
        render::json(&result)?
    } else {
        // What a model reads: `--json` has the other form, too.
        render::result(&result, ResultForm::TextFirst)?;
    }
    let exit = exit::from_result(&result);
    if let Some(recording) = recording {
        recording.end(exit.kind()).await?;
    }
    Ok(exit)
}

/// Calls the tool if the arguments match its schema, as for any other tool, and if the call can be recorded.
async fn call_checked(
    remote: &Remote,
    call: &CallRemote,
    typed: TypedArguments,
    entry: Option<&mut CallEntry>,
) -> Result<CallResult> {
    let tools = remote.tools().await.map_err(|error| list_error(error, "--start-timeout"))?;
    let Some(RemoteTool { tool, .. }) = find(&tools, &call.tool) else {
        let known: Vec<_> = tools.iter().map(|tool| printable(&tool.foreign).into_owned()).collect();
        let message = format!("unknown tool `{}`", printable(&call.tool));
        let error = CallError::new(ErrorKind::UnknownTool, message);
        let hint = match known.as_slice() {
            [] if remote.rejected_tools().is_empty() => NO_TOOLS.to_owned(),
            [] => "none of the server's tools can be used; `fumehood mcp list` says why".to_owned(),
            known => format!("the tools are: {}", known.join(", ")),
        };
        return Ok(failed_call(call, error.with_hint(hint)));
    };
    let arguments = typed.into_json(Some(tool.definition()));
    let validated = match tool.validate(arguments.as_str().into()) {
        Ok(validated) => validated,
        Err(error) => {
            let hint = match serde_json::from_str::<IgnoredAny>(&arguments) {
                Ok(_) => "correct the arguments and call again; the server was not called",
                Err(_) => "write one JSON object or NAME=VALUE pairs; the server was not called",
            };
            return Ok(failed_call(call, CallError::from(error).with_hint(hint)));
        }
    };
    if let Some(entry) = entry {
        entry.started(validated.arguments(), None).await.context("the server was not called")?;
    }
    let context = CallContext { id: render::CALL_ID.to_owned(), ..CallContext::default() };
    Ok(CallResult { tool: call.tool.clone(), ..remote.call(validated, context).await })
}

/// Creates the result of a call that did not reach the server.
fn failed_call(call: &CallRemote, error: CallError) -> CallResult {
    let outcome = Err(error);
    let metadata = Metadata::default().deadline(call.timeout).with_outcome(&outcome);
    CallResult { id: render::CALL_ID.to_owned(), tool: call.tool.clone(), outcome, metadata }
}

/// The client of a server of the command line, and the jail of its program.
struct Client {
    remote: Remote,
    sandbox: Option<Arc<dyn LaunchSandbox>>,
}

/// Creates the client of a server that is named by a URL or a command.
fn new_client(
    arguments: &Arguments,
    server: &[String],
    options: &ServerOptions,
    limits: RemoteOptions,
) -> Result<Client> {
    let (first, rest) = server
        .split_first()
        .ok_or_else(|| UsageError("missing server; give a URL, or a command that starts one".to_owned()))?;
    let is_url = first.starts_with("http://") || first.starts_with("https://");
    let mut sandbox = None;
    let endpoint = if is_url {
        if let Some(word) = rest.first() {
            let message = format!("unexpected argument `{word}` after a URL; write options before the URL");
            return Err(UsageError(message).into());
        }
        if options.jail.has_any() || options.no_jail {
            let message = "options of the jail are for programs, and a server at a URL has none";
            return Err(UsageError(message.to_owned()).into());
        }
        let token = options.token_file.as_deref().map(Token::read).transpose()?;
        Endpoint::Http { url: first.clone(), credentials: token.map_or(Credentials::None, Credentials::Token) }
    } else {
        let section = options.jail.section(server, arguments.isolation)?;
        if !options.no_jail {
            sandbox = Some(jail::sandbox(&section, &options.jail, false)?);
            jail::warn_of_missing_parts(!section.http.is_empty());
        }
        Endpoint::Process(Launch {
            program: PathBuf::from(first),
            arguments: rest.to_vec(),
            environment: section.env.into_iter().collect(),
            folder: None,
            wrapper: Some(through_this_program()),
            sandbox: sandbox.clone(),
        })
    };
    Ok(Client { remote: Remote::new(Namespace::parse(SERVER_NAME)?, endpoint, limits), sandbox })
}
