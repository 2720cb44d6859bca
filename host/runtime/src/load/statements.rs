//! The statements of a component about itself, in custom sections: what it was built with, and the wishes of its author.

use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::{MAX_WISHES_BYTES, WISHES_SECTION};
use wasmparser::{CustomSectionReader, KnownCustom, Parser, Payload, ProducersField};

use crate::wasi::guest_output::cut;

/// The name of the section that lists the languages and tools that a component was built with (WebAssembly tool
/// conventions, "Producers Section").
pub(crate) const PRODUCERS_SECTION: &str = "producers";
/// Maximum size of a `producers` section that is read, in bytes.
const MAX_PRODUCERS_BYTES: usize = 16 << 10;
/// Maximum number of fields, and of values of one field. The convention has three fields.
const MAX_PRODUCERS: usize = 32;

/// The statements of a component about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statements {
    /// The fields of its `producers` section with their values.
    pub(crate) producers: Vec<(String, Vec<String>)>,
    /// The content of its sections with wishes.
    pub(crate) wishes: Option<Untrusted<String>>,
}

impl Statements {
    /// Reads the statements at the top level of a component or module. `producers` sections that are malformed or too large
    /// are ignored. Sections with wishes are joined, and cut one byte after the maximum size.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut producers = Vec::new();
        let mut wishes: Option<Vec<u8>> = None;
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload {
                Ok(Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) => depth += 1,
                Ok(Payload::End(_)) => depth = depth.saturating_sub(1),
                Ok(Payload::CustomSection(section)) if depth == 0 && section.name() == WISHES_SECTION => {
                    let joined = wishes.get_or_insert_default();
                    let free = (MAX_WISHES_BYTES + 1).saturating_sub(joined.len());
                    joined.extend(section.data().iter().take(free));
                }
                Ok(Payload::CustomSection(section)) if depth == 0 => {
                    add_producers(&section, &mut producers);
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let wishes = wishes.map(|bytes| Untrusted::from(String::from_utf8_lossy(&bytes).into_owned()));
        Self { producers, wishes }
    }
}

/// Reads the wishes of a component's author, as [`Component::wishes`](crate::Component::wishes) returns them, without loading it.
#[must_use]
pub fn read_wishes(component: &[u8]) -> Option<Untrusted<String>> {
    Statements::read(component).wishes
}

fn add_producers(section: &CustomSectionReader<'_>, producers: &mut Vec<(String, Vec<String>)>) {
    if section.data().len() > MAX_PRODUCERS_BYTES {
        return;
    }
    if let KnownCustom::Producers(fields) = section.as_known() {
        let fields = fields.into_iter().map_while(Result::ok);
        producers.extend(fields.filter_map(|field| read_producer(&field)));
        producers.truncate(MAX_PRODUCERS);
    }
}

fn read_producer(field: &ProducersField<'_>) -> Option<(String, Vec<String>)> {
    let values = field.values.clone().into_iter().take(MAX_PRODUCERS).map(|value| {
        let value = value.ok()?;
        let text = format!("{} {}", value.name, value.version);
        Some(cut(text.trim()))
    });
    Some((cut(field.name), values.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(wat: &str) -> Option<String> {
        let read = Statements::read(&wat::parse_str(wat).unwrap());
        read.wishes.map(|text| text.to_sanitized().into_owned())
    }

    #[test]
    fn reads_the_wishes_of_a_component_and_of_a_module() {
        assert_eq!(wishes("(component)"), None);
        assert_eq!(wishes(r#"(component (@custom "fumehood-wishes" "{}"))"#).as_deref(), Some("{}"));
        assert_eq!(wishes(r#"(module (@custom "fumehood-wishes" "{}"))"#).as_deref(), Some("{}"));
        let inner = r#"(component (core module (@custom "fumehood-wishes" "1")) (@custom "fumehood-wish" "2"))"#;
        assert_eq!(wishes(inner), None);
    }

    #[test]
    fn several_and_large_sections_are_joined_and_cut() {
        let two = r#"(component (@custom "fumehood-wishes" "{}") (@custom "fumehood-wishes" "\ff\00"))"#;
        assert_eq!(wishes(two).as_deref(), Some("{}\u{fffd}\\u{0}"));
        let large = "a".repeat(MAX_WISHES_BYTES);
        let large =
            format!(r#"(component (@custom "fumehood-wishes" "{large}") (@custom "fumehood-wishes" "{large}"))"#);
        assert_eq!(wishes(&large).map(|text| text.len()), Some(MAX_WISHES_BYTES + 1));
    }
}
