//! Pages of `tools/list` with definitions that are not quite the protocol's.

use rmcp::model::{ListToolsResult, Tool};
use serde_json::{Map, Value, json};

use crate::client::tool_notice::{Notices, ToolNotice};

/// Members of a definition that may be left out, and what their absence means.
const OPTIONAL_MEMBERS: [(&str, &str); 6] = [
    ("title", "its title is not a string, and is ignored"),
    ("description", "its description is not a string, and is ignored"),
    ("outputSchema", "its output schema is not an object, so its results are not checked"),
    ("annotations", "its annotations are malformed, and are ignored"),
    ("icons", "its icons are malformed, and are ignored"),
    ("_meta", "its metadata is malformed, and is ignored"),
];
/// Annotations that are true or false.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

#[derive(Default)]
pub(crate) struct ToolPage {
    pub(crate) tools: Vec<Tool>,
    /// Names of tools that are not to be used; the first ones.
    pub(crate) unused: Vec<String>,
    pub(crate) next_cursor: Option<String>,
    /// The tools that were left out.
    pub(crate) rejected: Notices,
    /// The parts of definitions that were left out.
    pub(crate) mended: Notices,
}

impl From<ListToolsResult> for ToolPage {
    fn from(page: ListToolsResult) -> Self {
        Self { tools: page.tools, next_cursor: page.next_cursor, ..Self::default() }
    }
}

/// Reads a page definition by definition. Returns `None` if it has no list of tools.
pub(crate) fn read_tool_page(value: Value) -> Option<ToolPage> {
    let Value::Object(mut members) = value else { return None };
    let definitions = match members.remove("tools")? {
        Value::Array(definitions) => definitions,
        Value::Null => Vec::new(),
        Value::Object(tools) => named_definitions(tools),
        _ => return None,
    };
    let mut page = ToolPage { next_cursor: next_cursor(members.remove("nextCursor")), ..ToolPage::default() };
    for (index, definition) in definitions.into_iter().enumerate() {
        page.add(index, definition);
    }
    Some(page)
}

/// Returns the definitions of an object that is one itself, or whose members are, by their names.
fn named_definitions(tools: Map<String, Value>) -> Vec<Value> {
    if tools.get("name").is_some_and(Value::is_string) {
        return vec![Value::Object(tools)];
    }
    let named = tools.into_iter().map(|(name, mut definition)| {
        if let Value::Object(members) = &mut definition {
            members.entry("name").or_insert(name.into());
        }
        definition
    });
    named.collect()
}

fn next_cursor(cursor: Option<Value>) -> Option<String> {
    match cursor? {
        Value::String(cursor) => Some(cursor),
        Value::Number(cursor) => Some(cursor.to_string()),
        _ => None,
    }
}

impl ToolPage {
    fn add(&mut self, index: usize, definition: Value) {
        let nameless = format!("tool {}", index + 1);
        let Value::Object(definition) = definition else {
            return self.rejected.push(ToolNotice::new(&nameless, "its definition is not an object"));
        };
        if let Ok(tool) = serde_json::from_value(Value::Object(definition.clone())) {
            return self.tools.push(tool);
        }
        let Some(name) = definition.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return self.rejected.push(ToolNotice::new(&nameless, "it has no name"));
        };
        let mut mended = definition;
        let mut notice = |reason: &str| self.mended.push(ToolNotice::new(&name, reason));
        mend_input_schema(&mut mended, &mut notice);
        mend_annotations(&mut mended, &mut notice);
        for (member, reason) in OPTIONAL_MEMBERS {
            if mended.get(member).is_some_and(|value| !is_readable(member, value)) {
                mended.remove(member);
                notice(reason);
            }
        }
        match serde_json::from_value(Value::Object(mended)) {
            Ok(tool) => self.tools.push(tool),
            Err(error) => self.rejected.push(ToolNotice::new(&name, format!("its definition is malformed: {error}"))),
        }
    }
}

/// Returns whether a definition can be read with this value of an optional member.
fn is_readable(member: &str, value: &Value) -> bool {
    let definition = json!({"name": "x", "inputSchema": {}, member: value});
    value.is_null() || serde_json::from_value::<Tool>(definition).is_ok()
}

/// Puts a schema in the place of one that is missing, or that is no object.
fn mend_input_schema(definition: &mut Map<String, Value>, notice: &mut impl FnMut(&str)) {
    if definition.get("inputSchema").is_some_and(Value::is_object) {
        return;
    }
    // Both are what other protocols call it.
    let renamed = ["input_schema", "parameters"].iter().find_map(|name| definition.remove(*name));
    let schema = renamed.filter(Value::is_object).unwrap_or_else(|| {
        notice("it has no input schema, so it accepts any object");
        json!({"type": "object"})
    });
    definition.insert("inputSchema".to_owned(), schema);
}

