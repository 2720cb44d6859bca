//! Programs: components that export `wasi:cli/run`, each of them one tool that takes a command line.

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::tool::command_template::MAX_ARGS;
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, ToolDefinition};
use fumehood_core::tool::name::ToolName;
use serde_json::{Value, json};
use wasmparser::{ComponentName, KnownCustom, Name, Parser, Payload};
use wasmtime::component::{Component, ComponentExportIndex};
use wasmtime_wasi::I32Exit;

use crate::load::error::LoadError;
use crate::wasi::guest_output::message;

/// The interface that a program exports, without its version.
pub(super) const RUN_INTERFACE: &str = "wasi:cli/run";
/// The prefixes of the versions of that interface that this host calls.
pub(super) const VERSIONS: [&str; 2] = ["0.2.", "0.3."];
/// The function of the interface, and the name of the tool.
const RUN: &str = "run";
/// The name of the section with a file's description (OCI annotations of WebAssembly files).
const DESCRIPTION_SECTION: &str = "description";
/// Maximum size of the name of a program in its description, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum size of the output that is quoted in the error of a program, in bytes. A message may have more.
const MAX_QUOTED_BYTES: usize = 3 << 10;

/// A program as a tool.
#[derive(Debug)]
pub(crate) struct CommandTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) run: ComponentExportIndex,
}

/// Finds the function that runs a program, and describes its tool.
///
/// # Errors
/// If the interface has no such function.
pub(super) fn find(
    component: &Component,
    version: &str,
    bytes: &[u8],
    limits: &DefinitionLimits,
) -> Result<CommandTool, LoadError> {
    let instance = format!("{RUN_INTERFACE}@{version}");
    let found = component.get_export_index(None, &instance);
    let run = found.and_then(|instance| component.get_export_index(Some(&instance), RUN));
    let run =
        run.ok_or_else(|| LoadError::Typed(format!("the component exports no function `{RUN}` of `{instance}`")))?;
    let name = ToolName::for_component(RUN).map_err(|error| LoadError::Host(error.to_string()))?;
    let definition = ToolDefinition {
        name,
        export: Some(format!("{instance}#{RUN}").into()),
        title: None,
        description: Metadata::read(bytes).describe(limits.description_bytes).into(),
        input_schema: input_schema().into(),
        output_schema: None,
        annotations: Annotations::default(),
        mcp_members: None,
    };
    Ok(CommandTool { definition, run })
}

/// Returns the schema of a command line. The maxima are those of a granted one.
fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "args": {
                "type": "array",
                "items": {"type": "string", "pattern": "^[^\\u0000]*$"},
                "maxItems": MAX_ARGS,
                "description": "The command line without the name of the program: one text for each argument. No shell reads it."
            },
            "stdin": {"type": "string", "description": "The text on standard input, which is empty by default."}
        },
        "required": ["args"],
        "additionalProperties": false
    })
}

/// The texts that a file has about its program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metadata {
    name: Option<String>,
    description: Option<String>,
}

