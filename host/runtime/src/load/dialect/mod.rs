//! The calling convention of a component: our contract, plain typed functions, or the command line of a program.

pub(crate) mod command;
pub(crate) mod typed;

use fumehood_core::tool::definition::{DefinitionLimits, ToolDefinition};
use serde::Serialize;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

use crate::load::error::LoadError;
use crate::load::imports::{Import, contract_version};
use crate::wasi::capability;
use crate::wasi::resource_bindings::GuestIndices;
use crate::wasi::{CallState, Capabilities};
use command::CommandTool;
use typed::PackageDocs;

pub(crate) use typed::{COMPLETE_DOCS_SECTION, DOCS_SECTION};
pub use typed::{HOOK_FUNCTIONS, Skipped, convert_typed};

/// A component's calling convention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "version", rename_all = "snake_case")]
pub enum Dialect {
    /// The contract: the component exports `fumehood:tool/tools` of this version.
    Contract(String),
    /// Plain exported functions. Names, schemas and descriptions of the tools come from their types.
    Typed,
    /// A program: the component exports `wasi:cli/run` of this version, and nothing that is not of WASI.
    Command(String),
    /// A hook of an operator and no tool: the component exports `fumehood:hooks/hook` of this version. Its definitions are
    /// the functions of that interface, in the order of [`HOOK_FUNCTIONS`].
    Hook(String),
}

impl Dialect {
    /// Returns whether names and schemas come from the types of the exports.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        matches!(self, Self::Typed | Self::Hook(_))
    }
}

/// A linked component that is ready to be instantiated.
pub(crate) enum Callable {
    Contract {
        pre: InstancePre<CallState>,
        exports: ContractExports,
        /// The functions of the interface `resources`, if the component has it.
        resources: Option<GuestIndices>,
    },
    Typed {
        pre: InstancePre<CallState>,
        tools: Vec<typed::TypedTool>,
    },
    Command {
        pre: InstancePre<CallState>,
        tool: Box<CommandTool>,
    },
}

/// The functions of the interface `tools`. Looking them up by name in each call takes longer than many calls.
pub(crate) struct ContractExports {
    pub(crate) describe: ComponentExportIndex,
    pub(crate) call: ComponentExportIndex,
    /// True from version 0.2 on, in which `call` returns a stream.
    pub(crate) returns_stream: bool,
}

impl ContractExports {
    fn find(component: &Component, version: &str) -> Result<Self, LoadError> {
        let interface = format!("{TOOLS_INTERFACE}@{version}");
        Ok(Self {
            describe: find_function(component, &interface, "describe")?,
            call: find_function(component, &interface, "call")?,
            returns_stream: has_streams(version),
        })
    }
}

impl Callable {
    /// Returns the definitions of the tools; `None` if the component itself has to be asked.
    pub(crate) fn definitions(&self) -> Option<Vec<ToolDefinition>> {
        match self {
            Self::Contract { .. } => None,
            Self::Typed { tools, .. } => Some(tools.iter().map(|tool| tool.definition.clone()).collect()),
            Self::Command { tool, .. } => Some(vec![tool.definition.clone()]),
        }
    }
}

/// Links a component to the host's interfaces, and finds the tools of one that does not describe itself. `docs` is the content
/// of a section that replaces the documentation in `bytes`.
///
/// # Errors
/// If its imports do not fit, or no tools can be made of its exports.
pub(crate) fn link(
    linker: &Linker<CallState>,
    capabilities: &Capabilities,
    component: &Component,
    bytes: &[u8],
    docs: Option<&[u8]>,
    dialect: &Dialect,
    limits: &DefinitionLimits,
) -> Result<(Callable, Vec<Skipped>), LoadError> {
    capability::check_types(linker, component, capabilities).map_err(link_error)?;
    let pre = linker.instantiate_pre(component).map_err(link_error)?;
    let read_docs = || PackageDocs::from_section_or_component(docs, bytes);
    match dialect {
        Dialect::Contract(version) => {
            let exports = ContractExports::find(component, version)?;
            // The name of a compatible version finds it, too.
            let resources = component.get_export_index(None, format!("{RESOURCES_INTERFACE}@0.1.0"));
            let resources = resources.map(|_| GuestIndices::new(&pre)).transpose().map_err(link_error)?;
            Ok((Callable::Contract { pre, exports, resources }, Vec::new()))
        }
        Dialect::Typed => {
            let found = typed::discover(component, &read_docs(), linker.engine(), limits)
                .map_err(|error| LoadError::Typed(error.to_string()))?;
            Ok((Callable::Typed { pre, tools: found.tools }, found.skipped))
        }
        Dialect::Command(version) => {
            let tool = Box::new(command::find(component, version, bytes, limits)?);
            Ok((Callable::Command { pre, tool }, Vec::new()))
        }
        Dialect::Hook(version) => {
            let tools = typed::find_hook(component, version, &read_docs(), linker.engine(), limits)
                .map_err(LoadError::Typed)?;
            Ok((Callable::Typed { pre, tools }, Vec::new()))
        }
    }
}

fn find_function(component: &Component, interface: &str, name: &str) -> Result<ComponentExportIndex, LoadError> {
    let instance = component.get_export_index(None, interface);
    let found = instance.and_then(|instance| component.get_export_index(Some(&instance), name));
    found.ok_or_else(|| link_error(wasmtime::Error::msg(format!("it exports no function `{name}`"))))
}

fn link_error(error: wasmtime::Error) -> LoadError {
    LoadError::Link(crate::wasi::guest_output::cut(&format!("{error:#}")))
}

