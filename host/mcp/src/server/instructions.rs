//! The `instructions` of the server, which describe the tools as a whole to a model.

use std::collections::BTreeMap;

use fumehood_core::sanitize::printable;

use crate::toolbox::Listing;

/// Maximum number of components that are named; the rest are counted.
const MAX_COMPONENTS: usize = 40;
/// Maximum size of the line about one component, in bytes.
const MAX_LINE_BYTES: usize = 400;

/// Formats one line for each component: the number of listed tools, and what they may do.
pub(crate) fn instructions(own: Option<&str>, listings: &[Listing]) -> Option<String> {
    let mut components: BTreeMap<&str, (usize, &[String])> = BTreeMap::new();
    for listing in listings.iter().filter(|listing| listing.is_listed) {
        let component = listing.name.split("__").next().unwrap_or_default();
        let (tools, may) = components.entry(component).or_default();
        *tools += 1;
        *may = &listing.may;
    }
    let mut lines: Vec<String> = own.map(|own| printable(own).into_owned()).into_iter().collect();
    if !components.is_empty() {
        lines.push(
            "Every tool belongs to a WebAssembly component. Each call runs in a sandbox of its own, with a deadline, and \
             can do nothing that is not listed here:"
                .to_owned(),
        );
    }
    lines.extend(components.iter().take(MAX_COMPONENTS).map(|(name, (tools, may))| component_line(name, *tools, may)));
    if let Some(more @ 1..) = components.len().checked_sub(MAX_COMPONENTS) {
        lines.push(format!("- and {more} more components"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn component_line(component: &str, tools: usize, may: &[String]) -> String {
    let noun = if tools == 1 { "tool" } else { "tools" };
    let may = if may.is_empty() { "compute, and nothing else".to_owned() } else { may.join("; ") };
    let line = format!("- {component} ({tools} {noun}): may {may}");
    match line.len() > MAX_LINE_BYTES {
        true => format!("{}…", fumehood_core::sanitize::truncate_str(&printable(&line), MAX_LINE_BYTES)),
        false => printable(&line).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::definition::RawDefinition;

    use super::*;

    fn listing(name: &str, may: &[&str]) -> Listing {
        let tool = name.split_once("__").unwrap().1.to_owned();
        let raw = RawDefinition { name: tool, input_schema: "{}".to_owned(), ..RawDefinition::default() };
        let may = may.iter().map(|phrase| (*phrase).to_owned()).collect();
        Listing { name: name.to_owned(), definition: raw.parse(&Default::default()).unwrap(), is_listed: true, may }
    }

    #[test]
    fn lists_components_with_their_powers() {
        let mut listings = vec![
            listing("fetch__get", &["make HTTP requests (GET https://example.com/**)"]),
            listing("calc__add", &[]),
            listing("calc__sub", &[]),
            listing("new__t", &[]),
        ];
        listings[3].is_listed = false;
        let text = instructions(Some("Ours."), &listings).unwrap();
        let (head, list) = text.split_once(":\n").unwrap();
        assert!(head.starts_with("Ours.\nEvery tool belongs"), "{text}");
        let expected = "- calc (2 tools): may compute, and nothing else\n\
                        - fetch (1 tool): may make HTTP requests (GET https://example.com/**)";
        assert_eq!(list, expected);
        assert_eq!(instructions(None, &[]), None);
        let long = listing("a__t", &[&"x".repeat(1000)]);
        assert!(instructions(None, &[long]).unwrap().ends_with("x…"));
    }
}
