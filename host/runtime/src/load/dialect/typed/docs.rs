//! Documentation of functions and types in a component's `package-docs` section, or in our own of the same format.
//!
//! The section holds one version byte and JSON. It is written for WIT packages, and tools such as `wit-docs-inject` put
//! it into components; [`embed_docs`](crate::embed_docs) says why there is another one. All of it is untrusted text of
//! the component's author: a missing or malformed section is not an error.

use std::collections::BTreeMap;

use fumehood_core::schema::typed::TypeDoc;
use serde::Deserialize;
use wasmparser::{Parser, Payload};

pub(crate) const SECTION: &str = "package-docs";
/// The name of the section with everything that the WIT package documents, where `package-docs` cannot hold it.
pub(crate) const COMPLETE_SECTION: &str = "fumehood-docs";
/// The supported versions of the section. Each adds fields to the one before.
const VERSIONS: [u8; 2] = [0, 1];
/// Maximum size of a section, in bytes.
const MAX_SECTION_BYTES: usize = 1 << 20;
/// Maximum size of the text about a type, field or case, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 10;

/// The documentation of one WIT package.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PackageDocs {
    worlds: BTreeMap<String, World>,
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct World {
    interfaces: BTreeMap<String, Interface>,
    interface_exports: BTreeMap<String, Interface>,
    funcs: BTreeMap<String, Function>,
    func_exports: BTreeMap<String, Function>,
    types: BTreeMap<String, Type>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Interface {
    funcs: BTreeMap<String, Function>,
    types: BTreeMap<String, Type>,
}

/// The documentation of a function. Version 0 has only the text.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Function {
    Text(Option<String>),
    Fields { docs: Option<String> },
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Type {
    docs: Option<String>,
    items: BTreeMap<String, String>,
}

impl PackageDocs {
    /// Reads the component's own sections, the complete one first, or else the first one of a nested component, as in a
    /// composition. Returns empty documentation if there is none, or it cannot be read.
    pub(crate) fn read(component: &[u8]) -> Self {
        find_section(component).and_then(decode).unwrap_or_default()
    }

    /// Reads the content of a given section, or else the section of the component.
    pub(crate) fn from_section_or_component(given: Option<&[u8]>, component: &[u8]) -> Self {
        given.map_or_else(|| Self::read(component), |section| decode(section).unwrap_or_default())
    }

    /// Returns the documentation of a function, at top level or in an exported instance.
    pub(super) fn function<'a>(&'a self, instance: Option<&'a str>, name: &str) -> Option<&'a str> {
        let at_top = || {
            let exported = self.worlds.values().find_map(|world| world.func_exports.get(name));
            exported.or_else(|| self.worlds.values().find_map(|world| world.funcs.get(name)))
        };
        let in_interface = |instance| self.interface(instance).find_map(|interface| interface.funcs.get(name));
        let (Function::Text(docs) | Function::Fields { docs }) = instance.map_or_else(at_top, in_interface)?;
        docs.as_deref().map(str::trim).filter(|docs| !docs.is_empty())
    }

    /// Returns the documentation of a named type that an instance, or the component itself, exports. The type may be
    /// reused from another interface of the package, in which it usually has the same name.
    pub(super) fn named_type(&self, instance: Option<&str>, name: &str) -> Option<TypeDoc> {
        let own =
            instance.and_then(|instance| self.interface(instance).find_map(|interface| interface.types.get(name)));
        let in_world = || self.worlds.values().find_map(|world| world.types.get(name));
        let anywhere = || self.interfaces.values().find_map(|interface| interface.types.get(name));
        let found = own.or_else(in_world).or_else(anywhere)?;
        let items = found.items.iter().map(|(name, text)| (name.clone(), truncate(text.trim(), MAX_TEXT_BYTES)));
        Some(TypeDoc {
            text: found.docs.as_deref().map(str::trim).map(|text| truncate(text, MAX_TEXT_BYTES)),
            items: items.collect(),
        })
    }

    /// Returns the interfaces that an instance may stand for: `ns:pkg/api@1.0.0` is an interface of the package, a
    /// plain `api` is defined inline in a world.
    fn interface<'a>(&'a self, instance: &'a str) -> impl Iterator<Item = &'a Interface> {
        let name = super::exports::interface_name(instance);
        let of_package = instance.contains('/').then(|| self.interfaces.get(name)).flatten();
        let worlds = (!instance.contains('/')).then(|| self.worlds.values()).into_iter().flatten();
        let of_world =
            worlds.flat_map(move |world| [world.interface_exports.get(name), world.interfaces.get(name)]).flatten();
        of_package.into_iter().chain(of_world)
    }
}

/// Truncates a text to `max_bytes` bytes, including an ellipsis.
pub(super) fn truncate(text: &str, max_bytes: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let fits = max_bytes.saturating_sub(ELLIPSIS.len());
    let end = (0..=fits).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{ELLIPSIS}", text.get(..end).unwrap_or_default())
}

fn find_section(component: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    let mut own = None;
    let mut nested = None;
    for payload in Parser::new(0).parse_all(component) {
        match payload.ok()? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) => match (section.name(), depth) {
                (COMPLETE_SECTION, 0) => return Some(section.data()),
                (SECTION, 0) => own = own.or(Some(section.data())),
                (COMPLETE_SECTION | SECTION, _) => nested = nested.or(Some(section.data())),
                _ => {}
            },
            _ => {}
        }
    }
    own.or(nested)
}

fn decode(section: &[u8]) -> Option<PackageDocs> {
    let (version, json) = section.split_first()?;
    if !VERSIONS.contains(version) || json.len() > MAX_SECTION_BYTES {
        return None;
    }
    serde_json::from_slice(json).ok()
}
