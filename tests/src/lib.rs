//! Guest programs for the integration tests: small, mostly hostile, written as WebAssembly text.
//!
//! A program is either a whole component (`programs/NAME.wat`), or the core module of a component of the contract
//! (`programs/contract/NAME.wat`), of a hook (`programs/hooks/NAME.wat`) or of a user of a capability
//! (`programs/capability/NAME.wat`), which is wrapped here so that it need not spell
//! out the contract's types.

pub mod contract;
pub mod docker_registry;
pub mod fake_server;
pub mod key_value_suite;
pub mod longest_poll;
pub mod markdown;
pub mod named;
pub mod otlp_collector;
pub mod postgres;
pub mod prose;
pub mod skip;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
pub use wit_component::StringEncoding;
use wit_component::{ComponentEncoder, embed_component_metadata};
use wit_parser::{PackageId, Resolve};

/// Returns the folder of the programs.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Assembles a program that is a whole component.
///
/// # Errors
/// If there is no such program, or it is not well-formed.
pub fn component(name: &str) -> Result<Vec<u8>> {
    let path = folder().join(format!("{name}.wat"));
    wat::parse_file(&path).with_context(|| format!("{} is not a component", path.display()))
}

/// Assembles a program that is a core module, and wraps it as a component of the contract.
///
/// # Errors
/// If there is no such program, or it does not fit the contract.
pub fn contract(name: &str) -> Result<Vec<u8>> {
    let path = folder().join("contract").join(format!("{name}.wat"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("no program at {}", path.display()))?;
    wrap(&text).with_context(|| format!("{} does not fit the contract", path.display()))
}

/// Assembles a program that is a core module, and wraps it as a hook.
///
/// # Errors
/// If there is no such program, or it does not fit the world of hooks.
pub fn hook(name: &str) -> Result<Vec<u8>> {
    let path = folder().join("hooks").join(format!("{name}.wat"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("no program at {}", path.display()))?;
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/hooks");
    wrap_as(&text, "hooks", &wit).with_context(|| format!("{} does not fit the world of hooks", path.display()))
}

/// Assembles a program that is a core module, and wraps it as a component that uses capabilities: the world of its name in
/// `tests/capability`.
///
/// # Errors
/// If there is no such program, or it does not fit the world.
pub fn capability(name: &str) -> Result<Vec<u8>> {
    let path = folder().join("capability").join(format!("{name}.wat"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("no program at {}", path.display()))?;
    wrap_as(&text, name, &capability_wit(name))
        .with_context(|| format!("{} does not fit the world `{name}`", path.display()))
}

/// Returns the WIT of a program that uses capabilities.
#[must_use]
pub fn capability_wit(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("capability").join(format!("{name}.wit"))
}

/// Wraps the text of a core module as a component of the contract.
///
/// # Errors
/// If the text is not well-formed, or its exports do not fit the contract.
pub fn wrap(core_module: &str) -> Result<Vec<u8>> {
    wrap_as(core_module, "tool", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit"))
}

/// Wraps the text of a core module as a component of `world`.
///
/// # Errors
/// If the text is not well-formed, or its exports do not fit the world.
pub fn wrap_as(core_module: &str, world: &str, wit: &Path) -> Result<Vec<u8>> {
    encode(wat::parse_str(core_module)?, world, wit)
}

/// Wraps a core module as a component of the contract.
///
/// # Errors
/// If its exports do not fit the contract, or it is not well-formed.
pub fn wrap_module(core_module: Vec<u8>) -> Result<Vec<u8>> {
    encode(core_module, "tool", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit"))
}

fn encode(module: Vec<u8>, world: &str, wit: &Path) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    encode_in(module, resolve, package, world, StringEncoding::UTF8)
}

/// Wraps the text of a core module as a component of `world` in the text of a WIT package, whose strings have this
/// encoding.
///
/// # Errors
/// If a text is not well-formed, or the exports of the module do not fit the world.
pub fn component_of(core_module: &str, world: &str, wit: &str, encoding: StringEncoding) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("package.wit", wit)?;
    encode_in(wat::parse_str(core_module)?, resolve, package, world, encoding)
}

fn encode_in(
    mut module: Vec<u8>,
    resolve: Resolve,
    package: PackageId,
    world: &str,
    encoding: StringEncoding,
) -> Result<Vec<u8>> {
    let world = resolve.select_world(&[package], Some(world))?;
    embed_component_metadata(&mut module, &resolve, world, encoding)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// Builds a component of the contract with these tools, all of which give this answer.
///
/// # Errors
/// If the module does not fit the contract, which is a bug of this crate.
pub fn answering(tools: &[contract::ToolDescription], answer: contract::Answer<'_>) -> Result<Vec<u8>> {
    wrap(&contract::module(tools, answer))
}
