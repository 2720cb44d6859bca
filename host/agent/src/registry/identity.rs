//! Names of arguments that set the actor of a call.
//!
//! A model that fills in such an argument chooses the actor. Functions of a host must not have one, because they get
//! the actor from the host. In other tools `user` is mostly data, such as a person to look up; an operator configures
//! which names are forbidden there.

use std::collections::BTreeSet;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::text::sanitize::printable;
use fumehood_core::tool::ValidatedCall;
use serde_json::{Map, Value};

/// Names of arguments that functions of a host must not have, in lower case and without separators.
const DEFAULT_NAMES: [&str; 7] = ["userid", "user", "actorid", "accountid", "tenantid", "viewerid", "onbehalfof"];

/// An error for a parameter that would let the model choose the actor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the parameter '{parameter}' of the tool '{tool}' would let a model choose the actor; remove the parameter, and \
     use the actor of the invocation context"
)]
pub struct IdentityError {
    /// The tool.
    pub tool: String,
    /// The name of the parameter, as in the schema.
    pub parameter: String,
}

/// Names of arguments that would let the model choose the actor. Case and separators are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorArguments(BTreeSet<String>);

impl Default for ActorArguments {
    /// Returns `user_id`, `user`, `actor_id`, `account_id`, `tenant_id`, `viewer_id` and `on_behalf_of`.
    fn default() -> Self {
        Self::new(DEFAULT_NAMES)
    }
}

impl ActorArguments {
    /// Creates a set of names. Case and separators are ignored.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(names.into_iter().map(|name| normalize(name.as_ref())).filter(|name| !name.is_empty()).collect())
    }

    /// Returns an empty set.
    #[must_use]
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Checks that the schema of a tool's arguments has none of these names, at any depth.
    ///
    /// # Errors
    /// The first parameter with such a name.
    pub fn check(&self, tool: &str, schema: &Value) -> Result<(), IdentityError> {
        match self.find(schema).filter(|_| !self.0.is_empty()) {
            Some(parameter) => Err(IdentityError { tool: tool.to_owned(), parameter }),
            None => Ok(()),
        }
    }

    /// Checks that the arguments of a call have none of these names at the top, for tools that take undeclared ones.
    ///
    /// # Errors
    /// If there is one; the tool must not run.
    pub fn check_call(&self, call: &ValidatedCall) -> Result<(), CallError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut names = call.arguments().as_object().into_iter().flat_map(Map::keys);
        match names.find(|name| self.contains(name)) {
            Some(name) => {
                let message = format!("the argument `{}` would choose the actor of the call", printable(name));
                Err(CallError::new(ErrorKind::InvalidArguments, message)
                    .with_hint("leave it out; the tool did not run"))
            }
            None => Ok(()),
        }
    }

    /// Returns whether the name is in the set.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&normalize(name))
    }

    fn find(&self, schema: &Value) -> Option<String> {
        match schema {
            Value::Array(schemas) => schemas.iter().find_map(|schema| self.find(schema)),
            Value::Object(keywords) => {
                keywords.iter().find_map(|(keyword, value)| self.find_in_keyword(keyword, value))
            }
            _ => None,
        }
    }

    fn find_in_keyword(&self, keyword: &str, value: &Value) -> Option<String> {
        match keyword {
            "properties" | "patternProperties" | "dependentSchemas" => {
                let members = value.as_object()?;
                let named = members.keys().find(|name| self.contains(name)).cloned();
                named.or_else(|| members.values().find_map(|schema| self.find(schema)))
            }
            "required" => {
                value.as_array()?.iter().filter_map(Value::as_str).find(|name| self.contains(name)).map(str::to_owned)
            }
            // These names are those of definitions, not of arguments.
            "$defs" | "definitions" => value.as_object()?.values().find_map(|schema| self.find(schema)),
            // Values, not schemas.
            "const" | "enum" | "default" | "examples" => None,
            _ => self.find(value),
        }
    }
}

/// Converts a name to lower case and removes separators.
fn normalize(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn undeclared_arguments_do_not_choose_the_actor() {
        fn check(tool: &Arc<Tool>, names: &ActorArguments, arguments: Value) -> Result<(), String> {
            names.check_call(&tool.validate(arguments.into()).unwrap()).map_err(|error| error.message.to_string())
        }

        use std::sync::Arc;

        use fumehood_core::schema::gate::{Gate, GateLimits};
        use fumehood_core::tool::Tool;
        use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};

        let schema = json!({"type": "object", "additionalProperties": true});
        let raw = RawDefinition { name: "t".into(), input_schema: schema.to_string(), ..RawDefinition::default() };
        let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
        let tool = Arc::new(Tool::new(raw.parse(&DefinitionLimits::default()).unwrap(), gate));
        let names = ActorArguments::default();
        let refused = check(&tool, &names, json!({"x": 1, "User-Id": 2})).unwrap_err();
        assert!(refused.contains("`User-Id`"), "{refused}");
        assert_eq!(check(&tool, &names, json!({"x": {"user": 1}})), Ok(()));
        assert_eq!(check(&tool, &ActorArguments::none(), json!({"user": 1})), Ok(()));
    }

    #[test]
    fn identity_shaped_names_are_found_however_they_are_written_and_nested() {
        fn check(schema: Value, expected: Option<&str>) {
            assert_eq!(ActorArguments::default().find(&schema).as_deref(), expected, "{schema}");
        }

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
        let error = ActorArguments::default().check("orders", &json!({"properties": {"userId": {}}}));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("'orders'") && error.contains("'userId'") && error.contains("actor"), "{error}");
    }

    #[test]
    fn operator_configures_forbidden_names() {
        let schema = json!({"properties": {"user": {}, "x-Tenant": {}}});
        assert_eq!(ActorArguments::none().check("t", &schema), Ok(()));
        assert_eq!(ActorArguments::new(["x_tenant"]).check("t", &schema).unwrap_err().parameter, "x-Tenant");
        assert_eq!(ActorArguments::new(["", "-"]), ActorArguments::none());
    }
}
