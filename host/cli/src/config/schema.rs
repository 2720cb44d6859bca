//! The JSON Schema of `fumehood.toml`.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::file::Config;

/// The JSON Schema of `fumehood.toml`, for editors: made from the very types that read it.
pub(crate) fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().to_value()
}
