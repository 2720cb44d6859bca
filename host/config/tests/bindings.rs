//! The options of the packages for Python and Node are written from the JSON Schema of the settings that read them. With
//! `UPDATE_EXPECT=1` this writes the files anew.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use expect_test::expect_file;
use fumehood_config::embedding::{AgentSettings, CallSettings, HostSettings, LoadSettings, TIMES};
use fumehood_config::mcp::McpServerSection;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The types of settings with a name in the packages, in the order of the files.
const NAMES: [(&str, &str); 14] = [
    ("LimitsSection", "Limits"),
    ("HttpLimitsSection", "HttpLimits"),
    ("TcpLimitsSection", "TcpLimits"),
    ("WriteFolderTable", "WriteFolder"),
    ("SecretSection", "Secret"),
    ("Powers", "Grants"),
    ("BudgetSection", "Budget"),
    ("TextFile", "TextFile"),
    ("RegistrySettings", "Registry"),
    ("HostSettings", "HostOptions"),
    ("LoadSettings", "LoadSettings"),
    ("CallSettings", "CallSettings"),
    ("AgentSettings", "AgentSettings"),
    ("McpServerSection", "ServerSettings"),
];

/// Options whose names follow the conventions of JavaScript. Other names are those of `fumehood.toml`.
const OPTIONS: [&str; 5] = ["HostSettings", "LoadSettings", "CallSettings", "AgentSettings", "McpServerSection"];

/// Options that the packages set themselves, or take in another way.
const HIDDEN: [(&str, &str); 18] = [
    ("LoadSettings", "path"),
    ("CallSettings", "state"),
    ("AgentSettings", "state"),
    // A function gives its reply as a whole.
    ("BudgetSection", "stream_time"),
    // These are for clients of the command, or for its configuration.
    ("McpServerSection", "limits"),
    ("McpServerSection", "package"),
    ("McpServerSection", "login"),
    ("McpServerSection", "prefix"),
    ("McpServerSection", "resources"),
    ("McpServerSection", "prompts"),
    ("McpServerSection", "elicitation"),
    ("McpServerSection", "sampling"),
    ("McpServerSection", "apps"),
    ("McpServerSection", "app_origins"),
    ("McpServerSection", "source"),
    ("McpServerSection", "sink"),
    ("McpServerSection", "approval"),
    ("McpServerSection", "unasked"),
];

/// Texts of the schema that are paths.
const PATHS: [&str; 9] = ["program", "cache", "key_value_store", "lock", "log", "log_key", "store", "folder", "file"];

/// Words of Python, which cannot name the member of a class.
const KEYWORDS: [&str; 2] = ["from", "for"];

fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<HostSettings>();
    generator.subschema_for::<LoadSettings>();
    generator.subschema_for::<CallSettings>();
    generator.subschema_for::<AgentSettings>();
    generator.subschema_for::<McpServerSection>();
    generator.take_definitions(true)
}

fn named(definition: &str) -> Option<&'static str> {
    NAMES.iter().find(|(name, _)| *name == definition).map(|(_, name)| *name)
}

/// One option, or one member of a table.
struct Member<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

fn members<'a>(definition: &str, schema: &'a Value) -> Vec<Member<'a>> {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let properties = schema["properties"].as_object().unwrap().iter();
    properties
        .filter(|(name, _)| !HIDDEN.contains(&(definition, name.as_str())))
        .map(|(name, schema)| Member { name, schema, is_required: is_required(name) })
        .collect()
}

/// Returns the description of a type or a member, for a program without a configuration.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace("relative to this configuration", "relative to the working folder")
        .replace("which `--state` of `run`, `chat` and `call` sets", "which the option `state` of a call sets")
        .replace(", and 125 with `code`", "")
        .replace(", and 200 with `code`", "")
        .replace('\n', " ")
}