impl Metadata {
    /// Reads the metadata of a component, or else that of its first module: a compiler names the module.
    fn read(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        let mut depth = 0_usize;
        let mut modules = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload {
                Ok(Payload::ModuleSection { .. }) => {
                    depth += 1;
                    modules += 1;
                }
                Ok(Payload::ComponentSection { .. }) => depth += 1,
                Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
                Ok(Payload::CustomSection(section)) if depth == 0 || (depth == 1 && modules == 1) => {
                    found.add(&section, depth == 0);
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        found
    }

    /// Adds what a section has. Those of the component itself come after those of its module, and replace them.
    fn add(&mut self, section: &wasmparser::CustomSectionReader<'_>, is_component: bool) {
        if section.name() == DESCRIPTION_SECTION {
            let text = std::str::from_utf8(section.data()).ok().map(str::trim).filter(|text| !text.is_empty());
            if let Some(text) = text.filter(|_| is_component || self.description.is_none()) {
                self.description = Some(text.to_owned());
            }
            return;
        }
        let name = match section.as_known() {
            KnownCustom::Name(names) => names.into_iter().map_while(Result::ok).find_map(|name| match name {
                Name::Module { name, .. } => Some(name),
                _ => None,
            }),
            KnownCustom::ComponentName(names) => names.into_iter().map_while(Result::ok).find_map(|name| match name {
                ComponentName::Component { name, .. } => Some(name),
                _ => None,
            }),
            _ => None,
        };
        let name = name.map(|name| name.trim().trim_end_matches(".wasm")).filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| is_component || self.name.is_none()) {
            self.name = Some(truncate_str(name, MAX_NAME_BYTES).to_owned());
        }
    }

    /// Returns the description of the tool, with at most `max_bytes` bytes.
    fn describe(&self, max_bytes: usize) -> String {
        const USE: &str = "It gets the command line `args`, and its result is what it writes to standard output. The \
                           argument `--help` shows how most programs are used.";
        let program = match &self.name {
            Some(name) => format!("Runs the program `{name}`. {USE}"),
            None => format!("Runs a program. {USE}"),
        };
        let text = match &self.description {
            Some(description) => {
                let rest = max_bytes.saturating_sub(program.len() + 2);
                format!("{}\n\n{program}", truncate_str(description, rest))
            }
            None => program,
        };
        truncate_str(&text, max_bytes).to_owned()
    }
}

/// Returns the exit code of a program that has ended by itself. In WASI 0.2, `run` itself only succeeds or fails.
///
/// # Errors
/// If it was stopped.
pub(crate) fn exit_code(ended: wasmtime::Result<(Result<(), ()>,)>) -> wasmtime::Result<i32> {
    match ended {
        Ok((Ok(()),)) => Ok(0),
        Ok((Err(()),)) => Ok(1),
        Err(error) => error.downcast_ref::<I32Exit>().map(|exit| exit.0).ok_or(error),
    }
}

/// Converts what a successful program wrote to its standard output: to text, or to bytes if it is no UTF-8.
pub(crate) fn to_content(stdout: Vec<u8>) -> Vec<Content> {
    if stdout.is_empty() {
        return Vec::new();
    }
    vec![match String::from_utf8(stdout) {
        Ok(text) => Content::text(text),
        Err(error) => {
            let mime_type = "application/octet-stream".to_owned().into();
            Content::Blob { mime_type, data: error.into_bytes() }
        }
    }]
}

/// Converts the output of a program that writes one JSON value.
///
/// # Errors
/// If it is none.
pub(crate) fn to_json(parts: Vec<Content>) -> Result<Content, CallError> {
    match parts.into_iter().next() {
        Some(text @ Content::Text { .. }) => text.into_json().map_err(|error| not_json(&error.to_string())),
        Some(_) => Err(not_json("it is not UTF-8")),
        None => Err(not_json("it is empty")),
    }
}

fn not_json(reason: &str) -> CallError {
    let text = format!("the output of the program is not one JSON value: {reason}");
    CallError::new(ErrorKind::BadResult, message(&text))
}

/// Returns the failure of a program with another exit code than 0. It quotes the end of what the program wrote to standard
/// error, or to standard output if it wrote nothing there.
pub(crate) fn failure(code: i32, stdout: &[u8], stderr: &[u8]) -> CallError {
    let written = [stderr, stdout].into_iter().map(read_end).find(|text| !text.is_empty());
    let text = match written {
        Some(written) => format!("the program ended with exit code {code}: {written}"),
        None => format!("the program ended with exit code {code}, and wrote nothing"),
    };
    CallError::new(ErrorKind::ToolFailed, message(&text))
}

/// Returns the last [`MAX_QUOTED_BYTES`] of an output: a program writes the reason last.
fn read_end(output: &[u8]) -> String {
    let start = output.len().saturating_sub(MAX_QUOTED_BYTES);
    let end = String::from_utf8_lossy(output.get(start..).unwrap_or_default());
    let end = end.trim();
    if start > 0 && !end.is_empty() { format!("…{}", end.trim_start_matches('\u{fffd}')) } else { end.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_text_or_bytes() {
        assert_eq!(to_content(Vec::new()), []);
        assert_eq!(to_content(b"a\n".to_vec()), [Content::text("a\n".to_owned())]);
        assert!(matches!(&to_content(vec![0xff])[..], [Content::Blob { data, .. }] if data == &[0xff]));
    }

    #[test]
    fn json_is_one_value() {
        let json = |text: &str| to_json(vec![Content::text(text)]).map_err(|error| error.message.as_str().to_owned());
        assert_eq!(json("{\"a\": 1}\n").unwrap(), Content::json("{\"a\": 1}".to_owned()).unwrap());
        for (parts, expected) in [
            (vec![Content::text("1 2")], "not one JSON value: trailing characters"),
            (to_content(vec![0xff]), "it is not UTF-8"),
            (Vec::new(), "it is empty"),
        ] {
            let error = to_json(parts).unwrap_err();
            assert!(error.kind == ErrorKind::BadResult && error.message.as_str().contains(expected), "{error:?}");
        }
    }

    #[test]
    fn failures_quote_the_end_of_the_output() {
        let check = |stdout: &[u8], stderr: &[u8], expected: &str| {
            assert_eq!(failure(3, stdout, stderr).message.as_str(), expected);
        };
        check(b"out", b"err\n", "the program ended with exit code 3: err");
        check(b"out", b" \n", "the program ended with exit code 3: out");
        check(b"", b"", "the program ended with exit code 3, and wrote nothing");
        check(b"", b"\x1b[2J", "the program ended with exit code 3: \\u{1b}[2J");
        let long = failure(3, b"", &[&"ä".repeat(4096), "the reason"].map(str::as_bytes).concat());
        assert!(long.message.as_str().ends_with("äthe reason") && long.message.as_str().contains(": …ä"), "{long:?}");
    }

    #[test]
    fn describes_a_program_with_what_its_file_says() {
        let bytes = wat::parse_str(
            r#"(component $outer
                (core module $program.wasm (@custom "description" "Of the module."))
                (core module $other (@custom "description" "Of another one.")))"#,
        )
        .unwrap();
        let found = Metadata::read(&bytes);
        assert_eq!(found.name.as_deref(), Some("outer"));
        assert_eq!(found.description.as_deref(), Some("Of the module."));
        assert!(found.describe(4096).starts_with("Of the module.\n\nRuns the program `outer`. It gets"), "{found:?}");
        assert!(found.describe(300).len() <= 300);
        let module = Metadata::read(&wat::parse_str(r#"(component (core module $program.wasm))"#).unwrap());
        assert_eq!(module, Metadata { name: Some("program".to_owned()), description: None });
        assert!(Metadata::read(b"").describe(4096).starts_with("Runs a program."));
    }
}
