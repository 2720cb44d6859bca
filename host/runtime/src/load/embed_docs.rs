//! Writing documentation into a component.
//!
//! `package-docs` documents a WIT package by name. A component has no package: tools that print its WIT call it
//! `root:component`, with one world `root`, and refuse a section that names anything else. Therefore `package-docs`
//! gets what that world has, and a section of our own gets everything as soon as that is more.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Map, Value};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::{BinaryReader, ComponentExternalKind, Parser, Payload};

use super::compile;
use super::dialect::{COMPLETE_DOCS_SECTION, DOCS_SECTION};
use super::error::LoadError;

/// Size of the magic number and the version that a component begins with, in bytes.
const HEADER_BYTES: usize = 8;
/// Name of the world that tools give to a component when they print it as WIT.
const COMPONENT_WORLD: &str = "root";
/// The members of a world's documentation that list what it exports.
const EXPORTS: [&str; 2] = ["func_exports", "interface_exports"];

/// Adds the documentation of a WIT package to a component, replacing what it has.
///
/// `docs` is the content of a `package-docs` section: a version byte and JSON. Malformed content documents nothing.
///
/// # Errors
/// If the bytes are not a component.
pub fn embed_docs(component: &[u8], docs: &[u8]) -> Result<Vec<u8>, LoadError> {
    compile::recognise(component)?;
    let mut described = strip_docs(component).map_err(compile::malformed_error)?;
    let names = Names::read(&described).map_err(compile::malformed_error)?;
    let (of_component, is_complete) = restrict(docs, &names).unwrap_or_default();
    if !of_component.is_empty() {
        CustomSection { name: DOCS_SECTION.into(), data: of_component.into() }.append_to_component(&mut described);
    }
    if !is_complete {
        CustomSection { name: COMPLETE_DOCS_SECTION.into(), data: docs.into() }.append_to_component(&mut described);
    }
    Ok(described)
}

/// The names at the top level of a component.
#[derive(Default)]
struct Names {
    exports: BTreeSet<String>,
    imported_types: BTreeSet<String>,
}

impl Names {
    fn read(component: &[u8]) -> wasmparser::Result<Self> {
        let mut names = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        names.exports.insert(export?.name.name.to_owned());
                    }
                }
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        let import = import?;
                        if import.ty.kind() == ComponentExternalKind::Type {
                            names.imported_types.insert(import.name.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(names)
    }
}

/// Returns the content of a section that documents the world of a component, empty if there is nothing to say about it,
/// and whether nothing was left out. `None` for malformed content.
fn restrict(docs: &[u8], names: &Names) -> Option<(Vec<u8>, bool)> {
    let (version, json) = docs.split_first()?;
    let mut package: Map<String, Value> = serde_json::from_slice(json).ok()?;
    let mut worlds = members(package.remove("worlds"));
    // The world of the component is the one that documents most of its exports.
    worlds.sort_by_key(|(_, world)| Reverse(count_documented_exports(world, names)));
    let mut worlds = worlds.into_iter();
    let Some((_, Value::Object(all))) = worlds.next() else {
        return Some((Vec::new(), false));
    };
    let mut world = all.clone();
    world.retain(|member, _| member == "docs" || member == "types" || EXPORTS.contains(&member.as_str()));
    let lists = [(EXPORTS[0], &names.exports), (EXPORTS[1], &names.exports), ("types", &names.imported_types)];
    for (list, known) in lists {
        if let Some(Value::Object(documented)) = world.get_mut(list) {
            documented.retain(|name, _| known.contains(name));
        }
    }
    world.retain(|_, member| member.as_object().is_none_or(|documented| !documented.is_empty()));
    let is_complete = world == all && worlds.next().is_none() && package.is_empty();
    if world.is_empty() {
        return Some((Vec::new(), is_complete));
    }
    let section = serde_json::json!({ "worlds": { COMPONENT_WORLD: world } });
    let mut content = vec![*version];
    serde_json::to_writer(&mut content, &section).ok()?;
    Some((content, is_complete))
}

fn count_documented_exports(world: &Value, names: &Names) -> usize {
    let documented = EXPORTS.iter().filter_map(|list| world.get(list)?.as_object()).flat_map(Map::keys);
    documented.filter(|name| names.exports.contains(*name)).count()
}

