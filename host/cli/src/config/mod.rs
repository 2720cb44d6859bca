//! The configuration file `fumehood.toml`: its types are those of `fumehood-config`, and the checks that need other crates
//! are here.

#[cfg(feature = "cell")]
pub(crate) mod cell;
mod check;
pub(crate) mod hooks;
#[cfg(test)]
mod malformed;
pub(crate) mod oauth;
pub(crate) mod powers;
pub(crate) mod registry;
pub(crate) mod server;
#[cfg(feature = "postgres")]
pub(crate) mod storage;
pub(crate) mod tenant;
pub(crate) mod tool_names;

use std::path::Path;

use fumehood::Limits;
use fumehood::hooks::ComponentHook;
pub(crate) use fumehood_config::fault::{ConfigError, KeyFault};
pub(crate) use fumehood_config::file::{Config, schema};
pub(crate) use fumehood_config::open::{DEFAULT_FILE_NAME, text_of};
pub(crate) use fumehood_config::secret::resolve;
pub(crate) use fumehood_config::{agent, amount, flows, guardrail, logging, mcp, model, price, skill, telemetry, tool};
pub(crate) use powers::{Powers, grant_of_powers, powers_of_table};

/// Reads the configuration in `file`, whether or not it is trusted: to check or to show it.
///
/// # Errors
/// If it cannot be read, or has faults: the error lists all of them.
pub(crate) fn load(file: &Path) -> Result<Config, ConfigError> {
    Config::load(file, &check::check)
}

/// Like [`load`], and opens the files and folders that it names, to check it on the machine that it is for.
///
/// # Errors
/// Like [`load`], or if any of them is missing or of another kind.
pub(crate) fn load_with_files(file: &Path) -> Result<Config, ConfigError> {
    Config::load_with_files(file, &check::check)
}

/// Parses `text`, the content of `file`.
///
/// # Errors
/// If it has faults: the error lists all of them.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
    Config::parse(file, text, &check::check)
}

/// Returns the limits of the calls of a component of [tools] where its section has none: those of a hook for a hook.
pub(crate) fn default_limits(config: &Config, name: &str) -> Limits {
    if config.hooks.has_component(name) {
        ComponentHook::default_limits()
    } else {
        config.limits.over(Limits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;
    use fumehood_tests::prose::Prose;
    use serde_json::Value;

    /// Adds the descriptions in a schema.
    fn add_descriptions(schema: &Value, texts: &mut Vec<String>) {
        match schema {
            Value::Object(object) => {
                texts.extend(object.get("description").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|part| add_descriptions(part, texts));
            }
            Value::Array(list) => list.iter().for_each(|part| add_descriptions(part, texts)),
            _ => {}
        }
    }

    #[test]
    fn descriptions_are_written_in_the_words_of_the_field() {
        let mut texts = Vec::new();
        add_descriptions(&schema(), &mut texts);
        let prose = Prose::new(&texts.join("\n"));
        assert!(prose.word_count() > 3_000, "{}", prose.word_count());
        prose.check().unwrap();
    }

    #[test]
    fn the_published_schema_is_current() {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        expect_file!["../../../../docs/fumehood.schema.json"].assert_eq(&text);
    }

    /// The example has every key of every section, so that none has to be guessed.
    #[test]
    fn the_example_shows_every_key_and_is_fine() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fumehood.toml");
        if let Err(error) = load(&file) {
            panic!("{error}");
        }
        let text = std::fs::read_to_string(file).unwrap();
        let schema = schema();
        let sections = schema["$defs"].as_object().unwrap().values().chain([&schema]);
        let keys = sections.filter_map(|section| section["properties"].as_object()).flat_map(|keys| keys.keys());
        let is_shown = |key: &&String| {
            let forms =
                [format!("{key} = "), format!("[{key}."), format!("[{key}]"), format!(".{key}]"), format!(".{key}.")];
            forms.iter().any(|form| text.contains(form))
        };
        let missing: Vec<_> = keys.filter(|key| !is_shown(key)).collect();
        assert!(missing.is_empty(), "the example lacks {missing:?}");
    }
}
