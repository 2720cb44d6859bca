//! A type of the component model and a document: a document that fits the schema of the type converts to a value of the
//! type, and back without loss.

use fumehood_core::gate::{Gate, GateLimits};
use fumehood_core::typed::{TypeDocs, TypedFunction};

use super::typed_values;

/// Reads a type from the first line, as `typed_values` does, and the arguments of a function of it from the rest.
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
