//! The effects of a configuration: everything that it would start, send, grant and read.

use fumehood_config::oauth::OAuthSection;
use fumehood_config::tenant::TenantSection;
use fumehood_platform::terminal;
use serde::Serialize;

use crate::config::Config;
#[cfg(feature = "cell")]
use crate::config::cell::CellSection;
use crate::config::mcp::DashboardSetting;
use crate::config::registry::{RegistrySection, SignatureRule};
#[cfg(feature = "postgres")]
use crate::config::storage::StorageSection;
use crate::config::telemetry::TelemetrySection;
use crate::config::tool::{ApprovalRule, ToolSection};
use crate::render::{format_grant, quotation};
use crate::servers;
use fumehood::settings::{SecretSection, TextSource, ValueSource};

/// Minimum assumed width of a screen.
const MIN_LINE_CELLS: usize = 24;
/// Maximum width of a line. Longer texts continue on the next line behind a mark, so that no text
/// begins a line.
const MAX_LINE_CELLS: usize = 108;
const MARK: &str = "  | ";
const CONTINUATION_MARK: &str = "  |     ";

/// An effect of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Effect {
    /// Kind of the effect: `start`, `connect`, `model`, `get`, `grant` or `read`.
    pub(crate) kind: &'static str,
    /// Description of the effect.
    pub(crate) what: String,
}

/// Returns all effects of a configuration.
pub(crate) fn effects(config: &Config) -> Vec<Effect> {
    let mut effects = Vec::new();
    add_servers(config, &mut effects);
    add_model(config, &mut effects);
    for (name, tool) in &config.tools {
        add_tool(config, name, tool, &mut effects);
    }
    let mut add = |kind, what: String| effects.push(Effect { kind, what });
    for hook in &config.hooks.component {
        let tools = hook.tools.as_ref().map_or_else(|| "every tool".to_owned(), |tools| quote(&tools.join(", ")));
        let what = format!("hook {}: sees arguments and results of {tools}, and may change them", quote(&hook.name));
        add("grant", what);
    }
    for what in registry_effects(&config.registry) {
        add("get", what);
    }
    for what in telemetry_effects(&config.telemetry) {
        add("connect", what);
    }
    for (kind, what) in server_effects(config) {
        add(kind, what);
    }
    let tenants = config.tenants.iter().flat_map(|(name, tenant)| tenant_effects(name, tenant));
    for what in approval_effects(config).chain(tenants) {
        add("grant", what);
    }
    for (kind, what) in config.serve.oauth.iter().flat_map(oauth_effects) {
        add(kind, what);
    }
    for folder in &config.tools_in {
        add("grant", format!("components of the folder {}, without powers", quote(&folder.to_string_lossy())));
    }
    if let Some(Ok(Some(address))) = config.serve.dashboard.as_ref().map(DashboardSetting::address) {
        add("grant", format!("a dashboard at {address}: its token can call every tool, and approve tools and calls"));
    }
    if let Some(source) = &config.serve.token {
        add("read", format!("the token of `serve` from {}", source.place()));
    }
    if let Some(source) = &config.log.key {
        add("read", format!("the key of the event log from {}", source.place()));
    }
    let texts = config.knowledge.iter().map(|(name, section)| (format!("knowledge {name}"), Some(&section.text)));
    let prompts = config.prompts.iter().map(|(name, section)| (format!("prompt {name}"), Some(&section.text)));
    let skills = config.skills.iter().map(|(name, section)| (format!("skill {name}"), section.instructions.as_ref()));
    let system = std::iter::once(("instructions".to_owned(), config.agent.system.as_ref()));
    for (name, text) in texts.chain(prompts).chain(skills).chain(system) {
        if let Some(TextSource::InFile(file)) = text {
            add("read", format!("{name} from the file {}", quote(&file.file.to_string_lossy())));
        }
    }
    let files = [
        ("the event log", config.log.path.as_ref()),
        ("data of tools", config.key_value_store.as_ref()),
        ("the notes of the model", config.agent.memory.as_ref()),
        ("an ignore list", config.guardrails.ignore_file.as_ref()),
    ];
    for (name, file) in files {
        if let Some(file) = file {
            add("read", format!("{name} in the file {}", quote(&file.to_string_lossy())));
        }
    }
    if config.log.off {
        add("grant", "runs that are not recorded".to_owned());
    }
    effects
}

