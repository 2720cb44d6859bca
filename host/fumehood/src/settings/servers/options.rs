//! The start, the limits and the description of an MCP server, from its section.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fumehood_config::mcp::{McpServerSection, PreferredForm, ProgramIsolation, ProgramLimitsSection};
use fumehood_config::secret::ValueSource;
use fumehood_mcp::{LibraryOptions, RemoteOptions, ServerRequestPolicy};
use fumehood_runtime::ProgramLimits;

/// Wall time for starting or connecting to a server.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Wall time for starting a server with a program that may have to install it first.
const DEFAULT_INSTALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Programs that install what they run.
const INSTALLERS: [&str; 11] = ["npx", "npm", "pnpx", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman"];

/// Returns the limits of a server, and what of it is passed on. Its prefix, headers and secrets are not among them.
#[must_use]
pub fn server_options(section: &McpServerSection) -> RemoteOptions {
    let defaults = RemoteOptions::default();
    RemoteOptions {
        deadline: section.timeout.map_or(defaults.deadline, |time| time.0),
        max_time: section.max_timeout.map_or(defaults.max_time, |time| time.0),
        patience: section.start_timeout.map_or_else(|| default_start_timeout(section), |time| time.0),
        result_form: section.prefer.map_or(defaults.result_form, PreferredForm::result_form),
        output: section.output.map_or(defaults.output, |bytes| bytes.0),
        string: section.string.map_or(defaults.string, |bytes| bytes.0),
        unasked: section.unasked.map_or(defaults.unasked, |count| count.0.try_into().unwrap_or(u32::MAX)),
        max_tools: section.max_tools.map_or(defaults.max_tools, |count| count.0.try_into().unwrap_or(usize::MAX)),
        descriptions: section.descriptions.map_or(defaults.descriptions, |bytes| bytes.0),
        only: section.tools.as_ref().map(|names| names.iter().cloned().collect()),
        library: library_options(section),
        client_requests: client_requests(section),
        ..defaults
    }
}

/// Returns the resources and prompts of a server that are passed on.
fn library_options(section: &McpServerSection) -> LibraryOptions {
    let mut options = LibraryOptions::default();
    options.resources = section.resources.unwrap_or(true);
    options.prompts = section.prompts.unwrap_or(true);
    options.app_origins.clone_from(&section.app_origins);
    options
}

/// Returns the requests of a server to clients that are passed on.
fn client_requests(section: &McpServerSection) -> ServerRequestPolicy {
    let mut policy = ServerRequestPolicy::default();
    policy.elicitation = section.elicitation.unwrap_or(true);
    policy.sampling = section.sampling.unwrap_or(false);
    policy.apps = section.apps.unwrap_or(false);
    policy
}

fn default_start_timeout(section: &McpServerSection) -> Duration {
    // At its first start, a package of Python is compiled.
    if section.package.is_some() { DEFAULT_INSTALL_TIMEOUT } else { start_timeout(section.command.as_deref()) }
}

/// Returns the default time that a server may take to start.
#[must_use]
pub fn start_timeout(command: Option<&[String]>) -> Duration {
    let program = command.and_then(<[String]>::first).and_then(|program| Path::new(program).file_name());
    if program.and_then(OsStr::to_str).is_some_and(|program| INSTALLERS.contains(&program)) {
        DEFAULT_INSTALL_TIMEOUT
    } else {
        DEFAULT_START_TIMEOUT
    }
}

/// Quotes a text as JSON, so that the end of a word is never in doubt.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn describe_secret(source: &ValueSource) -> String {
    format!("a secret, {}", source.place())
}

