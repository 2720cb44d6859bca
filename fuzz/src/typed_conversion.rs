//! Conversion of typed values: a document that matches the schema of a component model type converts to a value of the
//! type, and back without loss.

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::schema::typed::{TypeDocs, TypedFunction};

use super::typed_values;

/// Parses a type from the first line, like `typed_values`, and the arguments of a function with this parameter from the
/// rest.
pub fn run(data: &[u8]) {
    let (ty, document) = typed_values::split(data);
    let function = TypedFunction { params: vec![("value".to_owned(), ty.clone())], result: None };
    let schema = function.input_schema(&TypeDocs::new());
    let Ok(gate) = Gate::for_arguments(&schema, GateLimits::default()) else { return };
    let Some(arguments) = document.and_then(|document| gate.parse(document).ok()) else { return };
    let Some(value) = arguments.get("value") else { return };
    let written =
        fumehood_runtime::convert_typed(value, &ty).unwrap_or_else(|error| panic!("{error}: {schema} {value}"));
    let again = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(fumehood_runtime::convert_typed(&again, &ty).as_deref(), Ok(written.as_str()), "{schema} {value}");
}