/// Returns the settings of telemetry that send something.
fn telemetry_effects(telemetry: &TelemetrySection) -> Vec<String> {
    let endpoint = telemetry.endpoint.as_ref().map(|url| format!("send traces and metrics to {}", quote(url)));
    let headers = telemetry.headers.iter().map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
    let secrets =
        telemetry.secret_headers.iter().map(|(name, source)| format!("{} = a secret, {}", quote(name), source.place()));
    let headers = headers.chain(secrets).map(|header| format!("with traces and metrics, the header {header}"));
    let content = telemetry.content.then(|| "with traces, the arguments and the results of calls".to_owned());
    endpoint.into_iter().chain(content).chain(headers).collect()
}

/// Returns who may call as a tenant, and which tools.
fn tenant_effects(name: &str, tenant: &TenantSection) -> Vec<String> {
    let tools = tenant.tools.as_ref().map_or_else(|| "every tool".to_owned(), |tools| quote(&tools.join(", ")));
    let by_token = (!tenant.tokens.is_empty()).then(|| "its token".to_owned());
    let by_claim =
        (!tenant.claims.is_empty()).then(|| format!("an access token of {}", quote(&tenant.claims.join(", "))));
    let line = |proof| format!("tenant {}: calls {tools} over HTTP with {proof}", quote(name));
    by_token.into_iter().chain(by_claim).map(line).collect()
}

/// Returns the settings of access tokens: who issues them, who is asked for keys, and who may call by them.
fn oauth_effects(oauth: &OAuthSection) -> Vec<(&'static str, String)> {
    let issuer = quote(&oauth.issuer);
    let resource = quote(&oauth.resource);
    let audience = oauth.audience.as_ref().map(|audience| format!(", with the audience {}", quote(audience)));
    let mut effects = vec![
        ("grant", format!("calls with access tokens of {issuer} for {resource}{}", audience.unwrap_or_default())),
        ("grant", format!("tenants of access tokens by their claim {}", quote(oauth.tenant_claim()))),
        ("connect", format!("fetch keys of access tokens from {}", oauth.jwks.as_deref().map_or(issuer, quote))),
    ];
    if let Some(tenant) = &oauth.default_tenant {
        effects.push(("grant", format!("tenant {}: any other access token of the issuer", quote(tenant))));
    }
    effects
}

/// Returns everything that goes to servers of the operator: those of a cell, and that of the storage.
fn server_effects(config: &Config) -> Vec<(&'static str, String)> {
    #[cfg(feature = "cell")]
    let cell = config.cell.iter().flat_map(cell_effects);
    #[cfg(not(feature = "cell"))]
    let cell = std::iter::empty();
    #[cfg(feature = "postgres")]
    let storage = config.storage.iter().flat_map(storage_effects);
    #[cfg(not(feature = "postgres"))]
    let storage = std::iter::empty();
    cell.chain(storage).collect()
}

