//! Unknown keys, missing keys and wrong types: all of them, found by walking the file along its own schema.
//!
//! The types that read the file would report these one at a time, and without the description of the key.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Options of the command line, and the keys of [limits] that mean the same.
const SYNONYMS: [(&str, &str); 4] =
    [("timeout", "deadline"), ("max_output", "output"), ("max_log", "log"), ("max_string", "string")];

/// Returns the faults of the table at `path`, with their offsets in the text. Values with a fault are removed from the table.
pub(crate) fn check(schema: &Value, table: &mut Spanned<DeTable<'_>>, path: &str) -> Vec<(usize, String)> {
    let mut walk = Walk { root: schema, found: Vec::new() };
    let at = table.span().start;
    walk.table(&walk.choices(schema), table.get_mut(), at, path);
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    found: Vec<(usize, String)>,
}

impl<'s> Walk<'s> {
    /// Returns the alternatives of a schema, with references followed.
    fn choices(&self, schema: &'s Value) -> Vec<&'s Value> {
        if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
            let target = pointer.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map(|target| self.choices(target)).unwrap_or_default();
        }
        let several = ["anyOf", "oneOf"].iter().find_map(|keyword| schema.get(keyword)?.as_array());
        match several {
            Some(schemas) => schemas.iter().flat_map(|schema| self.choices(schema)).collect(),
            None => vec![schema],
        }
    }

    /// Checks a value. Returns whether it can stay.
    fn value(&mut self, schema: &'s Value, value: &mut Spanned<DeValue<'_>>, path: &str) -> bool {
        let at = value.span().start;
        let choices = self.choices(schema);
        let fitting: Vec<&Value> = choices.iter().copied().filter(|choice| admits(choice, value.get_ref())).collect();
        if fitting.is_empty() {
            self.found.push((at, wrong_type(schema, &choices, value.get_ref(), path)));
            return false;
        }
        match value.get_mut() {
            DeValue::Table(table) => self.table(&fitting, table, at, path),
            DeValue::Array(items) => {
                if let Some(of_items) = fitting.iter().find_map(|choice| choice.get("items")) {
                    for (index, mut item) in std::mem::replace(items, DeArray::new()).into_iter().enumerate() {
                        if self.value(of_items, &mut item, &format!("{path}[{index}]")) {
                            items.push(item);
                        }
                    }
                }
            }
            DeValue::String(text) => {
                let words = allowed_words(&fitting);
                if !words.is_empty() && !words.contains(&text.as_ref()) {
                    let suggestion = suggestion(text, &words);
                    let is_switch = choices.iter().flat_map(|choice| types(choice)).any(|name| name == "boolean");
                    let switch = if is_switch { "true, false, " } else { "" };
                    let words = words.join("\", \"");
                    let message =
                        format!("`{path}` is \"{}\"; expected {switch}\"{words}\"{suggestion}", excerpt(text));
                    self.found.push((at, message));
                    return false;
                }
            }
            _ => {}
        }
        true
    }

