//! The blocks of docs/rust.md, word for word.

#![allow(unreachable_pub, reason = "in a component, the functions stand at the root")]

#[rustfmt::skip]
mod greet {
    use fumehood_guest::{ToolError, tool};

    /// Greets somebody by name.
    #[tool(title = "Greet", read_only, idempotent, destructive = false, open_world = false)]
    pub fn greet(
        /// The name of the person.
        name: String,
        /// The number of greetings, from 1 to 10.
        #[default(1)]
        times: u32,
    ) -> Result<String, ToolError> {
        if !(1..=10).contains(&times) {
            return Err(ToolError::invalid_arguments(format!("{times} greetings are too many; give a number from 1 to 10")));
        }
        Ok(vec![format!("Hello, {name}."); times as usize].join(" "))
    }

    fumehood_guest::export!(greet);

    #[cfg(test)]
    mod tests {
        use fumehood_guest::serde_json::json;
        use fumehood_guest::{Content, testing};

        use super::*;

        #[test]
        fn greets_by_name() {
            let greeting = testing::call::<greet>(&json!({"name": "Ada", "times": 2}));
            assert_eq!(greeting, Ok(vec![Content::text("Hello, Ada. Hello, Ada.")]));
        }
    }
}

mod die {
    use fumehood_guest::{resource, tool};

    /// Rolls a die.
    #[tool]
    pub fn roll() -> u32 {
        4
    }

    /// Shows a die.
    #[resource(uri = "ui://dice/view", tools("roll"))]
    fn view() -> &'static str {
        "<!doctype html><title>Die</title>"
    }

    fumehood_guest::export!(roll; resources: view);
}