/// Returns everything that a cell sends, runs and reads.
#[cfg(feature = "cell")]
fn cell_effects(cell: &CellSection) -> Vec<(&'static str, String)> {
    let nats = quote(&cell.nats);
    let mut effects = vec![
        ("connect", format!("cell: send arguments, results and state of calls to {nats}, as {}", quote(&cell.name))),
        ("read", format!("the key of the cell from the file {}", quote(&cell.key.to_string_lossy()))),
    ];
    let plain = cell.unencrypted.then(|| ("connect", format!("cell: without encryption, if {nats} has no TLS")));
    let workers = cell.workers.keys().map(|name| ("connect", format!("cell: calls run at the worker {}", quote(name))));
    let gateways = cell.gateways.iter().map(|(name, key)| {
        ("grant", format!("cell: the gateway {} calls every tool here, with the key {}", quote(name), quote(key)))
    });
    let stores = cell.key_value.map(|_| ("connect", format!("cell: store data of tools at {nats}")));
    let counters = cell.budgets.map(|_| ("connect", format!("cell: store budgets of tenants at {nats}")));
    let pushes = cell.push.then(|| ("connect", format!("cell: send approved components to {nats}")));
    let accepts = cell.accept.map(|_| ("grant", format!("cell: components come from {nats}, if you approve them")));
    let of_jetstream = [stores, counters, pushes, accepts];
    let password =
        cell.password.iter().map(|source| ("read", format!("the password of the cell from {}", source.place())));
    let files = cell.tls_roots.iter().chain(&cell.certificate).chain(&cell.certificate_key);
    let files =
        files.map(|file| ("read", format!("a certificate or key of the cell from {}", quote(&file.to_string_lossy()))));
    effects.extend(plain.into_iter().chain(workers).chain(gateways).chain(of_jetstream.into_iter().flatten()));
    effects.extend(password.chain(files));
    effects
}

/// Returns everything that a storage server is sent, and what is read for it.
#[cfg(feature = "postgres")]
fn storage_effects(storage: &StorageSection) -> Vec<(&'static str, String)> {
    let url = crate::config::storage::place(storage);
    let mut effects =
        vec![("connect", format!("storage: send records, saved sessions and data of tools to {}", quote(&url)))];
    if storage.unencrypted {
        effects.push(("connect", "storage: without encryption".to_owned()));
    }
    let password = storage.password.iter().map(|from| format!("the password of the storage from {}", from.place()));
    let roots = storage.tls_roots.iter().map(|file| quote(&file.to_string_lossy()));
    let roots = roots.map(|file| format!("certificates that verify the storage from {file}"));
    effects.extend(password.chain(roots).map(|what| ("read", what)));
    effects
}

fn add_servers(config: &Config, effects: &mut Vec<Effect>) {
    for (name, section) in &config.mcp.servers {
        let kind = if section.command.is_some() { "start" } else { "connect" };
        for line in servers::entry_lines(section) {
            effects.push(Effect { kind, what: format!("MCP server {name}: {line}") });
        }
        if section.approval == ApprovalRule::Off {
            effects.push(Effect { kind, what: format!("MCP server {name}: without your approval") });
        }
    }
}

fn add_model(config: &Config, effects: &mut Vec<Effect>) {
    let model = &config.model;
    let mut add = |what: String| effects.push(Effect { kind: "model", what });
    if let Some(name) = &model.name {
        add(format!("ask {}", quote(name)));
    }
    if let Some(url) = &model.base_url {
        add(format!("send everything, with the key of the provider, to {}", quote(url)));
    }
    if let Some(proxy) = &model.proxy {
        add(format!("go through the proxy {}", quote(proxy)));
    }
    if let Some(source) = &model.key {
        add(format!("use the key from {}", source.place()));
    }
    if model.key_over_plain_http {
        add("send the key over plain http".to_owned());
    }
}

fn add_tool(config: &Config, name: &str, tool: &ToolSection, effects: &mut Vec<Effect>) {
    let mut add = |what: String| effects.push(Effect { kind: "grant", what: format!("tool {name}: {what}") });
    let file = tool.component.as_ref().map(|file| file.to_string_lossy());
    let component = quote(file.as_deref().or(tool.reference.as_deref()).unwrap_or_default());
    match tool.approval {
        ApprovalRule::Required => add(format!("component {component}, once it is approved")),
        ApprovalRule::Off => add(format!("component {component}, without your approval")),
    }
    let any = |_: &ValueSource| Ok("any value".to_owned());
    // Grants that are not possible were rejected when the file was read.
    if let Ok(grant) = tool.powers.grant(&config.absolute_folder(), &any) {
        let lines = grant.lines(Some(&config.absolute_folder()));
        lines.iter().map(|line| format_grant(line)).for_each(&mut add);
    }
    for SecretSection { name, from, .. } in &tool.powers.secrets {
        add(format!("secret {} from {}", quote(name), from.place()));
    }
}