/// The interface of tools, without its version.
const TOOLS_INTERFACE: &str = "fumehood:tool/tools";
/// The optional interface of resources, without its version.
const RESOURCES_INTERFACE: &str = "fumehood:tool/resources";

/// Determines the dialect of a component from the names of its exports.
///
/// # Errors
/// If the component was built for a version of the contract that this host does not accept.
pub(crate) fn detect(exports: &[String]) -> Result<Dialect, LoadError> {
    // A hook sees the calls of other tools, and is none itself.
    match (find_version(exports, typed::HOOK_INTERFACE), find_version(exports, TOOLS_INTERFACE)) {
        (Some(version), _) if is_accepted(&version) => Ok(Dialect::Hook(version)),
        (None, Some(version)) if is_accepted(&version) || has_streams(&version) => {
            match find_version(exports, RESOURCES_INTERFACE).filter(|found| !is_accepted(found)) {
                Some(found) => Err(LoadError::ContractVersion { found }),
                None => Ok(Dialect::Contract(version)),
            }
        }
        (Some(found), _) | (None, Some(found)) => Err(LoadError::ContractVersion { found }),
        (None, None) => Ok(find_program(exports).map_or(Dialect::Typed, Dialect::Command)),
    }
}

/// Returns the version of `wasi:cli/run` that a program exports; `None` if the component has functions of its own.
fn find_program(exports: &[String]) -> Option<String> {
    let version = find_version(exports, command::RUN_INTERFACE)?;
    let is_called = command::VERSIONS.iter().any(|known| version.starts_with(known));
    let is_program = is_called && exports.iter().all(|name| name.starts_with("wasi:"));
    is_program.then_some(version)
}

fn find_version(exports: &[String], interface: &str) -> Option<String> {
    let exported = exports.iter().find_map(|name| name.strip_prefix(interface));
    exported.map(|rest| rest.strip_prefix('@').unwrap_or("none").to_owned())
}

/// Checks that a component was built for an accepted version of the contract, before the linker reports a less helpful
/// error. All interfaces that are imported are of 0.1.
///
/// # Errors
/// If it was built for another version.
pub(crate) fn check_contract(imports: &[Import]) -> Result<(), LoadError> {
    let versions = imports.iter().filter_map(|import| Some((import, contract_version(&import.name)?)));
    match versions.into_iter().find(|(_, version)| !is_accepted(version)) {
        None => Ok(()),
        Some((import, version)) if has_streams(version) => Err(LoadError::UnknownImport(vec![import.name.clone()])),
        Some((_, version)) => Err(LoadError::ContractVersion { found: version.to_owned() }),
    }
}

/// Returns whether a version is compatible with 0.1. Messages name the versions of tools as
/// [`crate::load::error::ACCEPTED_CONTRACT`].
fn is_accepted(version: &str) -> bool {
    is_patch_of(version, "0.1.")
}

/// Returns whether a version is compatible with 0.2, whose tools return streams.
fn has_streams(version: &str) -> bool {
    is_patch_of(version, "0.2.")
}

fn is_patch_of(version: &str, minor: &str) -> bool {
    let patch = version.strip_prefix(minor);
    patch.is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_compatible_contract_versions() {
        for version in ["0.1.0", "0.1.7"] {
            assert!(is_accepted(version), "{version}");
        }
        for version in ["0.2.0", "1.0.0", "0.10.0", "0.1.", "0.1.0-rc1", "none", ""] {
            assert!(!is_accepted(version), "{version}");
        }
    }

    #[test]
    fn tools_of_0_2_keep_the_other_interfaces_of_0_1() {
        let detect = |exports: &[&str]| detect(&exports.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let with =
            |version: &str| detect(&["fumehood:tool/tools@0.2.0", &format!("fumehood:tool/resources@{version}")]);
        assert_eq!(detect(&["fumehood:tool/tools@0.2.1"]).unwrap(), Dialect::Contract("0.2.1".to_owned()));
        assert_eq!(with("0.1.0").unwrap(), Dialect::Contract("0.2.0".to_owned()));
        let refused = [with("0.2.0"), detect(&["fumehood:tool/tools@0.3.0"]), detect(&["fumehood:hooks/hook@0.2.0"])];
        assert!(refused.iter().all(|refused| matches!(refused, Err(LoadError::ContractVersion { .. }))), "{refused:?}");
    }

    #[test]
    fn programs_export_only_interfaces_of_wasi() {
        let detect =
            |exports: &[&str]| detect(&exports.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        assert_eq!(detect(&["wasi:cli/run@0.2.0"]), Dialect::Command("0.2.0".to_owned()));
        assert_eq!(
            detect(&["wasi:http/incoming-handler@0.2.3", "wasi:cli/run@0.2.12"]),
            Dialect::Command("0.2.12".to_owned())
        );
        assert_eq!(detect(&["wasi:cli/run@0.2.0", "greet"]), Dialect::Typed);
        assert_eq!(detect(&["wasi:cli/run@0.3.0"]), Dialect::Command("0.3.0".to_owned()));
        assert_eq!(detect(&["wasi:cli/run@0.4.0"]), Dialect::Typed);
        assert_eq!(detect(&["wasi:cli/run"]), Dialect::Typed);
        let both = ["wasi:cli/run@0.2.0", "fumehood:tool/tools@0.1.0"];
        assert_eq!(detect(&both), Dialect::Contract("0.1.0".to_owned()));
    }
}