    fn table(&mut self, choices: &[&'s Value], table: &mut DeTable<'_>, at: usize, path: &str) {
        let known: Vec<(&str, &'s Value)> = choices
            .iter()
            .filter_map(|choice| properties(choice))
            .flatten()
            .map(|(key, schema)| (key.as_str(), schema))
            .collect();
        // Values that another program defines are not checked here.
        if choices.iter().any(|choice| choice.get("additionalProperties") == Some(&Value::Bool(true))) {
            return;
        }
        let others =
            choices.iter().find_map(|choice| choice.get("additionalProperties").filter(|schema| schema.is_object()));
        let keys: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
        for key in keys {
            let schema = known.iter().find(|(name, _)| *name == key).map(|(_, schema)| *schema).or(others);
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let stays = match (schema, table.get_mut(key.as_str())) {
                (Some(schema), Some(value)) => self.value(schema, value, &inner),
                _ => {
                    let at = table.get_key_value(key.as_str()).map_or(at, |(key, _)| key.span().start);
                    self.found.push((at, unknown_key(&key, &known, path)));
                    false
                }
            };
            if !stays {
                table.remove(key.as_str());
            }
        }
        self.missing(choices, table, at, path);
    }

    fn missing(&mut self, choices: &[&'s Value], table: &DeTable<'_>, at: usize, path: &str) {
        if choices.iter().any(|choice| required(choice).all(|key| table.contains_key(key))) {
            return;
        }
        if let [choice] = choices {
            for key in required(choice).filter(|key| !table.contains_key(*key)) {
                let about = properties(choice).and_then(|known| known.get(key)).map(description).unwrap_or_default();
                self.found.push((at, format!("[{path}] has no `{key}`; add it. {about}").trim_end().to_owned()));
            }
        } else {
            let keys: Vec<&str> = choices.iter().flat_map(|choice| required(choice)).collect();
            self.found.push((at, format!("`{path}` needs one of: {}", keys.join(", "))));
        }
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the words that a text may be; none if it may be any text.
fn allowed_words<'s>(choices: &[&'s Value]) -> Vec<&'s str> {
    let mut words = Vec::new();
    for choice in choices {
        let listed = choice.get("enum").and_then(Value::as_array).into_iter().flatten();
        let before = words.len();
        words.extend(listed.chain(choice.get("const")).filter_map(Value::as_str));
        if words.len() == before {
            return Vec::new();
        }
    }
    words
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("type");
    let several = names.and_then(Value::as_array).into_iter().flatten();
    several.chain(names.filter(|name| name.is_string())).filter_map(Value::as_str)
}

fn admits(schema: &Value, value: &DeValue<'_>) -> bool {
    let mut types = types(schema).peekable();
    types.peek().is_none() || types.any(|name| fits(name, value))
}

fn fits(type_name: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(_) => type_name == "string",
        DeValue::Integer(_) => matches!(type_name, "integer" | "number"),
        DeValue::Float(_) => type_name == "number",
        DeValue::Boolean(_) => type_name == "boolean",
        DeValue::Array(_) => type_name == "array",
        DeValue::Table(_) => type_name == "object",
        DeValue::Datetime(_) => false,
    }
}

fn wrong_type(schema: &Value, choices: &[&Value], value: &DeValue<'_>, path: &str) -> String {
    let mut expected: Vec<&str> = Vec::new();
    for type_name in choices.iter().flat_map(|choice| types(choice)) {
        let words = describe_type(type_name);
        if !words.is_empty() && !expected.contains(&words) {
            expected.push(words);
        }
    }
    let actual = match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let fix = match (value, expected.as_slice()) {
        (DeValue::String(text), ["a list"]) => format!("; write [\"{}\"]", excerpt(text)),
        (DeValue::Integer(number), ["a text"]) => format!("; put it in quotes: \"{number}\""),
        _ => String::new(),
    };
    let expected = expected.join(" or ");
    format!("`{path}` is {actual}; expected {expected}{fix}. {}", description(schema)).trim_end().to_owned()
}

fn describe_type(type_name: &str) -> &'static str {
    match type_name {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a table",
        _ => "",
    }
}

fn unknown_key(key: &str, known: &[(&str, &Value)], path: &str) -> String {
    let mut names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let place = if path.is_empty() { "the file".to_owned() } else { format!("[{path}]") };
    let suggestion = suggestion(key, &names);
    let key = excerpt(key);
    format!("unknown key `{key}` in {place}{suggestion}; known keys: {}", names.join(", "))
}

/// Returns `; did you mean …?` if one of the known words is similar, or has the same meaning.
fn suggestion(word: &str, known: &[&str]) -> String {
    let word = word.to_lowercase().replace('-', "_");
    let meant = SYNONYMS.iter().find(|(synonym, name)| *synonym == word && known.contains(name));
    if let Some((_, name)) = meant {
        return format!("; did you mean `{name}`?");
    }
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(&word, name), *name)).min();
    match near {
        Some((distance, name)) if distance <= 1 + name.len() / 4 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// Returns text of the file on one line, cut to 80 characters.
fn excerpt(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    fumehood_core::text::sanitize::printable(&cut).into_owned()
}
