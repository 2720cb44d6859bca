//! A component as a package for MCP clients: a bundle (`.mcpb`, manifest 0.3) that `fumehood serve mcp` runs, and the entry of
//! the MCP registry (`server.json`, schema 2025-12-11) that names it. The wishes of the component's author become settings of the
//! bundle, which grant nothing until a user sets them.

mod zip_archive;

use fumehood::Digest;
use fumehood::settings::{AnswerKind, Wish, Wishes, answer_variable};
use serde_json::{Map, Value, json};

/// The schema of `server.json`.
const SERVER_SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// The version of the manifest of a bundle.
const MANIFEST_VERSION: &str = "0.3";
/// Maximum length of the description and title of a server, in characters.
const MAX_DESCRIPTION_CHARS: usize = 100;
/// Maximum length of the name of a server, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Minimum length of each of the two parts of a name, in bytes.
const MIN_NAME_PART_BYTES: usize = 2;
/// Maximum length of a version, in bytes.
const MAX_VERSION_BYTES: usize = 255;

/// A description of a component for MCP clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The name of the component.
    pub title: String,
    /// The version.
    pub version: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The authors.
    pub authors: Option<String>,
    /// The licence, as an SPDX expression.
    pub license: Option<String>,
    /// The URL of the source code.
    pub repository: Option<String>,
    /// The URL of a page about the tool.
    pub homepage: Option<String>,
    /// The name in the MCP registry, `NAMESPACE/NAME` [default: from a repository on GitHub].
    pub server_name: Option<String>,
    /// The URL that the bundle is going to be downloaded from [default: the release of this version on GitHub].
    pub bundle_url: Option<String>,
    /// The wishes of the author.
    pub wishes: Wishes,
}

/// The two files of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPackage {
    /// The name of the bundle's file.
    pub bundle_name: String,
    /// The bundle.
    pub bundle: Vec<u8>,
    /// The contents of `server.json`.
    pub server: String,
}

/// Errors of making a package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpPackageError {
    /// The component has no version.
    #[error("the MCP registry requires a version; add `version` to the manifest of the project, and rebuild it")]
    NoVersion,
    /// The name is unknown.
    #[error(
        "the name in the MCP registry is unknown; use `--mcp-name NAMESPACE/NAME`, such as io.github.acme/city-facts, \
         or add a `repository` on github.com to the manifest"
    )]
    NoName,
    /// The name is malformed.
    #[error(
        "invalid MCP registry name `{0}`; expected NAMESPACE/NAME of letters, digits, `.` and `-`, each with at least \
         two characters and a letter or digit at both ends, such as io.github.acme/city-facts"
    )]
    Name(String),
    /// The address of the bundle is unknown.
    #[error(
        "the download URL of the bundle is unknown; use `--mcp-url https://…`, or add a `repository` on github.com to \
         the manifest"
    )]
    NoUrl,
    /// The address of the bundle is malformed.
    #[error("invalid bundle URL `{0}`; expected https://HOST/PATH that contains `mcp`, such as the extension `.mcpb`")]
    Url(String),
    /// The version is a range.
    #[error(
        "invalid MCP registry version `{0}`; expected letters, digits, `.`, `-`, `+` and `_`, such as 1.0.0, not a \
         range"
    )]
    Version(String),
    /// The component is too large.
    #[error("the component is too large for a bundle; the maximum is 4 GiB")]
    TooLarge,
    /// A document cannot be written.
    #[error("cannot write the package: {0}")]
    Json(#[from] serde_json::Error),
}

