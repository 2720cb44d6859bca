//! Selection of values in JSON documents.

use fumehood_guest::{ToolError, tool};
use jmespath::JmespathError;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The value that the expression selects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Selected {
    /// The selected value; null if there is nothing of the kind in the document.
    pub result: Value,
}

/// Selects and reshapes parts of a JSON document with a JMESPath expression.
///
/// Examples: `people[0].name`, ``people[?age > `30`].{name: name, city: address.city}``,
/// `sort_by(people, &age)[-1].name`, `length(people)`, `people[].tags[] | [0]`. Literals stand in backticks, raw
/// strings in single quotes.
#[tool(title = "Query JSON", read_only, idempotent, destructive = false, open_world = false)]
pub fn query(
    /// The document: any JSON value.
    document: Value,
    /// The JMESPath expression.
    #[schemars(length(min = 1, max = 4096))]
    expression: String,
) -> Result<Selected, ToolError> {
    let compiled = jmespath::compile(&expression).map_err(|error| refusal("is not valid JMESPath", &error))?;
    let selected = compiled.search(document).map_err(|error| refusal("does not fit the document", &error))?;
    if selected.is_expref() {
        return Err(ToolError::invalid_arguments(
            "the expression selects an expression, not a value; `&` only makes sense as an argument of a function",
        ));
    }
    let result = serde_json::to_value(selected).map_err(ToolError::failed)?;
    Ok(Selected { result })
}

fn refusal(problem: &str, error: &JmespathError) -> ToolError {
    ToolError::invalid_arguments(format!("the expression {problem}: {error}"))
}

fumehood_guest::export!(query);

#[cfg(test)]
mod tests {
    use fumehood_guest::{FailureKind, testing};
    use serde_json::json;

    use super::*;

    // Numbers are tested with the built component: in one build with the host, serde_json keeps their digits in a form that
    // jmespath does not read.
    fn people() -> Value {
        json!({"people": [{"name": "Ada", "tags": ["math"]}, {"name": "Max", "tags": []}]})
    }

    fn select(expression: &str) -> Value {
        query(people(), expression.to_owned()).unwrap().result
    }

    fn refusal_of(expression: &str) -> String {
        let error = query(people(), expression.to_owned()).unwrap_err();
        assert_eq!(error.kind(), FailureKind::InvalidArguments);
        error.message().to_owned()
    }

    #[test]
    fn selects_values() {
        assert_eq!(select("people[0].name"), json!("Ada"));
        assert_eq!(
            select("people[].{n: name, t: tags[0]}"),
            json!([
                {"n": "Ada", "t": "math"}, {"n": "Max", "t": null}
            ])
        );
        assert_eq!(select("sort_by(people, &name)[-1].name"), json!("Max"));
        assert_eq!(select("nothing.here"), Value::Null);
    }

    #[test]
    fn explains_an_invalid_expression() {
        let message = refusal_of("people[");
        assert!(message.starts_with("the expression is not valid JMESPath: "), "{message}");
        assert!(message.contains("people["), "{message}");
        let message = refusal_of("length(`true`)");
        assert!(message.starts_with("the expression does not fit the document: "), "{message}");
        assert!(refusal_of("nope(@)").contains("nope"));
        assert!(refusal_of("&name").contains("expression"));
    }

    #[test]
    fn accepts_any_document() {
        for document in [json!(null), json!(true), json!("x"), json!(["x"])] {
            assert!(testing::call::<query>(&json!({"document": document, "expression": "@"})).is_ok(), "{document}");
        }
    }
}