/// Returns whose approvals count beside those of this user.
fn approval_effects(config: &Config) -> impl Iterator<Item = String> {
    let line = |key: &String| format!("approvals in the lock that are signed with the key {}, as yours", quote(key));
    config.approval.keys.iter().map(line)
}

fn describe_key(key: &TextSource) -> String {
    match key {
        TextSource::Here(text) => quote(text),
        TextSource::InFile(file) => format!("in the file {}", quote(&file.file.to_string_lossy())),
    }
}

/// Returns the settings of registries that decide what is trusted, and who is asked.
fn registry_effects(registry: &RegistrySection) -> Vec<String> {
    let mut lines = Vec::new();
    match registry.signatures {
        SignatureRule::Required => {}
        SignatureRule::Warn => lines.push("unsigned components of registries, with a warning".to_owned()),
        SignatureRule::Off => lines.push("components of registries, without checking signatures".to_owned()),
    }
    lines.extend(
        registry.trusted_keys.iter().map(|it| format!("components that are signed with the key {}", describe_key(it))),
    );
    for (names, keys) in &registry.trusted {
        lines.extend(
            keys.iter()
                .map(|it| format!("components {} that are signed with the key {}", quote(names), describe_key(it))),
        );
    }
    for (registry, mirrors) in &registry.mirrors {
        lines.push(format!("components of {} from {}", quote(registry), quote(&mirrors.join(", "))));
    }
    let roots = registry.tls_roots.iter().map(|file| quote(&file.to_string_lossy()));
    lines.extend(roots.map(|file| format!("components from hosts verified with the certificates in {file}")));
    lines.extend(registry.proxy.iter().map(|proxy| format!("components through the proxy {}", quote(proxy))));
    let services = registry.token_hosts.iter();
    lines.extend(
        services.map(|host| format!("tokens for components from {}, with the passwords of registries", quote(host))),
    );
    lines.extend(registry.plain_http.iter().map(|host| format!("components of {} without encryption", quote(host))));
    lines
}

/// Quotes a text as JSON, so that its end is unambiguous and it contains no line break.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns all effects of a configuration as wrapped lines for a screen.
pub(crate) fn lines(config: &Config) -> Vec<String> {
    wrap(&effects(config))
}