/// Removes the annotations that are neither true nor false.
fn mend_annotations(definition: &mut Map<String, Value>, notice: &mut impl FnMut(&str)) {
    let Some(Value::Object(annotations)) = definition.get_mut("annotations") else { return };
    for hint in HINTS {
        let Some(value) = annotations.get_mut(hint) else { continue };
        match value.as_str() {
            Some("true") => *value = true.into(),
            Some("false") => *value = false.into(),
            _ if value.is_boolean() || value.is_null() => {}
            _ => {
                annotations.remove(hint);
                notice(&format!("its annotation `{hint}` is neither true nor false, and is ignored"));
            }
        }
    }
    if annotations.get("title").is_some_and(|title| !title.is_string()) {
        annotations.remove("title");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(definition: Value) -> ToolPage {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        let page = read_tool_page(json!({"tools": [good, definition]})).unwrap();
        assert_eq!(page.tools[0].name, "good");
        page
    }

    #[test]
    fn mends_a_definition_and_keeps_the_others() {
        let schema = json!({"type": "object"});
        for (odd, words) in [
            (json!({"name": "b"}), "it accepts any object"),
            (json!({"name": "b", "inputSchema": null}), "it accepts any object"),
            (json!({"name": "b", "inputSchema": true}), "it accepts any object"),
            (json!({"name": "b", "inputSchema": schema, "description": 5}), "its description"),
            (json!({"name": "b", "inputSchema": schema, "title": 1}), "its title"),
            (json!({"name": "b", "inputSchema": schema, "outputSchema": true}), "its output schema"),
            (json!({"name": "b", "inputSchema": schema, "annotations": "none"}), "its annotations"),
            (json!({"name": "b", "inputSchema": schema, "annotations": {"readOnlyHint": 1}}), "`readOnlyHint`"),
            (json!({"name": "b", "inputSchema": schema, "icons": [{"url": "x"}]}), "its icons"),
            (json!({"name": "b", "inputSchema": schema, "_meta": "m"}), "its metadata"),
        ] {
            let page = read(odd.clone());
            assert_eq!(page.tools.len(), 2, "{odd}");
            assert_eq!(page.rejected.count(), 0, "{odd}");
            let mended = page.mended.into_vec();
            assert!(mended.iter().any(|notice| notice.to_string().contains(words)), "{odd}: {mended:?}");
        }
        let page = read(json!({"name": "b", "inputSchema": schema, "annotations": {"readOnlyHint": "true"}}));
        assert_eq!(page.tools[1].annotations.as_ref().unwrap().read_only_hint, Some(true));
        let page = read(json!({"name": "b", "input_schema": {"type": "object", "title": "t"}}));
        assert_eq!((page.tools[1].input_schema["title"].as_str(), page.mended.count()), (Some("t"), 0));
    }

    fn count_listed(tools: Value) -> usize {
        read_tool_page(json!({"tools": tools})).unwrap().tools.len()
    }

    fn read_cursor(cursor: Value) -> Option<String> {
        read_tool_page(json!({"tools": [], "nextCursor": cursor})).unwrap().next_cursor
    }

    #[test]
    fn leaves_out_what_has_no_name_and_says_so() {
        for (odd, words) in [
            (Value::Null, "tool 2: its definition is not an object"),
            (json!({"inputSchema": {}}), "tool 2: it has no name"),
            (json!({"name": 5, "inputSchema": {}}), "tool 2: it has no name"),
        ] {
            let page = read(odd.clone());
            assert_eq!((page.tools.len(), page.rejected.into_vec()[0].to_string().as_str()), (1, words), "{odd}");
        }
        for other in [json!({"tool": []}), json!({"tools": "t"}), json!({"tools": 5}), json!([])] {
            assert!(read_tool_page(other).is_none());
        }
        let schema = json!({"type": "object"});
        let by_name = json!({"a": {"inputSchema": schema}, "b": {"name": "c", "inputSchema": schema}});
        assert_eq!([count_listed(Value::Null), count_listed(json!({"name": "a"})), count_listed(by_name)], [0, 1, 2]);
        assert_eq!(
            [read_cursor(json!(7)), read_cursor(Value::Null), read_cursor(json!({}))],
            [Some("7".to_owned()), None, None]
        );
    }
}
