//! Names of arguments that say on whose behalf a call runs: no tool may have one, because a model would fill it in.

use serde_json::Value;

/// What such a name looks like once case and separators are taken away.
const SHAPES: [&str; 7] = ["userid", "user", "actorid", "accountid", "tenantid", "viewerid", "onbehalfof"];

/// A tool wants to be told by the model on whose behalf it runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tool '{tool}' has the parameter '{parameter}', which says on whose behalf it runs; the host tells a tool its \
     actor, a model never does: remove the parameter and use the actor of the invocation"
)]
pub struct IdentityError {
    /// Which tool.
    pub tool: String,
    /// The parameter, as the schema writes it.
    pub parameter: String,
}

/// Looks for such names anywhere in the schema of a tool's arguments.
///
/// # Errors
/// If there is one: the first that was found.
pub fn check(tool: &str, schema: &Value) -> Result<(), IdentityError> {
    match find(schema) {
        Some(parameter) => Err(IdentityError { tool: tool.to_owned(), parameter }),
        None => Ok(()),
    }
}

/// Whether a name is one of them, however it is written.
#[must_use]
pub fn is_identity(name: &str) -> bool {
    let folded: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    SHAPES.contains(&folded.as_str())
}

fn find(schema: &Value) -> Option<String> {
    match schema {
        Value::Array(schemas) => schemas.iter().find_map(find),
        Value::Object(keywords) => keywords.iter().find_map(|(keyword, value)| in_keyword(keyword, value)),
        _ => None,
    }
}

fn in_keyword(keyword: &str, value: &Value) -> Option<String> {
    match keyword {
        "properties" | "patternProperties" | "dependentSchemas" => {
            let members = value.as_object()?;
            let named = members.keys().find(|name| is_identity(name)).cloned();
            named.or_else(|| members.values().find_map(find))
        }
        "required" => {
            value.as_array()?.iter().filter_map(Value::as_str).find(|name| is_identity(name)).map(str::to_owned)
        }
        // Names in here are those of definitions, not of arguments.
        "$defs" | "definitions" => value.as_object()?.values().find_map(find),
        // Values, not schemas.
        "const" | "enum" | "default" | "examples" => None,
        _ => find(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn l12_identity_shaped_names_are_found_however_they_are_written_and_nested() {
        let check = |schema: Value, expected: Option<&str>| {
            assert_eq!(find(&schema).as_deref(), expected, "{schema}");
        };
        for name in ["user_id", "userid", "user", "userId", "UserID", "user-id", "USER_ID", "actor_id", "accountId"] {
            check(json!({"type": "object", "properties": {name: {}}}), Some(name));
        }
        for name in ["tenant_id", "viewer_id", "onBehalfOf", "on_behalf_of"] {
            check(json!({"properties": {name: {}}}), Some(name));
        }
        check(json!({"properties": {"a": {"items": {"properties": {"tenantId": {}}}}}}), Some("tenantId"));
        check(json!({"$defs": {"x": {"properties": {"user_id": {}}}}}), Some("user_id"));
        check(json!({"anyOf": [{}, {"properties": {"user_id": {}}}]}), Some("user_id"));
        check(json!({"patternProperties": {"^user_id$": {}}}), Some("^user_id$"));
        check(json!({"$defs": {"user": {"properties": {"name": {}}}}}), None);
        check(json!({"properties": {"a": {"enum": [{"properties": {"user_id": 1}}]}}}), None);
        check(json!({"properties": {"username": {}, "order_id": {}, "users": {}}}), None);
        let error = super::check("orders", &json!({"properties": {"userId": {}}})).unwrap_err().to_string();
        assert!(error.contains("'orders'") && error.contains("'userId'") && error.contains("actor"), "{error}");
    }
}