fn members(object: Option<Value>) -> Vec<(String, Value)> {
    match object {
        Some(Value::Object(members)) => members.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the component without its own sections of documentation. Sections of nested components are kept.
fn strip_docs(component: &[u8]) -> wasmparser::Result<Vec<u8>> {
    let mut reader = BinaryReader::new(component, 0);
    let mut kept = reader.read_bytes(HEADER_BYTES)?.to_vec();
    while !reader.eof() {
        let start = reader.original_position();
        let id = reader.read_u8()?;
        let length = reader.read_var_u32()?;
        let content = reader.read_bytes(length as usize)?;
        let is_docs =
            id == 0 && [DOCS_SECTION, COMPLETE_DOCS_SECTION].contains(&BinaryReader::new(content, 0).read_string()?);
        if !is_docs {
            kept.extend_from_slice(component.get(start..reader.original_position()).unwrap_or_default());
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use wasmparser::{Parser, Payload};

    use super::*;

    /// Returns the names and contents of all sections of documentation, nested ones included.
    fn docs_sections(component: &[u8]) -> Vec<(String, String)> {
        let docs = |payload| match payload {
            Payload::CustomSection(section) if [DOCS_SECTION, COMPLETE_DOCS_SECTION].contains(&section.name()) => {
                Some((section.name().to_owned(), String::from_utf8(section.data().to_vec()).unwrap()))
            }
            _ => None,
        };
        Parser::new(0).parse_all(component).map(Result::unwrap).filter_map(docs).collect()
    }

    fn section(name: &str, content: &str) -> (String, String) {
        (name.to_owned(), content.to_owned())
    }

    fn parse_component(items: &str) -> Vec<u8> {
        wat::parse_str(format!("(component {items})")).unwrap()
    }

    #[test]
    fn replaces_only_the_components_own_sections() {
        let old = r#"(@custom "package-docs" "old") (@custom "fumehood-docs" "old") (@custom "other" "kept")"#;
        let docs = "\u{1}{\"interfaces\":{\"i\":{\"docs\":\"An interface.\"}}}";
        for (component, inner) in [
            (parse_component(""), 0),
            (parse_component(old), 0),
            (parse_component(&format!("{old} (component {old}) {old}")), 1),
        ] {
            let once = embed_docs(&component, docs.as_bytes()).unwrap();
            let nested = vec![[section("package-docs", "old"), section("fumehood-docs", "old")]; inner].concat();
            assert_eq!(docs_sections(&once), [nested, vec![section("fumehood-docs", docs)]].concat());
            wasmparser::Validator::new().validate_all(&once).unwrap();
            assert_eq!(embed_docs(&once, docs.as_bytes()).unwrap(), once);
        }
    }

    #[test]
    fn world_of_the_component_is_documented_under_the_name_that_tools_give_it() {
        let component = wat::parse_str(
            r#"(component (type $t (record (field "x" u8))) (import "r" (type $r (eq $t)))
                 (import "f" (func $f)) (export "g" (func $f)))"#,
        )
        .unwrap();
        let embed = |world: &str| {
            let docs = format!("\u{1}{{\"worlds\":{world}}}");
            let sections = docs_sections(&embed_docs(&component, docs.as_bytes()).unwrap());
            (sections, section("fumehood-docs", &docs))
        };
        let world = r#"{"func_exports":{"g":{"docs":"G."}},"types":{"r":{"docs":"R."}}}"#;
        let of_component = section("package-docs", &format!("\u{1}{{\"worlds\":{{\"root\":{world}}}}}"));
        assert_eq!(embed(&format!("{{\"w\":{world}}}")).0, std::slice::from_ref(&of_component), "nothing is left out");
        let others =
            r#"{"func_exports":{"g":{"docs":"G."},"gone":{}},"funcs":{"f":{}},"types":{"r":{"docs":"R."},"s":{}}}"#;
        let (sections, complete) = embed(&format!("{{\"a\":{{\"docs\":\"A.\"}},\"w\":{others}}}"));
        assert_eq!(sections, [of_component, complete]);
        let (sections, complete) = embed(r#"{"w":{"func_exports":{"gone":{}}}}"#);
        assert_eq!(sections, [complete], "a section that names what is not there would be refused");
    }

    #[test]
    fn rejects_bytes_that_are_no_component() {
        assert!(matches!(embed_docs(&wat::parse_str("(module)").unwrap(), b"x"), Err(LoadError::CoreModule)));
        assert!(matches!(embed_docs(b"\0asm\x0d\0\x01\0\x00\x7f", b"x"), Err(LoadError::Malformed(_))));
    }
}