/// The type of a value, in the terms of both languages.
enum Type {
    Text,
    Amount,
    Duration,
    Number,
    Bool,
    List(Box<Type>),
    Map(Box<Type>),
    Words(Vec<String>),
    Named(&'static str),
    Any,
    Either(Vec<Type>),
    /// A table with one of these keys, whose value is a text.
    OneOf(Vec<String>),
}

fn type_of(schema: &Value, definitions: &Map<String, Value>) -> Type {
    if *schema == Value::Bool(true) {
        return Type::Any;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return match name {
            "Bytes" | "Count" => Type::Amount,
            "Time" => Type::Duration,
            _ => named(name).map_or_else(|| type_of(&definitions[name], definitions), Type::Named),
        };
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return either(choices, definitions);
    }
    if let Some(words) = schema["enum"].as_array() {
        return Type::Words(words.iter().map(|word| word.as_str().unwrap().to_owned()).collect());
    }
    // An option that may be left out has the type `null` as well.
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind.unwrap() {
        "string" => Type::Text,
        "integer" => Type::Number,
        "boolean" => Type::Bool,
        "array" => Type::List(Box::new(type_of(&schema["items"], definitions))),
        "object" => Type::Map(Box::new(type_of(&schema["additionalProperties"], definitions))),
        other => panic!("{other}: {schema}"),
    }
}

fn either(choices: &[Value], definitions: &Map<String, Value>) -> Type {
    let words: Option<Vec<String>> = choices.iter().map(|choice| Some(choice["const"].as_str()?.to_owned())).collect();
    if let Some(words) = words {
        return Type::Words(words);
    }
    let keys: Option<Vec<String>> =
        choices.iter().map(|choice| Some(choice["required"][0].as_str()?.to_owned())).collect();
    if let Some(keys) = keys {
        return Type::OneOf(keys);
    }
    let mut types: Vec<Type> =
        choices.iter().filter(|choice| choice["type"] != "null").map(|choice| type_of(choice, definitions)).collect();
    if types.len() == 1 { types.remove(0) } else { Type::Either(types) }
}

impl Type {
    fn python(&self, name: &str) -> String {
        match self {
            Self::Text if PATHS.contains(&name) => "Path".to_owned(),
            Self::Text => "str".to_owned(),
            Self::Amount => "Amount".to_owned(),
            Self::Duration => "Duration".to_owned(),
            Self::Number => "int".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::List(item) => format!("Sequence[{}]", item.python("")),
            Self::Map(value) => format!("Mapping[str, {}]", value.python("")),
            Self::Words(words) => format!("Literal[\"{}\"]", words.join("\", \"")),
            Self::Named(name) => (*name).to_owned(),
            Self::Any => "Any".to_owned(),
            Self::Either(types) => {
                format!("Union[{}]", types.iter().map(|it| it.python("")).collect::<Vec<_>>().join(", "))
            }
            Self::OneOf(_) => "Mapping[str, Path]".to_owned(),
        }
    }

    fn typescript(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Amount => "Amount".to_owned(),
            Self::Duration => "Duration".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Bool => "boolean".to_owned(),
            Self::List(item) => match &**item {
                Self::Either(_) => format!("({})[]", item.typescript()),
                _ => format!("{}[]", item.typescript()),
            },
            Self::Map(value) => format!("Record<string, {}>", value.typescript()),
            Self::Words(words) => format!("'{}'", words.join("' | '")),
            Self::Named(name) => (*name).to_owned(),
            Self::Any => "unknown".to_owned(),
            Self::Either(types) => types.iter().map(Self::typescript).collect::<Vec<_>>().join(" | "),
            Self::OneOf(keys) => keys.iter().map(|key| format!("{{ {key}: string }}")).collect::<Vec<_>>().join(" | "),
        }
    }
}

