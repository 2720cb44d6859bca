//! Arithmetic: five tools in one component.

mod expression;

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Two numbers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub struct Operands {
    /// The first number.
    pub a: f64,
    /// The second number.
    pub b: f64,
}

/// The result of a calculation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// The result.
    #[serde(serialize_with = "serialize_number")]
    pub result: f64,
}

/// Adds two numbers: a + b.
#[tool(title = "Add", read_only, idempotent, destructive = false, open_world = false)]
pub fn add(args: Operands) -> Result<Answer, ToolError> {
    finite(args.a + args.b)
}

/// Subtracts the second number from the first: a - b.
#[tool(title = "Subtract", read_only, idempotent, destructive = false, open_world = false)]
pub fn subtract(args: Operands) -> Result<Answer, ToolError> {
    finite(args.a - args.b)
}

/// Multiplies two numbers: a × b.
#[tool(title = "Multiply", read_only, idempotent, destructive = false, open_world = false)]
pub fn multiply(args: Operands) -> Result<Answer, ToolError> {
    finite(args.a * args.b)
}

/// Divides the first number by the second: a / b. Fails if the second is zero.
#[tool(title = "Divide", read_only, idempotent, destructive = false, open_world = false)]
pub fn divide(args: Operands) -> Result<Answer, ToolError> {
    if args.b == 0.0 {
        return Err(ToolError::failed("Division by zero"));
    }
    finite(args.a / args.b)
}

/// Evaluates an arithmetic expression, such as `(3 + 5) * 2` or `sqrt(2) ^ 3`.
///
/// It knows `+ - * /`, `%` (remainder), `^` (power, from right to left), parentheses, the constants `pi` and `e`, and
/// the functions `abs`, `sqrt`, `exp`, `ln`, `log10`, `sin`, `cos`, `tan` (in radians), `floor`, `ceil`, `round`, `min`
/// and `max`. There are no variables.
#[tool(title = "Evaluate", read_only, idempotent, destructive = false, open_world = false)]
pub fn evaluate(
    /// The expression.
    #[schemars(length(min = 1, max = 4096))]
    expression: String,
) -> Result<Answer, ToolError> {
    finite(expression::evaluate(&expression)?)
}

/// Returns the result if it is finite: JSON has no infinities, and a model needs an error message.
fn finite(result: f64) -> Result<Answer, ToolError> {
    if result.is_finite() {
        return Ok(Answer { result });
    }
    Err(ToolError::failed(if result.is_nan() {
        "The result is not a real number"
    } else {
        "The result is too large: it is beyond 1.8e308"
    }))
}

/// Serializes whole numbers without a decimal point, `8` instead of `8.0`, as long as they are exact.
fn serialize_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT_BELOW {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
        return serializer.serialize_i64(*number as i64);
    }
    serializer.serialize_f64(*number)
}

fumehood_guest::export!(add, subtract, multiply, divide, evaluate);

#[cfg(test)]
mod tests {
    use fumehood_guest::serde_json::{Value, json};
    use fumehood_guest::{Content, FailureKind, Tool, testing};

    use super::*;

    fn json_of<T: Tool>(arguments: &Value) -> String {
        match testing::call::<T>(arguments).unwrap().as_slice() {
            [Content::Json(value)] => value.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn computes_the_four_operations() {
        let args = Operands { a: 7.0, b: 2.0 };
        let result = |answer: Result<Answer, ToolError>| answer.unwrap().result;
        assert_eq!(result(add(args)), 9.0);
        assert_eq!(result(subtract(args)), 5.0);
        assert_eq!(result(multiply(args)), 14.0);
        assert_eq!(result(divide(args)), 3.5);
    }

    #[test]
    fn division_by_zero_fails() {
        for b in [0.0, -0.0] {
            let error = divide(Operands { a: 1.0, b }).unwrap_err();
            assert_eq!((error.kind(), error.message()), (FailureKind::Failed, "Division by zero"));
        }
    }

    #[test]
    fn results_that_are_not_finite_fail() {
        assert!(multiply(Operands { a: f64::MAX, b: 10.0 }).unwrap_err().message().contains("too large"));
        assert!(evaluate("sqrt(0 - 1)".to_owned()).unwrap_err().message().contains("real number"));
    }

    #[test]
    fn serializes_whole_numbers_without_a_point() {
        assert_eq!(json_of::<add>(&json!({"a": 3, "b": 5})), r#"{"result":8}"#);
        assert_eq!(json_of::<multiply>(&json!({"a": 8, "b": -2.0})), r#"{"result":-16}"#);
        assert_eq!(json_of::<divide>(&json!({"a": 1, "b": 8})), r#"{"result":0.125}"#);
        assert_eq!(json_of::<multiply>(&json!({"a": 1e20, "b": 1})), r#"{"result":1e+20}"#);
        assert_eq!(json_of::<evaluate>(&json!({"expression": "(3 + 5) * 2"})), r#"{"result":16}"#);
    }
}
