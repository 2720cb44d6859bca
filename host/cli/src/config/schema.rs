//! The JSON Schema of `fumehood.toml`.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::file::Config;

/// The JSON Schema of `fumehood.toml`, for editors: made from the very types that read it.
pub(crate) fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    #[test]
    fn the_published_schema_is_current() {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        expect_file!["../../../../docs/fumehood.schema.json"].assert_eq(&text);
    }

    /// Every key of every section stands in the example, so that nobody has to guess one.
    #[test]
    fn the_example_shows_every_key_and_is_fine() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fumehood.toml");
        if let Err(error) = Config::load(&file) {
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
