//! Unknown keys, missing keys and wrong types: all of them, found by walking the file along its own schema.
//!
//! What the types that read the file would say about these is one at a time, and without a word on what the key is for.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What is wrong, with its offset in the text. What is wrong is taken out of the table.
pub(crate) fn check(schema: &Value, table: &mut Spanned<DeTable<'_>>) -> Vec<(usize, String)> {
    let mut walk = Walk { root: schema, found: Vec::new() };
    let at = table.span().start;
    walk.table(&walk.choices(schema), table.get_mut(), at, "");
    walk.found
}

struct Walk<'s> {
    root: &'s Value,
    found: Vec<(usize, String)>,
}

impl<'s> Walk<'s> {
    /// The alternatives of a schema, references followed.
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

    /// Whether the value can stay.
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
                let words = words(&fitting);
                if !words.is_empty() && !words.contains(&text.as_ref()) {
                    let meant = meant(text, &words);
                    let words = words.join("\", \"");
                    self.found.push((at, format!("`{path}` is \"{}\"; expected \"{words}\"{meant}", shown(text))));
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
            .map(|(key, of)| (key.as_str(), of))
            .collect();
        // Whatever somebody else defines is not looked at here.
        if choices.iter().any(|choice| choice.get("additionalProperties") == Some(&Value::Bool(true))) {
            return;
        }
        let others = choices.iter().find_map(|choice| choice.get("additionalProperties").filter(|of| of.is_object()));
        let keys: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
        for key in keys {
            let schema = known.iter().find(|(name, _)| *name == key).map(|(_, of)| *of).or(others);
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let stays = match (schema, table.get_mut(key.as_str())) {
                (Some(schema), Some(value)) => self.value(schema, value, &inner),
                _ => {
                    let at = table.get_key_value(key.as_str()).map_or(at, |(key, _)| key.span().start);
                    self.found.push((at, unknown(&key, &known, path)));
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
        let lacks = |choice: &&&Value| required(choice).any(|key| !table.contains_key(key));
        if choices.iter().any(|choice| !lacks(&choice)) {
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

/// The words that a text may be, if it may not be any text.
fn words<'s>(choices: &[&'s Value]) -> Vec<&'s str> {
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
    let of = schema.get("type");
    let several = of.and_then(Value::as_array).into_iter().flatten();
    several.chain(of.filter(|of| of.is_string())).filter_map(Value::as_str)
}

fn admits(schema: &Value, value: &DeValue<'_>) -> bool {
    let mut types = types(schema).peekable();
    types.peek().is_none() || types.any(|of| fits(of, value))
}

fn fits(of: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(_) => of == "string",
        DeValue::Integer(_) => matches!(of, "integer" | "number"),
        DeValue::Float(_) => of == "number",
        DeValue::Boolean(_) => of == "boolean",
        DeValue::Array(_) => of == "array",
        DeValue::Table(_) => of == "object",
        DeValue::Datetime(_) => false,
    }
}

fn wrong_type(schema: &Value, choices: &[&Value], value: &DeValue<'_>, path: &str) -> String {
    let mut expected: Vec<&str> = Vec::new();
    for of in choices.iter().flat_map(|choice| types(choice)) {
        let words = in_words(of);
        if !words.is_empty() && !expected.contains(&words) {
            expected.push(words);
        }
    }
    let given = match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let fix = match (value, expected.as_slice()) {
        (DeValue::String(text), ["a list"]) => format!("; write [\"{}\"]", shown(text)),
        (DeValue::Integer(number), ["a text"]) => format!("; write it in quotes: \"{number}\""),
        _ => String::new(),
    };
    let expected = expected.join(" or ");
    format!("`{path}` is {given}; expected {expected}{fix}. {}", description(schema)).trim_end().to_owned()
}

fn in_words(of: &str) -> &'static str {
    match of {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a table",
        _ => "",
    }
}

fn unknown(key: &str, known: &[(&str, &Value)], path: &str) -> String {
    let mut names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let place = if path.is_empty() { "the file".to_owned() } else { format!("[{path}]") };
    let (key, meant) = (shown(key), meant(key, &names));
    format!("{place} has the unknown key `{key}`{meant}; known there: {}", names.join(", "))
}

/// `; did you mean …?`, if there is a word that is like it.
fn meant(word: &str, known: &[&str]) -> String {
    let word = word.to_lowercase().replace('-', "_");
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(&word, name), *name)).min();
    match near {
        Some((distance, name)) if distance <= 1 + name.len() / 4 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// What somebody wrote, on one line and not too long.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    fumehood::sanitize::printable(&cut).into_owned()
}