/// Describes the start or the address of a server, one line for each setting. Secrets are given by name and source.
#[must_use]
pub fn entry_lines(section: &McpServerSection) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(section.package.as_ref().map(|package| format!("package: {}", quoted(&package.to_string()))));
    if let Some(command) = &section.command {
        let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        lines.push(format!("run: [{}]", words.join(", ")));
    }
    lines.extend(section.folder.as_ref().map(|folder| format!("run in: {}", quoted(&folder.to_string_lossy()))));
    lines.extend(jail_lines(section));
    lines.extend(section.url.as_ref().map(|url| format!("be sent requests at: {}", quoted(url))));
    if let Some(login) = &section.login {
        lines.extend(login.client_id.as_ref().map(|id| format!("login with the client ID: {}", quoted(id))));
        lines.extend(login.client_secret.as_ref().map(|source| format!("login with {}", describe_secret(source))));
        lines.extend(login.scopes.iter().map(|scope| format!("login with the scope: {}", quoted(scope))));
        lines.extend(
            login
                .authorization_server
                .as_ref()
                .map(|url| format!("login at: {}, also at private addresses", quoted(url))),
        );
    }
    lines.extend(section.env.iter().map(|(name, value)| format!("env: {name} = {}", quoted(value))));
    lines.extend(section.secret_env.iter().map(|(name, source)| format!("env: {name} = {}", describe_secret(source))));
    lines.extend(section.headers.iter().map(|(name, value)| format!("header: {name} = {}", quoted(value))));
    let headers = section.secret_headers.iter();
    lines.extend(headers.map(|(name, source)| format!("header: {name} = {}", describe_secret(source))));
    lines.extend(section.bearer.as_ref().map(|source| format!("header: Authorization = {}", describe_secret(source))));
    if section.sampling == Some(true) {
        lines.push("use the models of clients".to_owned());
    }
    if section.apps == Some(true) {
        lines.push("show pages in clients".to_owned());
        lines.extend(section.app_origins.iter().map(|origin| format!("let its pages reach: {}", quoted(origin))));
    }
    lines
}

/// Describes the grants of a program besides its own files.
fn jail_lines(section: &McpServerSection) -> Vec<String> {
    let mut lines = Vec::new();
    match section.isolation.unwrap_or_default() {
        ProgramIsolation::Jail => {}
        ProgramIsolation::Required => lines.push("run in a complete jail only".to_owned()),
        ProgramIsolation::None => {
            lines.push("run WITHOUT A JAIL: it may read and change all of your files, and use your network".to_owned());
        }
    }
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| quoted(&path.to_string_lossy())).collect::<Vec<_>>();
    lines.extend(paths(&section.read).into_iter().map(|path| format!("read: {path}")));
    lines.extend(paths(&section.write).into_iter().map(|path| format!("read and change: {path}")));
    lines.extend(section.http.iter().map(|rule| format!("make requests: {}", quoted(rule))));
    let private = section.private_addresses.iter();
    lines.extend(private.map(|addresses| format!("make requests to private addresses: {}", quoted(addresses))));
    if let Some(limits) = &section.limits {
        let ProgramLimits { memory, cpu_seconds, processes, open_files, file_size } = program_limits(limits);
        lines.push(format!(
            "limits: memory {memory}, cpu {cpu_seconds}s, processes {processes}, open_files {open_files}, file_size \
             {file_size}"
        ));
    }
    lines
}

/// Returns the limits of a program.
pub(super) fn program_limits(section: &ProgramLimitsSection) -> ProgramLimits {
    let defaults = ProgramLimits::default();
    ProgramLimits {
        memory: section.memory.map_or(defaults.memory, |bytes| bytes.0 as u64),
        cpu_seconds: section.cpu.map_or(defaults.cpu_seconds, |time| time.0.as_secs()),
        processes: section.processes.map_or(defaults.processes, |count| count.0),
        open_files: section.open_files.map_or(defaults.open_files, |count| count.0),
        file_size: section.file_size.map_or(defaults.file_size, |bytes| bytes.0 as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_seconds(command: &[&str]) -> u64 {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        start_timeout(Some(&command)).as_secs()
    }

    #[test]
    fn programs_that_install_first_have_longer_to_start() {
        assert_eq!(
            (
                start_seconds(&["npx", "-y", "x"]),
                start_seconds(&["/usr/bin/uvx", "x"]),
                start_seconds(&["node", "npx"]),
                start_seconds(&[])
            ),
            (60, 60, 10, 10)
        );
        assert_eq!(start_timeout(None).as_secs(), 10);
    }
}
