//! The slow pass over a text that the strict parser rejects. It collects all violations with their locations.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::format::{quote, truncate};
use super::json_hints;
use super::keywords::escape;
use super::locator::{Locator, NodeSet, Step};
use super::number::{self, MAX_NUMBER_BYTES, NumberError};
use super::strict::Caps;
use super::violation::{Violation, Violations};
use crate::schema::json_reader::{is_number_byte, is_reserved_name};

/// Finds the reasons why [`super::strict::read`] rejected a text, and returns those that the schema does not allow.
///
/// # Errors
/// All violations that the schema does not allow.
pub(super) fn explain_text(text: &str, caps: Caps, cap: usize, locator: Locator<'_>) -> Result<(), Violations> {
    if text.len() > caps.text {
        let expected = format!("a text of at most {} bytes", caps.text);
        return Err(Violations::one(Violation::mismatch(String::new(), expected, format!("{} bytes", text.len()))));
    }
    // Accepts any depth without recursion, and checks only the syntax of numbers and escapes.
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(Violations::one(json_hints::explain_syntax_error(text, &error)));
    }
    let levels = Vec::new();
    let mut trace = Trace { caps, cap, locator, found: Vec::new(), more: 0, allowed: false, levels, skipped: 0 };
    trace.walk(text);
    match (trace.found.is_empty(), trace.allowed) {
        (true, true) => Ok(()),
        // The strict parser rejects something that the walk does not check.
        (true, false) => Err(Violations::one(json_hints::explain_strictness(text))),
        (false, _) => Err(Violations { violations: trace.found, more: trace.more }),
    }
}

/// An array or object that the walk is in.
struct Level {
    /// The names so far; `None` for an array.
    names: Option<HashSet<String>>,
    /// The step to the value that is read next.
    step: Step,
    /// The schemas of this array or object, computed on demand.
    schemas: Option<NodeSet>,
}

/// A walk over a text that is known to be JSON.
struct Trace<'o> {
    caps: Caps,
    cap: usize,
    locator: Locator<'o>,
    found: Vec<Violation>,
    more: usize,
    /// True if a violation was found that the schema allows.
    allowed: bool,
    levels: Vec<Level>,
    /// Number of levels beyond the maximum depth that the walk is in. Nothing in there is checked.
    skipped: usize,
}