impl McpPackage {
    /// Makes the package of a component. The same component always gives the same bytes.
    ///
    /// # Errors
    /// If a name or an address is missing or malformed.
    pub fn new(component: &[u8], info: &ServerInfo) -> Result<Self, McpPackageError> {
        let version = info.version.as_deref().ok_or(McpPackageError::NoVersion)?;
        if !is_one_version(version) {
            return Err(McpPackageError::Version(version.to_owned()));
        }
        let name = server_name(info)?;
        let short = name.rsplit('/').next().unwrap_or_default();
        let bundle_name = format!("{short}-{version}.mcpb");
        let url = bundle_url(info, version, &bundle_name)?;
        let file = format!("server/{short}.wasm");
        let manifest = serde_json::to_vec_pretty(&manifest(info, &name, short, version, &file))?;
        let files: [(&str, &[u8]); 2] = [("manifest.json", &manifest), (&file, component)];
        let bundle = zip_archive::archive(&files).ok_or(McpPackageError::TooLarge)?;
        let mut server = json!({
            "$schema": SERVER_SCHEMA,
            "name": name,
            "title": cut(&info.title),
            "description": cut(&description(info)),
            "version": version,
            "packages": [{
                "registryType": "mcpb",
                "identifier": url,
                "version": version,
                "fileSha256": Digest::of(&bundle).hex(),
                "transport": { "type": "stdio" },
            }],
        });
        if let Some(members) = server.as_object_mut() {
            if let Some((source, url)) = info.repository.as_deref().and_then(repository) {
                members.insert("repository".to_owned(), json!({ "url": url, "source": source }));
            }
            insert(members, "websiteUrl", web_address(info.homepage.as_deref()));
        }
        let server = serde_json::to_string_pretty(&server)? + "\n";
        Ok(Self { bundle_name, bundle, server })
    }
}

/// Returns the manifest of the bundle. `fumehood` is looked for where the client runs: a bundle has no program in it, so that one
/// file serves every system.
fn manifest(info: &ServerInfo, name: &str, short: &str, version: &str, file: &str) -> Value {
    let namespace = name.split('/').next().unwrap_or_default();
    let powers = if info.wishes.is_empty() {
        "without files, network or environment"
    } else {
        "with the powers that you grant in its settings, and no others"
    };
    let mut manifest = json!({
        "manifest_version": MANIFEST_VERSION,
        "name": short,
        "display_name": info.title,
        "version": version,
        "description": description(info),
        "long_description": format!(
            "Runs in a sandbox {powers}. It needs the command `fumehood`, version {} or newer: \
             `pip install fumehood-cli` or `npm install --global fumehood-cli`.",
            env!("CARGO_PKG_VERSION")
        ),
        "author": { "name": info.authors.as_deref().unwrap_or(namespace) },
        "server": {
            "type": "binary",
            "entry_point": file,
            "mcp_config": mcp_config(&info.wishes, file),
        },
        "tools_generated": true,
    });
    if let Some(members) = manifest.as_object_mut() {
        insert(members, "license", info.license.as_deref());
        insert(members, "homepage", web_address(info.homepage.as_deref()));
        if let Some((_, url)) = info.repository.as_deref().and_then(repository) {
            members.insert("repository".to_owned(), json!({ "type": "git", "url": url }));
        }
        if !info.wishes.is_empty() {
            let settings = info.wishes.named().into_iter().map(|(name, wish)| (name, setting(wish)));
            members.insert("user_config".to_owned(), settings.collect::<Map<_, _>>().into());
        }
    }
    manifest
}

/// Returns how the server is started. Answers are variables, because other users of the machine can read arguments.
fn mcp_config(wishes: &Wishes, file: &str) -> Value {
    let file = format!("${{__dirname}}/{file}");
    if wishes.is_empty() {
        return json!({ "command": "fumehood", "args": ["serve", "mcp", file] });
    }
    let answers = wishes.named().into_iter();
    let answers = answers.map(|(name, _)| (answer_variable(&name), format!("${{user_config.{name}}}").into()));
    json!({
        "command": "fumehood",
        "args": ["serve", "mcp", "--wishes-from-env", file],
        "env": answers.collect::<Map<_, _>>(),
    })
}

/// Returns the setting that grants a wish. It has no default that does.
fn setting(wish: &Wish) -> Value {
    let title = wish.title();
    let description = match wish.reason() {
        Some(reason) => format!("The author asks for it {reason}."),
        None => "The author asks for it, and gives no reason.".to_owned(),
    };
    match wish.answer_kind() {
        AnswerKind::Switch => {
            json!({ "type": "boolean", "title": title, "description": description, "default": false })
        }
        AnswerKind::Folder => json!({ "type": "directory", "title": title, "description": description }),
        AnswerKind::Text => json!({ "type": "string", "title": title, "description": description }),
        AnswerKind::Secret => {
            json!({ "type": "string", "title": title, "description": description, "sensitive": true })
        }
    }
}