/// Writes the members of a class.
fn python_members(text: &mut String, members: &[Member<'_>], definitions: &Map<String, Value>) {
    for Member { name, schema, .. } in members {
        writeln!(text, "    {name}: {}", type_of(schema, definitions).python(name)).unwrap();
        let description = description(schema);
        if !description.is_empty() {
            writeln!(text, "    \"\"\"{description}\"\"\"").unwrap();
        }
    }
}

fn python_type(text: &mut String, name: &str, definition: &str, definitions: &Map<String, Value>) {
    let schema = &definitions[definition];
    let all = members(definition, schema);
    if all.iter().any(|member| KEYWORDS.contains(&member.name)) {
        let members = all.iter().map(|Member { name, schema, .. }| {
            format!("        \"{name}\": \"{}\",\n", type_of(schema, definitions).python(name))
        });
        let members: String = members.collect();
        writeln!(text, "\n\n# `from` and `for` are keywords, so that a class cannot have such members.").unwrap();
        write!(text, "{name} = TypedDict(\n    \"{name}\",\n    {{\n{members}    }},\n    total=False,\n)\n").unwrap();
        return;
    }
    let (required, optional): (Vec<_>, Vec<_>) = all.into_iter().partition(|member| member.is_required);
    let base = if required.is_empty() { "TypedDict".to_owned() } else { format!("_{name}") };
    if !required.is_empty() {
        writeln!(text, "\n\nclass {base}(TypedDict):").unwrap();
        python_members(text, &required, definitions);
    }
    writeln!(text, "\n\nclass {name}({base}, total=False):\n    \"\"\"{}\"\"\"", description(schema)).unwrap();
    if !optional.is_empty() {
        text.push('\n');
    }
    python_members(text, &optional, definitions);
}

#[test]
fn options_of_python_are_current() {
    let definitions = definitions();
    let isolation = type_of(&definitions["HostIsolation"], &definitions).python("");
    let mut text = format!(
        "\"\"\"Options of a host and of its components. This file is written by `cargo test -p fumehood-config`.\"\"\"

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, TypedDict, Union

Path = Union[str, \"os.PathLike[str]\"]
Amount = Union[str, int]
# Seconds, or a number with a unit, such as \"250ms\".
Duration = Union[str, float, timedelta]
Isolation = {isolation}
"
    );
    for (definition, name) in NAMES.iter().filter(|(definition, _)| !OPTIONS.contains(definition)) {
        python_type(&mut text, name, definition, &definitions);
    }
    expect_file!["../../../bindings/python/python/fumehood/settings.py"].assert_eq(&text);
}

/// The functions of Python name each option, so that editors and type checkers know them.
#[test]
fn functions_of_python_have_every_option() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python/python/fumehood/host.py");
    let host = std::fs::read_to_string(root).unwrap();
    let definitions = definitions();
    for definition in OPTIONS {
        for Member { name, .. } in members(definition, &definitions[definition]) {
            let passed = format!("\"{name}\": ");
            let parameter = format!("        {name}: ");
            assert!(host.contains(&passed) && host.contains(&parameter), "{definition} has `{name}`");
        }
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

fn typescript_comment(text: &mut String, indent: &str, description: &str) {
    assert!(!description.contains("*/"), "{description}");
    if !description.is_empty() {
        writeln!(text, "{indent}/** {description} */").unwrap();
    }
}

#[test]
fn options_of_node_are_current() {
    let definitions = definitions();
    let mut types = "// This file is written by `cargo test -p fumehood-config`.

/** A number, or a number with a unit, such as `\"64MiB\"` or `\"500M\"`. */
export type Amount = string | number

/** Milliseconds, or a number with a unit, such as `\"2s\"`. */
export type Duration = string | number
"
    .to_owned();
    let mut names = "// This file is written by `cargo test -p fumehood-config`.\n".to_owned();
    for (definition, name) in NAMES {
        let schema = &definitions[definition];
        let is_options = OPTIONS.contains(&definition);
        types.push('\n');
        typescript_comment(&mut types, "", &description(schema));
        writeln!(types, "export interface {name} {{").unwrap();
        for Member { name, schema, is_required } in members(definition, schema) {
            typescript_comment(&mut types, "  ", &description(schema));
            // The package has a program, so that no option is required.
            let mark = if is_required && !is_options { "" } else { "?" };
            let shown = if is_options { camel_case(name) } else { name.to_owned() };
            writeln!(types, "  {shown}{mark}: {}", type_of(schema, &definitions).typescript()).unwrap();
        }
        types.push_str("}\n");
        if is_options {
            let variable = name.replace("Settings", "Options").replace("Options", "_OPTIONS").to_uppercase();
            let pairs = members(definition, schema);
            let pairs = pairs.iter().map(|Member { name, .. }| format!("  {}: '{name}',\n", camel_case(name)));
            write!(names, "\nexport const {variable} = {{\n{}}}\n", pairs.collect::<String>()).unwrap();
        }
    }
    expect_file!["../../../bindings/node/package/settings.d.ts"].assert_eq(&types);
    expect_file!["../../../bindings/node/package/settings.js"].assert_eq(&names);
}

/// Adds the pointers of all times in a type.
fn find_times(definition: &str, pointer: &str, definitions: &Map<String, Value>, found: &mut BTreeSet<String>) {
    for Member { name, schema, .. } in members(definition, &definitions[definition]) {
        let reference = schema["$ref"].as_str().or_else(|| schema["anyOf"][0]["$ref"].as_str());
        let Some(reference) = reference else { continue };
        let below = format!("{pointer}/{name}");
        match reference.trim_start_matches("#/$defs/") {
            "Time" => drop(found.insert(below)),
            other if definitions[other]["properties"].is_object() => find_times(other, &below, definitions, found),
            _ => {}
        }
    }
}

#[test]
fn times_are_the_settings_of_that_type() {
    let definitions = definitions();
    let mut found = BTreeSet::new();
    for definition in OPTIONS {
        find_times(definition, "", &definitions, &mut found);
    }
    assert_eq!(found, TIMES.map(str::to_owned).into());
}