/// Returns effects as wrapped lines for a screen.
pub(crate) fn wrap(effects: &[Effect]) -> Vec<String> {
    let screen = terminal::stderr_columns().or_else(terminal::stdout_columns).unwrap_or(MAX_LINE_CELLS);
    let cells = screen.clamp(MIN_LINE_CELLS, MAX_LINE_CELLS) - CONTINUATION_MARK.len();
    let mut lines = Vec::new();
    for Effect { kind, what } in effects {
        let text = format!("{kind:<8}{what}").replace('\n', "\\n");
        for (index, row) in quotation::wrap(&text, cells).iter().enumerate() {
            let mark = if index == 0 { MARK } else { CONTINUATION_MARK };
            lines.push(format!("{mark}{row}"));
        }
    }
    if lines.is_empty() {
        lines.push(format!("{MARK}start nothing, grant nothing and read nothing"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A configuration with every effect.
    const TEXT: &str = r#"
        tools_in = ["tools"]
        [approval]
        keys = ["MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0juFJfulvTTotQyzi0+sJhSSxpUziJRz5YZInlVL9AXZsTnKTwCpbEaCC43lxGJq+bNiyJHjWddGqKjIBKL3Rw=="]
        [model]
        name = "openai:gpt"
        base_url = "https://evil.example/v1"
        key = { env = "A_KEY" }
        [tools.notes]
        component = "notes.wasm"
        write = ["./out:/out"]
        approval = "off"
        http = ["GET https://api.example.com/**"]
        [[tools.notes.secrets]]
        name = "token"
        from = { file = "token.txt" }
        for = "https://api.example.com/**"
        header = "Authorization"
        [mcp.servers.time]
        command = ["sh", "-c", "echo\n  | start nothing"]
        secret_env = { KEY = { env = "HOME" } }
        [agent]
        system = { file = "/etc/passwd" }
        [telemetry]
        endpoint = "http://evil.example:4318"
        secret_headers = { x-key = { env = "OTHER_KEY" } }
        content = true
        [cell]
        nats = "tls://evil.example:4222"
        name = "g"
        key = "cell.key"
        key_value = "nats"
        budgets = "nats"
        push = true
        accept = "locked"
        gateways = { h = "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }
        [serve]
        dashboard = true
        [tenants.guest]
        tokens = ["sha256:5f9ea4ce13b57cbad72792d3b278f36d6bc3227992a538e91af3f48fe927bb4c"]
        tools = ["notes__*"]
        [tenants.app]
        claims = ["an-app"]
        [serve.oauth]
        issuer = "https://auth.example.com"
        resource = "https://tools.example.com"
        default_tenant = "guest"
        "#;

    #[test]
    fn lists_every_effect() {
        let config = crate::config::parse(Path::new("fumehood.toml"), TEXT).unwrap();
        let shown = lines(&config).join("\n").replace("\n  |     ", " ");
        for part in [
            r#"start   MCP server time: run: ["sh", "-c", "echo\n  | start nothing"]"#,
            r#"MCP server time: env: KEY = a secret, the variable "HOME""#,
            r#"model   send everything, with the key of the provider, to "https://evil.example/v1""#,
            r#"model   use the key from the variable "A_KEY""#,
            r#"grant   tool notes: component "notes.wasm", without your approval"#,
            r#"grant   tool notes: http: GET https://api.example.com/**"#,
            r#"grant   tool notes: secret "token" from the file "token.txt""#,
            r#"grant   components of the folder "tools", without powers"#,
            r#"grant   approvals in the lock that are signed with the key"#,
            r#"read    instructions from the file "/etc/passwd""#,
            r#"connect send traces and metrics to "http://evil.example:4318""#,
            r#"connect with traces, the arguments and the results of calls"#,
            r#"with traces and metrics, the header "x-key" = a secret, the variable "OTHER_KEY""#,
            "grant   a dashboard at 127.0.0.1:8081: its token",
            r#"connect cell: send arguments, results and state of calls to "tls://evil.example:4222", as "g""#,
            r#"connect cell: store data of tools at "tls://evil.example:4222""#,
            r#"connect cell: store budgets of tenants at "tls://evil.example:4222""#,
            r#"connect cell: send approved components to "tls://evil.example:4222""#,
            r#"grant   cell: components come from "tls://evil.example:4222", if you approve them"#,
            r#"read    the key of the cell from the file "cell.key""#,
            r#"grant   cell: the gateway "h" calls every tool here, with the key "ed25519:AAAA"#,
            r#"grant   tenant "guest": calls "notes__*" over HTTP with its token"#,
            r#"grant   tenant "app": calls every tool over HTTP with an access token of "an-app""#,
            r#"grant   calls with access tokens of "https://auth.example.com" for "https://tools.example.com""#,
            r#"connect fetch keys of access tokens from "https://auth.example.com""#,
            r#"grant   tenant "guest": any other access token of the issuer"#,
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }

    #[test]
    fn wraps_long_texts_behind_the_mark() {
        let text = format!("[mcp.servers.a]\ncommand = [\"{}\"]\n", "x".repeat(500));
        let config = crate::config::parse(Path::new("fumehood.toml"), &text).unwrap();
        let lines = lines(&config);
        assert!(lines.len() > 4 && lines.iter().all(|line| line.starts_with("  |") && line.len() < 120), "{lines:?}");
        assert_eq!(super::lines(&Config::none()), ["  | start nothing, grant nothing and read nothing"]);
    }
}