fn insert(members: &mut Map<String, Value>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        members.insert(name.to_owned(), value.into());
    }
}

fn description(info: &ServerInfo) -> String {
    let own = info.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    own.map_or_else(|| format!("The tools of {}", info.title), str::to_owned)
}

/// Returns the beginning of a text that is as long as the schema takes.
fn cut(text: &str) -> String {
    if text.chars().count() > MAX_DESCRIPTION_CHARS {
        text.chars().take(MAX_DESCRIPTION_CHARS - 1).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

fn server_name(info: &ServerInfo) -> Result<String, McpPackageError> {
    let from_github = || {
        let (owner, _) = github(info.repository.as_deref()?)?;
        Some(format!("io.github.{owner}/{}", info.title))
    };
    let name = info.server_name.clone().or_else(from_github).ok_or(McpPackageError::NoName)?;
    let is_valid =
        name.split_once('/').is_some_and(|(namespace, own)| is_name_part(namespace, ".-") && is_name_part(own, "._-"));
    if is_valid && name.len() <= MAX_NAME_BYTES { Ok(name) } else { Err(McpPackageError::Name(name)) }
}

/// Returns whether a part of a name consists of letters, digits and `others`, and neither begins nor ends with one of those.
fn is_name_part(part: &str, others: &str) -> bool {
    part.len() >= MIN_NAME_PART_BYTES
        && part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.ends_with(|c: char| c.is_ascii_alphanumeric())
        && part.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

fn bundle_url(info: &ServerInfo, version: &str, bundle_name: &str) -> Result<String, McpPackageError> {
    if let Some(url) = &info.bundle_url {
        // The registry takes no other address.
        let named = web_address(Some(url)).filter(|url| url.to_ascii_lowercase().contains("mcp"));
        return named.map(str::to_owned).ok_or_else(|| McpPackageError::Url(url.clone()));
    }
    let (owner, name) = info.repository.as_deref().and_then(github).ok_or(McpPackageError::NoUrl)?;
    Ok(format!("https://github.com/{owner}/{name}/releases/download/v{version}/{bundle_name}"))
}

/// Returns an address that begins with `https://` and goes on without a space.
fn web_address(url: Option<&str>) -> Option<&str> {
    url.filter(|url| url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty()))
        .filter(|url| !url.contains(|c: char| c.is_whitespace() || c.is_control()))
}

/// Returns whether a version is one, and neither a range nor a name for the newest. It is a part of the bundle's file name, and
/// comes from the component: it has no character that a path, a terminal or an address takes for another thing.
fn is_one_version(version: &str) -> bool {
    let is_wildcard = |part: &str| matches!(part, "x" | "X");
    let is_plain = version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+_".contains(c));
    let is_range = version.split('.').any(is_wildcard);
    !version.is_empty() && version.len() <= MAX_VERSION_BYTES && version != "latest" && is_plain && !is_range
}

/// Returns owner and name of a repository on GitHub.
fn github(url: &str) -> Option<(&str, &str)> {
    let (owner, rest) = web_address(Some(url))?.strip_prefix("https://github.com/")?.split_once('/')?;
    let name = rest.split('/').next()?.trim_end_matches(".git");
    (!owner.is_empty() && !name.is_empty()).then_some((owner, name))
}

/// Returns the hosting service of a repository and its address, if it is one that the MCP registry takes: owner and name at a
/// known service, without a folder or a group in between.
fn repository(url: &str) -> Option<(&'static str, String)> {
    if let Some((owner, name)) = github(url) {
        return Some(("github", format!("https://github.com/{owner}/{name}")));
    }
    let path =
        web_address(Some(url))?.trim_end_matches('/').trim_end_matches(".git").strip_prefix("https://gitlab.com/")?;
    let (owner, name) = path.split_once('/')?;
    let is_plain = !owner.is_empty() && !name.is_empty() && !name.contains('/');
    is_plain.then(|| ("gitlab", format!("https://gitlab.com/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ServerInfo {
        ServerInfo {
            title: "city-facts".to_owned(),
            version: Some("1.2.0".to_owned()),
            description: Some("Facts about cities. ".repeat(20)),
            license: Some("MIT".to_owned()),
            repository: Some("https://github.com/acme/cities.git".to_owned()),
            homepage: Some("https://example.com/cities".to_owned()),
            ..ServerInfo::default()
        }
    }

    #[test]
    fn names_come_from_the_repository() {
        let package = McpPackage::new(b"\0asm", &info()).unwrap();
        assert_eq!(package, McpPackage::new(b"\0asm", &info()).unwrap());
        let server: Value = serde_json::from_str(&package.server).unwrap();
        assert_eq!(server["name"], "io.github.acme/city-facts");
        let url = "https://github.com/acme/cities/releases/download/v1.2.0/city-facts-1.2.0.mcpb";
        assert_eq!(server["packages"][0]["identifier"], url);
        assert_eq!(server["packages"][0]["fileSha256"], Digest::of(&package.bundle).hex());
        assert_eq!(server["repository"]["url"], "https://github.com/acme/cities");
        assert_eq!(server["description"].as_str().unwrap().chars().count(), MAX_DESCRIPTION_CHARS);
        let text = String::from_utf8_lossy(&package.bundle);
        assert!(text.contains("${__dirname}/server/city-facts.wasm") && text.contains("manifest.json"));
    }

    #[test]
    fn wishes_are_settings_that_grant_nothing_by_themselves() {
        let rule = |rule: &str, reason: &str| json!({ "rule": rule, "reason": reason });
        let secret = json!({ "name": "api", "for": "https://a.example/**", "header": "Authorization" });
        let wishes = Wishes::new(json!({
            "http": [rule("GET https://a.example/**", "to read prices"), "POST https://b.example/"],
            "read": ["/docs"],
            "secrets": [secret],
        }));
        let info = ServerInfo { wishes: wishes.unwrap(), ..info() };
        let manifest = manifest(&info, "io.github.acme/city-facts", "city-facts", "1.2.0", "server/city-facts.wasm");
        let started = &manifest["server"]["mcp_config"];
        assert_eq!(
            started["args"],
            json!(["serve", "mcp", "--wishes-from-env", "${__dirname}/server/city-facts.wasm"])
        );
        let answers = json!({
            "FUMEHOOD_WISH_HTTP_1": "${user_config.http_1}",
            "FUMEHOOD_WISH_HTTP_2": "${user_config.http_2}",
            "FUMEHOOD_WISH_READ_1": "${user_config.read_1}",
            "FUMEHOOD_WISH_SECRETS_1": "${user_config.secrets_1}",
        });
        assert_eq!(started["env"], answers);
        let settings = &manifest["user_config"];
        let first = json!({
            "type": "boolean",
            "title": "Allow GET https://a.example/**",
            "description": "The author asks for it to read prices.",
            "default": false,
        });
        assert_eq!(settings["http_1"], first);
        assert_eq!(settings["http_2"]["description"], "The author asks for it, and gives no reason.");
        assert_eq!(settings["read_1"]["type"], "directory");
        assert_eq!(settings["read_1"]["title"], "Folder to read, which the tool sees as /docs");
        assert_eq!(settings["secrets_1"]["title"], "Secret api, for https://a.example/**");
        assert_eq!(settings["secrets_1"]["sensitive"], true);
        let is_off = |setting: &Value| setting["default"].as_bool() != Some(true) && setting.get("required").is_none();
        assert!(settings.as_object().unwrap().values().all(is_off), "{settings:#}");
    }

    #[test]
    fn rejects_what_the_registry_would_reject() {
        fn named(name: &str) -> ServerInfo {
            ServerInfo { server_name: Some(name.to_owned()), ..info() }
        }

        fn check(info: ServerInfo, expected: &str) {
            let error = McpPackage::new(b"\0asm", &info).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }

        check(ServerInfo { version: None, ..info() }, "requires a version");
        check(ServerInfo { repository: None, ..info() }, "--mcp-name");
        check(named("city-facts"), "expected NAMESPACE/NAME");
        check(named("a/b/c"), "expected NAMESPACE/NAME");
        check(ServerInfo { repository: None, ..named("com.acme/cities") }, "--mcp-url");
        check(named("a/cities"), "at least two characters");
        check(named("com.acme/cities-"), "a letter or digit at both ends");
        for url in ["http://a.example/b.mcpb", "https://a.example/b.zip"] {
            check(ServerInfo { bundle_url: Some(url.to_owned()), ..info() }, "expected https://");
        }
        for version in ["1/../../up", "..\\up", "1.0\0", "1.0\u{202e}", "1%2fup", "1?x", "1#x"] {
            check(ServerInfo { version: Some(version.to_owned()), ..info() }, "expected letters, digits");
        }
        for version in ["latest", "^1.2", "1.x", "1.2.*", "1.0 || 2.0", ""] {
            check(ServerInfo { version: Some(version.to_owned()), ..info() }, "not a range");
        }
    }

    /// Rules of the registry about `server.json`: those of its schema 2025-12-11 that concern a bundle, and those about names,
    /// versions and addresses that it checks besides.
    fn rules() -> Value {
        let bundle = json!({
            "type": "object",
            "required": ["registryType", "identifier", "fileSha256", "transport"],
            "properties": {
                "registryType": { "const": "mcpb" },
                "identifier": { "type": "string", "pattern": "^https://[^\\s]*[mM][cC][pP][^\\s]*$" },
                "version": { "type": "string", "minLength": 1, "not": { "const": "latest" } },
                "fileSha256": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
                "transport": {
                    "required": ["type"],
                    "properties": { "type": { "const": "stdio" } },
                    "additionalProperties": false,
                },
                "registryBaseUrl": false,
            },
        });
        let name = "^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]/[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]$";
        let repository = "^https?://(www\\.)?(github|gitlab)\\.com/[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+/?$";
        let text = json!({ "type": "string", "minLength": 1, "maxLength": 100, "pattern": "\\S" });
        json!({
            "type": "object",
            "required": ["$schema", "name", "description", "version"],
            "properties": {
                "$schema": { "const": SERVER_SCHEMA },
                "name": { "type": "string", "minLength": 3, "maxLength": 200, "pattern": name },
                "title": text,
                "description": text,
                "version": { "type": "string", "maxLength": 255, "not": { "pattern": "^latest$|[\\^~<>=|*\\s]" } },
                "websiteUrl": { "type": "string", "pattern": "^https://\\S+$" },
                "repository": {
                    "type": "object",
                    "required": ["url", "source"],
                    "properties": { "url": { "pattern": repository }, "source": { "enum": ["github", "gitlab"] } },
                },
                "packages": { "type": "array", "items": bundle },
            },
        })
    }

    #[test]
    fn server_json_has_what_the_registry_requires() {
        let rules = jsonschema::validator_for(&rules()).unwrap();
        let repositories = [
            "https://github.com/acme/cities.git",
            "https://github.com/acme/cities/tree/main/tools",
            "https://gitlab.com/acme/cities",
            "https://gitlab.com/acme/group/cities",
            "https://git.example.com/acme/cities",
            "git@github.com:acme/cities.git",
        ];
        for repository in repositories {
            for description in [None, Some("Facts.".to_owned()), Some("ü".repeat(500)), Some("  ".to_owned())] {
                let info = ServerInfo {
                    description,
                    repository: Some(repository.to_owned()),
                    server_name: Some("io.github.acme/city-facts".to_owned()),
                    bundle_url: Some("https://example.com/city-facts-1.2.0.mcpb".to_owned()),
                    ..info()
                };
                let server: Value = serde_json::from_str(&McpPackage::new(b"\0asm", &info).unwrap().server).unwrap();
                let faults: Vec<String> = rules.iter_errors(&server).map(|error| error.to_string()).collect();
                assert!(faults.is_empty(), "{faults:?}\n{server:#}");
            }
        }
        assert!(!rules.is_valid(&json!({ "name": "city-facts", "description": "", "version": "1" })));
    }
}
