//! Arithmetic expressions: a recursive descent parser that evaluates as it parses.

use std::f64::consts;

use fumehood_guest::ToolError;

/// Maximum nesting depth of parentheses, signs and powers. Each level uses some of a small stack.
const MAX_DEPTH: usize = 64;

/// Evaluates an expression.
///
/// # Errors
///
/// If it is not an expression, or divides by zero.
pub(crate) fn evaluate(expression: &str) -> Result<f64, ToolError> {
    let mut reader = Parser { rest: expression, read: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(unexpected) => Err(reader.error(format!("expected an operator or the end, not `{unexpected}`"))),
    }
}

struct Parser<'a> {
    rest: &'a str,
    /// Number of characters that were parsed, for error messages.
    read: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<f64, ToolError> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, ToolError> {
        let mut value = self.signed_operand()?;
        loop {
            if self.take('*') {
                value *= self.signed_operand()?;
            } else if self.take('/') {
                value /= self.divisor()?;
            } else if self.take('%') {
                value %= self.divisor()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn divisor(&mut self) -> Result<f64, ToolError> {
        let value = self.signed_operand()?;
        if value == 0.0 { Err(ToolError::failed("Division by zero")) } else { Ok(value) }
    }

    /// Parses an operand with a sign, which binds less than a power: -2^2 is -4.
    fn signed_operand(&mut self) -> Result<f64, ToolError> {
        self.descend(|reader| {
            if reader.take('-') {
                Ok(-reader.signed_operand()?)
            } else if reader.take('+') {
                reader.signed_operand()
            } else {
                reader.power()
            }
        })
    }

    fn power(&mut self) -> Result<f64, ToolError> {
        let base = self.operand()?;
        if self.take('^') { Ok(base.powf(self.signed_operand()?)) } else { Ok(base) }
    }

    fn operand(&mut self) -> Result<f64, ToolError> {
        if self.take('(') {
            let value = self.sum()?;
            self.expect(')')?;
            return Ok(value);
        }
        match self.peek() {
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            Some(first) if first.is_ascii_alphabetic() => self.name(),
            Some(other) => Err(self.error(format!("expected a number, a function or `(`, not `{other}`"))),
            None => Err(self.error("expected a number, a function or `(`, but the expression ends")),
        }
    }

    fn number(&mut self) -> Result<f64, ToolError> {
        let at = self.read;
        let is_digit = |character: char| character.is_ascii_digit();
        let mut length = self.rest.find(|c: char| !is_digit(c) && c != '.').unwrap_or(self.rest.len());
        // An exponent only if digits follow: in `2e` the `e` is not part of the number.
        let (_, tail) = self.rest.split_at(length);
        if let Some(exponent) = tail.strip_prefix(['e', 'E']) {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let count = digits.find(|c: char| !is_digit(c)).unwrap_or(digits.len());
            if count > 0 {
                length += 1 + exponent.len() - digits.len() + count;
            }
        }
        let text = self.advance(length);
        text.parse().map_err(|_| at_character(at, format!("`{text}` is not a number")))
    }

    fn name(&mut self) -> Result<f64, ToolError> {
        let at = self.read;
        let length = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let name = self.advance(length);
        if !self.take('(') {
            return match name {
                "pi" => Ok(consts::PI),
                "e" => Ok(consts::E),
                _ => Err(at_character(at, format!("there is no constant `{name}`; there are `pi` and `e`"))),
            };
        }
        let mut arguments = vec![self.sum()?];
        while self.take(',') {
            arguments.push(self.sum()?);
        }
        self.expect(')')?;
        function(name, &arguments).map_err(|problem| at_character(at, problem))
    }

    /// Parses one level deeper, up to [`MAX_DEPTH`].
    fn descend(&mut self, read: impl FnOnce(&mut Self) -> Result<f64, ToolError>) -> Result<f64, ToolError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("this is nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Returns the next character after white space.
    fn peek(&mut self) -> Option<char> {
        let trimmed = self.rest.trim_start();
        self.advance(self.rest.len() - trimmed.len());
        trimmed.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.advance(wanted.len_utf8());
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ToolError> {
        if self.take(wanted) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(other) => self.error(format!("expected `{wanted}`, not `{other}`")),
            None => self.error(format!("expected `{wanted}`, but the expression ends")),
        })
    }

    /// Consumes `bytes` bytes, which must end at a character boundary.
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (read, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        self.read += read.chars().count();
        read
    }

    fn error(&self, problem: impl Into<String>) -> ToolError {
        at_character(self.read, problem.into())
    }
}

fn at_character(read: usize, problem: String) -> ToolError {
    ToolError::invalid_arguments(format!("at character {}: {problem}", read + 1))
}

fn function(name: &str, arguments: &[f64]) -> Result<f64, String> {
    match name {
        "min" => Ok(arguments.iter().copied().fold(f64::INFINITY, f64::min)),
        "max" => Ok(arguments.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        _ => {
            let function = unary_function(name).ok_or_else(|| {
                format!(
                    "there is no function `{name}`; there are abs, sqrt, exp, ln, log10, sin, cos, tan, floor, ceil, \
                     round, min and max"
                )
            })?;
            match arguments {
                [argument] => Ok(function(*argument)),
                _ => Err(format!("`{name}` takes 1 number, not {}", arguments.len())),
            }
        }
    }
}

fn unary_function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "sqrt" => f64::sqrt,
        "exp" => f64::exp,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        "round" => f64::round,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use fumehood_guest::FailureKind;

    use super::*;

    #[test]
    fn evaluates_expressions() {
        for (expression, value) in [
            ("1", 1.0),
            (" ( 3+5 ) *2 ", 16.0),
            ("3 + 5 * 2", 13.0),
            ("10 - 4 - 3", 3.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("2 ^ -1", 0.5),
            ("--3", 3.0),
            ("2 - -3", 5.0),
            ("7 % 4 / 2", 1.5),
            (".5 + 1.", 1.5),
            ("1.5e3 + 2E-1", 1500.2),
            ("max(1, min(5, 3), 2)", 3.0),
            ("sqrt(16) + abs(-2)", 6.0),
            ("ln(e) + cos(pi)", 0.0),
            ("round(2.5) + floor(-0.5) + ceil(0.2)", 3.0),
        ] {
            assert_eq!(evaluate(expression), Ok(value), "{expression}");
        }
    }

    #[test]
    fn errors_name_the_position() {
        for (expression, message) in [
            ("", "at character 1: expected a number, a function or `(`, but the expression ends"),
            ("1 +", "at character 4: expected a number, a function or `(`, but the expression ends"),
            ("1 2", "at character 3: expected an operator or the end, not `2`"),
            ("(1", "at character 3: expected `)`, but the expression ends"),
            ("(1 2)", "at character 4: expected `)`, not `2`"),
            ("2e", "at character 2: expected an operator or the end, not `e`"),
            ("1.2.3", "at character 1: `1.2.3` is not a number"),
            ("x", "at character 1: there is no constant `x`; there are `pi` and `e`"),
            ("1 + sqrt(1, 2)", "at character 5: `sqrt` takes 1 number, not 2"),
            ("2 × 3", "at character 3: expected an operator or the end, not `×`"),
        ] {
            let error = evaluate(expression).unwrap_err();
            assert_eq!((error.kind(), error.message()), (FailureKind::InvalidArguments, message), "{expression}");
        }
        assert!(evaluate("foo(1)").unwrap_err().message().contains("no function `foo`"));
    }

    #[test]
    fn rejects_division_by_zero() {
        for expression in ["1 / 0", "1 % (2 - 2)", "1 / -0"] {
            assert_eq!(evaluate(expression).unwrap_err().message(), "Division by zero", "{expression}");
        }
    }

    #[test]
    fn limits_the_nesting_depth() {
        let parentheses = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(evaluate(&parentheses(MAX_DEPTH - 1)), Ok(1.0));
        for deep in [parentheses(MAX_DEPTH), "-".repeat(100_000), "2^".repeat(100_000), "(".repeat(100_000)] {
            assert!(evaluate(&deep).unwrap_err().message().contains("64 levels"));
        }
    }
}