impl Trace<'_> {
    fn walk(&mut self, text: &str) {
        let mut rest = text;
        // True if the next string is the name of a member.
        let mut name_next = false;
        while let Some(first) = rest.bytes().next() {
            let length = match first {
                b'"' => {
                    let length = string_length(rest);
                    let token = rest.get(..length).unwrap_or(rest);
                    match (self.skipped, name_next) {
                        (0, true) => self.check_name(token),
                        (0, false) => self.check_string(token),
                        _ => {}
                    }
                    name_next = false;
                    length
                }
                b'{' | b'[' => {
                    self.enter(first == b'{');
                    name_next = first == b'{';
                    1
                }
                b'}' | b']' => {
                    self.leave();
                    name_next = false;
                    1
                }
                b',' => {
                    name_next = self.next_entry();
                    1
                }
                b'-' | b'0'..=b'9' => {
                    let length = rest.bytes().position(|byte| !is_number_byte(byte)).unwrap_or(rest.len());
                    if self.skipped == 0 {
                        self.check_number(rest.get(..length).unwrap_or_default());
                    }
                    length
                }
                _ => 1,
            };
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    fn enter(&mut self, object: bool) {
        // Reported once for each location where the maximum is exceeded, not for everything below.
        if self.levels.len() == self.caps.depth {
            if self.skipped == 0 {
                let expected = format!("at most {} levels of arrays and objects", self.caps.depth);
                self.report(|pointer| Violation::mismatch(pointer, expected, "one more level"));
            }
            self.skipped += 1;
            return;
        }
        let names = object.then(HashSet::new);
        let step = if object { Step::Name(String::new()) } else { Step::Index(0) };
        self.levels.push(Level { names, step, schemas: None });
    }

    fn leave(&mut self) {
        match self.skipped.checked_sub(1) {
            Some(skipped) => self.skipped = skipped,
            None => drop(self.levels.pop()),
        }
    }

    /// Advances past a comma. Returns whether a name follows.
    fn next_entry(&mut self) -> bool {
        if self.skipped > 0 {
            return false;
        }
        let Some(level) = self.levels.last_mut() else {
            return false;
        };
        if let Step::Index(index) = &mut level.step {
            *index += 1;
        }
        level.names.is_some()
    }

    fn check_name(&mut self, token: &str) {
        let Ok(name) = serde_json::from_str::<String>(token) else {
            // It is not valid Unicode, so the pointer has it as written.
            if let Some(level) = self.levels.last_mut() {
                level.step = Step::Name(token.trim_matches('"').to_owned());
            }
            self.report_surrogate(token);
            return;
        };
        let is_duplicate = self.levels.last_mut().is_some_and(|level| {
            level.step = Step::Name(name.clone());
            !level.names.as_mut().is_none_or(|names| names.insert(name.clone()))
        });
        if is_duplicate {
            let sentence = format!("the name {} is given twice", quote(&name));
            self.report(|pointer| Violation::plain(pointer, "each name once", sentence));
        }
        if name.len() > self.caps.string {
            self.report_too_long("a name", name.len());
        }
        if is_reserved_name(&name) {
            self.report(reserved_name_violation);
        }
    }

    fn check_string(&mut self, token: &str) {
        match serde_json::from_str::<String>(token) {
            Ok(text) if text.len() > self.caps.string => {
                let schemas = self.schemas();
                if self.locator.can_be_long(&schemas) {
                    self.allowed = true
                } else {
                    self.report_too_long("a string", text.len())
                }
            }
            Ok(_) => {}
            Err(_) => self.report_surrogate(token),
        }
    }

    /// Returns the schemas of the value that is read now.
    fn schemas(&mut self) -> NodeSet {
        let Self { levels, locator, .. } = self;
        let mut above: Option<(&NodeSet, &Step)> = None;
        for Level { schemas, step, .. } in levels {
            let own = schemas.get_or_insert_with(|| match above {
                Some((parents, step)) => locator.child(parents, step),
                None => locator.root(),
            });
            above = Some((own, step));
        }
        match above {
            Some((parents, step)) => locator.child(parents, step),
            None => locator.root(),
        }
    }

    fn report_surrogate(&mut self, token: &str) {
        let expected = "Unicode text, in which \\uD800 to \\uDFFF only come as pairs";
        self.report(|pointer| Violation::mismatch(pointer, expected, truncate(token, 80)));
    }

    fn report_too_long(&mut self, what: &str, bytes: usize) {
        let expected = format!("{what} of at most {} bytes", self.caps.string);
        self.report(|pointer| Violation::mismatch(pointer, expected, format!("{bytes} bytes")));
    }

    fn check_number(&mut self, token: &str) {
        if let Err(error) = number::check(token) {
            self.report(|pointer| number_violation(pointer, error, token));
        }
    }

    fn report(&mut self, violation: impl FnOnce(String) -> Violation) {
        if self.found.len() < self.cap {
            let pointer = self.levels.iter().fold(String::new(), |path, level| match &level.step {
                Step::Name(name) => path + "/" + &escape(name),
                Step::Index(index) => format!("{path}/{index}"),
            });
            self.found.push(violation(pointer));
        } else {
            self.more += 1;
        }
    }
}

fn reserved_name_violation(pointer: String) -> Violation {
    let sentence = "this name is reserved for a library of the host; use another one";
    Violation::plain(pointer, "a name that is not reserved", sentence)
}

fn number_violation(pointer: String, error: NumberError, literal: &str) -> Violation {
    let expected = match error {
        NumberError::Range => "a number within the range of a 64-bit float".to_owned(),
        NumberError::Digits => format!("a number of at most {MAX_NUMBER_BYTES} bytes"),
    };
    Violation::mismatch(pointer, expected, truncate(literal, 80))
}

/// Returns the length of the string token that the text starts with, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Finds the caps that [`super::strict::measure`] found exceeded in a value.
///
/// # Errors
/// All exceeded caps that the schema does not allow.
pub(super) fn explain_value(
    document: &Value,
    caps: Caps,
    cap: usize,
    mut locator: Locator<'_>,
) -> Result<(), Violations> {
    let mut found = CappedViolations { cap, violations: Vec::new(), more: 0 };
    // Without recursion: the value may be deeper than the stack is.
    let mut pending = vec![(document, 0, String::new())];
    let mut bytes = 0_usize;
    while let Some((value, depth, pointer)) = pending.pop() {
        bytes += 1;
        if (value.is_array() || value.is_object()) && depth == caps.depth {
            let expected = format!("at most {} levels of arrays and objects", caps.depth);
            found.add(Violation::mismatch(pointer, expected, "one more level"));
            continue;
        }
        match value {
            Value::String(text) => {
                bytes += text.len();
                if text.len() > caps.string {
                    let schemas = locator.at(document, &pointer);
                    if !locator.can_be_long(&schemas) {
                        found.add(too_long_violation("a string", text, caps, &pointer));
                    }
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                pending.extend(items.map(|(index, item)| (item, depth + 1, format!("{pointer}/{index}"))));
            }
            Value::Object(members) => {
                for (name, member) in members.iter().rev() {
                    bytes += name.len();
                    let pointer = format!("{pointer}/{}", escape(name));
                    if name.len() > caps.string {
                        found.add(too_long_violation("a name", name, caps, &pointer));
                    }
                    if is_reserved_name(name) {
                        found.add(reserved_name_violation(pointer.clone()));
                    }
                    pending.push((member, depth + 1, pointer));
                }
            }
            Value::Number(number) => {
                if let Err(error) = number::check(number.as_str()) {
                    found.add(number_violation(pointer, error, number.as_str()));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        if bytes > caps.text {
            let expected = format!("a value of at most {} bytes", caps.text);
            found.add(Violation::mismatch(String::new(), expected, "more than that"));
            break;
        }
    }
    found.into_result()
}

/// The first violations of a document, and the number of the others.
struct CappedViolations {
    cap: usize,
    violations: Vec<Violation>,
    more: usize,
}

impl CappedViolations {
    fn add(&mut self, violation: Violation) {
        if self.violations.len() < self.cap { self.violations.push(violation) } else { self.more += 1 }
    }

    fn into_result(self) -> Result<(), Violations> {
        if self.violations.is_empty() {
            return Ok(());
        }
        Err(Violations { violations: self.violations, more: self.more })
    }
}

fn too_long_violation(what: &str, text: &str, caps: Caps, pointer: &str) -> Violation {
    let expected = format!("{what} of at most {} bytes", caps.string);
    Violation::mismatch(pointer.to_owned(), expected, format!("{} bytes", text.len()))
}
