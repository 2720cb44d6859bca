//! Repairs of arguments that leave nothing to guess.
//!
//! Only violations are repaired: arguments that the gate accepts stay as they are. What was repaired passes the gate again
//! as a whole, or the call is refused as if nothing had been repaired.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::assertions::FailureKind;
use super::finding::Finding;
use super::format::truncate;
use super::graph::NodeId;
use super::locator::Locator;
use super::{Gate, explain, strict};

/// Names of arguments that clients are known to add by themselves: `toolCallId`, `sessionId`, `action` and `chatInput` are
/// n8n's (n8n-io/n8n#21716), `_sessionID` is SiYuan's (siyuan-note/siyuan#17927).
pub const DEFAULT_INJECTED: [&str; 5] = ["toolCallId", "sessionId", "action", "chatInput", "_sessionID"];

/// Maximum number of passes over the arguments. A text in a text needs two.
const MAX_PASSES: usize = 4;
/// Maximum number of violations that one pass repairs.
const MAX_VIOLATIONS: usize = 256;
/// Maximum number of repairs that are named one by one.
const MAX_REPORTED: usize = 32;
/// Maximum length of a pointer in a report, in bytes.
const MAX_POINTER_BYTES: usize = 200;

/// The repairs that arguments may get.
///
/// ```
/// use fumehood_core::schema::gate::{Gate, GateLimits, RepairPolicy};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = Gate::for_arguments(&json!({"properties": {"a": {"type": "integer"}}}), GateLimits::default())?;
/// // A client adds this property to every call.
/// let policy = RepairPolicy::new(["traceId"]);
/// let repaired = gate.repair(json!({"a": 3, "traceId": "f00"}), &policy);
/// assert_eq!(repaired.map(|repaired| repaired.value), Some(json!({"a": 3})));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairPolicy {
    injected: BTreeSet<String>,
}

impl RepairPolicy {
    /// Creates a policy that drops these arguments where a tool does not declare them.
    pub fn new(injected: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { injected: injected.into_iter().map(Into::into).collect() }
    }
}

impl Default for RepairPolicy {
    /// Returns a policy that drops [`DEFAULT_INJECTED`].
    fn default() -> Self {
        Self::new(DEFAULT_INJECTED)
    }
}

/// The kind of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// An array or object was written as a JSON text.
    ParsedText,
    /// An optional property was `null`, which its schema does not allow.
    DroppedNull,
    /// The client added an argument that the tool does not declare.
    DroppedInjected,
}

impl RepairKind {
    /// Returns the name in records and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParsedText => "parsed_text",
            Self::DroppedNull => "dropped_null",
            Self::DroppedInjected => "dropped_injected",
        }
    }
}

impl fmt::Display for RepairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A repair of arguments. It never holds a value of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// The location as a JSON pointer (RFC 6901), at most 200 bytes of it.
    pub pointer: String,
    /// The kind.
    pub kind: RepairKind,
}

/// Arguments that were repaired and then accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairedArguments {
    /// The arguments.
    pub value: Value,
    /// The repairs, in the order in which they were made; of many, the first 32.
    pub repairs: Vec<Repair>,
}

impl Gate {
    /// Repairs arguments that the gate has refused. Returns `None` if that takes a guess, or does not make them valid.
    ///
    /// - An array or object that is written as a JSON text is parsed where the schema takes no string.
    /// - `null` for an optional property that does not take it is left out.
    /// - An argument that the policy knows as injected is left out where the schema refuses it as undeclared.
    ///
    /// Takes at most four times as long as a check. Arguments that the gate accepts are not repaired.
    ///
    /// ```
    /// use fumehood_core::schema::gate::{Gate, GateLimits, RepairPolicy};
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"ids": {"type": "array"}}});
    /// let gate = Gate::for_arguments(&schema, GateLimits::default())?;
    /// let given = json!({"ids": "[1, 2]", "toolCallId": "x"});
    /// let repaired = gate.repair(given, &RepairPolicy::default()).unwrap();
    /// assert_eq!(repaired.value, json!({"ids": [1, 2]}));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn repair(&self, arguments: Value, policy: &RepairPolicy) -> Option<RepairedArguments> {
        let mut value = arguments;
        let mut repairs = Vec::new();
        for _ in 0..MAX_PASSES {
            let extent = strict::measure(&value, self.relaxed_caps())?;
            if self.costs.steps(extent) > self.limits.work {
                return None;
            }
            if self.validator.is_valid(&value) {
                // With the caps of a document, which this pass was without.
                let is_accepted = !repairs.is_empty() && self.check(&value).is_ok();
                return is_accepted.then_some(RepairedArguments { value, repairs });
            }
            let found = explain::find_for_repair(&self.graph, &self.patterns, &value, MAX_VIOLATIONS);
            let mut locator = Locator::new(&self.graph, &self.patterns);
            let mut is_repaired = false;
            for finding in &found {
                let Some(kind) = self.mend(&mut value, finding, policy, &mut locator) else { continue };
                is_repaired = true;
                if repairs.len() < MAX_REPORTED {
                    repairs.push(Repair { pointer: truncate(&finding.violation.pointer, MAX_POINTER_BYTES), kind });
                }
            }
            if !is_repaired {
                return None;
            }
        }
        None
    }

    /// Like [`Gate::repair`], for arguments as text. Returns `None` if it is not strict JSON.
    #[must_use]
    pub fn repair_text(&self, arguments: &str, policy: &RepairPolicy) -> Option<RepairedArguments> {
        // A text that is too long for a string may be an array or object that is not.
        self.repair(strict::read(arguments, self.relaxed_caps())?.value, policy)
    }

    /// Repairs the value that a finding is about, if that leaves nothing to guess.
    fn mend(
        &self,
        document: &mut Value,
        finding: &Finding,
        policy: &RepairPolicy,
        locator: &mut Locator<'_>,
    ) -> Option<RepairKind> {
        let pointer = finding.violation.pointer.as_str();
        if finding.violation.is_undeclared() {
            // Clients add their fields at the top.
            let name = pointer.strip_prefix('/').filter(|name| policy.injected.contains(*name))?;
            document.as_object_mut()?.shift_remove(name)?;
            return Some(RepairKind::DroppedInjected);
        }
        match document.pointer_mut(pointer)? {
            // One of another kind may be a string by its type.
            Value::String(text) if finding.kind == FailureKind::Type => {
                let parsed = self.parse_container(text)?;
                *document.pointer_mut(pointer)? = parsed;
                Some(RepairKind::ParsedText)
            }
            Value::Null => {
                let (holder, name) = pointer.rsplit_once('/')?;
                let name = name.replace("~1", "/").replace("~0", "~");
                let schemas = locator.at(document, holder);
                // The members of a map are data, and no optional properties.
                let declares = |id: &NodeId| self.graph.node(*id).is_some_and(|node| node.property(&name).is_some());
                if !schemas.iter().any(declares) {
                    return None;
                }
                document.pointer_mut(holder)?.as_object_mut()?.shift_remove(&name)?;
                Some(RepairKind::DroppedNull)
            }
            _ => None,
        }
    }

    /// Parses a text that is strict JSON of an array or object, and nothing else.
    fn parse_container(&self, text: &str) -> Option<Value> {
        let is_container = matches!(text.trim_ascii_start().bytes().next(), Some(b'[' | b'{'));
        is_container.then(|| strict::read(text, self.relaxed_caps()))?.map(|document| document.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::gate::GateLimits;

    fn gate(schema: Value) -> Gate {
        Gate::for_arguments(&schema, GateLimits::default()).unwrap()
    }

    fn check(gate: &Gate, given: Value, expected: Option<(Value, &[(&str, RepairKind)])>) {
        let expected = expected.map(|(value, repairs)| RepairedArguments {
            value,
            repairs: repairs
                .iter()
                .map(|(pointer, kind)| Repair { pointer: (*pointer).to_owned(), kind: *kind })
                .collect(),
        });
        let found = gate.repair(given.clone(), &RepairPolicy::default());
        assert_eq!(found, expected, "{given}");
        let from_text = gate.repair_text(&given.to_string(), &RepairPolicy::default());
        assert_eq!(from_text, expected, "{given}");
    }

    fn of_everything() -> Gate {
        gate(json!({
            "properties": {
                "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
                "item": {"$ref": "#/$defs/item"},
                "text": {"type": "string"},
                "short": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "array"}]},
                "maybe": {"anyOf": [{"type": "object", "properties": {"a": {"type": "array"}}}, {"type": "null"}]},
                "mode": {"enum": ["a", "b"]},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "count": {"type": "integer"},
                "needed": {"type": "integer"},
            },
            "required": ["needed"],
            "$defs": {"item": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "tags": {"type": "array"}, "next": {"$ref": "#/$defs/item"}},
                "required": ["id"],
            }},
        }))
    }

    #[test]
    fn parses_containers_that_are_written_as_text() {
        fn with_needed(name: &str, value: Value) -> Value {
            json!({"needed": 1, name: value})
        }

        use RepairKind::ParsedText;
        let gate = of_everything();
        for (name, text, parsed, pointer) in [
            ("list", r#"[{"id": 1}]"#, json!([{"id": 1}]), "/list"),
            (
                "item",
                r#" {"id": 12345678901234567890123} "#,
                serde_json::from_str("{\"id\":12345678901234567890123}").unwrap(),
                "/item",
            ),
            ("maybe", r#"{"a": []}"#, json!({"a": []}), "/maybe"),
        ] {
            check(&gate, with_needed(name, json!(text)), Some((with_needed(name, parsed), &[(pointer, ParsedText)])));
        }
        check(
            &gate,
            with_needed("list", json!([{"id": 1, "tags": "[]"}, {"id": 2}])),
            Some((with_needed("list", json!([{"id": 1, "tags": []}, {"id": 2}])), &[("/list/0/tags", ParsedText)])),
        );
        check(
            &gate,
            with_needed("item", json!({"id": 1, "next": r#"{"id": 2, "tags": "[1]"}"#})),
            Some((
                with_needed("item", json!({"id": 1, "next": {"id": 2, "tags": [1]}})),
                &[("/item/next", ParsedText), ("/item/next/tags", ParsedText)],
            )),
        );
        check(&gate, json!(r#"{"needed": 1}"#), Some((json!({"needed": 1}), &[("", ParsedText)])));
        let long = "x".repeat(11_000);
        let list = json!([long.get(..6000), long.get(..6000)]);
        let tags = with_needed("item", json!({"id": 1, "tags": list.to_string()}));
        check(&gate, tags, Some((with_needed("item", json!({"id": 1, "tags": list})), &[("/item/tags", ParsedText)])));
        for (name, value) in [
            ("list", json!("[1]")),
            ("list", json!("1, 2")),
            ("list", json!(r#"[{"id": 1, "id": 2}]"#)),
            ("list", json!(r#"["#)),
            ("short", json!("[1, 2]")),
            ("mode", json!(r#"["a"]"#)),
            ("count", json!("3")),
            ("item", json!({"id": 1, "tags": json!([long]).to_string()})),
        ] {
            check(&gate, with_needed(name, value), None);
        }
        // Valid, and what it looks like does not matter.
        check(&gate, with_needed("text", json!("[1]")), None);
    }

    #[test]
    fn drops_null_of_optional_properties() {
        use RepairKind::DroppedNull;
        let gate = of_everything();
        check(
            &gate,
            json!({"count": null, "needed": 1, "mode": null, "item": {"id": 1, "next": null}}),
            Some((
                json!({"needed": 1, "item": {"id": 1}}),
                &[("/count", DroppedNull), ("/mode", DroppedNull), ("/item/next", DroppedNull)],
            )),
        );
        check(&gate, json!({"needed": null}), None);
        check(&gate, json!({"needed": 1, "map": {"a": null}}), None);
        check(&gate, json!({"needed": 1, "list": [null]}), None);
        check(&gate, json!({"needed": 1, "other": null}), None);
        check(&gate, json!({"needed": 1, "maybe": null}), None);
    }

    #[test]
    fn drops_what_clients_add_where_it_is_not_declared() {
        use RepairKind::DroppedInjected;
        let closed = gate(json!({"properties": {"action": {"type": "string"}}}));
        check(
            &closed,
            json!({"toolCallId": "x", "action": "go", "_sessionID": 1}),
            Some((json!({"action": "go"}), &[("/toolCallId", DroppedInjected), ("/_sessionID", DroppedInjected)])),
        );
        check(&closed, json!({"toolCallID": "x"}), None);
        check(&of_everything(), json!({"needed": 1, "item": {"id": 1, "toolCallId": "x"}}), None);
        let open = gate(json!({"type": "object", "additionalProperties": true}));
        check(&open, json!({"toolCallId": "x"}), None);
        let own = RepairPolicy::new(["trace"]);
        let repaired = closed.repair(json!({"trace": 1}), &own);
        assert_eq!(repaired.map(|repaired| repaired.value), Some(json!({})));
        assert_eq!(closed.repair(json!({"toolCallId": 1}), &own), None);
    }

    #[test]
    fn repairs_alternatives_where_all_of_them_agree() {
        fn shape(kind: &str) -> Value {
            json!({"type": "object", "properties": {"n": {"type": "integer"}, "l": {"type": "array"}, kind: {}}, "required": [kind]})
        }

        let gate = gate(json!({"properties": {"s": {"anyOf": [shape("a"), shape("b"), {"type": "null"}]}}}));
        check(
            &gate,
            json!({"s": {"n": null, "l": "[]", "a": 1, "b": 2}}),
            Some((
                json!({"s": {"l": [], "a": 1, "b": 2}}),
                &[("/s/n", RepairKind::DroppedNull), ("/s/l", RepairKind::ParsedText)],
            )),
        );
    }

    #[test]
    fn names_no_more_repairs_than_a_report_holds() {
        let names: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
        let gate = gate(json!({ "properties": properties }));
        let nulls: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), Value::Null)).collect();
        let repaired = gate.repair(nulls.into(), &RepairPolicy::default()).unwrap();
        assert_eq!((repaired.value, repaired.repairs.len()), (json!({}), MAX_REPORTED));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Arguments that the gate accepts are left alone, and repaired ones are accepted.
        #[test]
        fn repairs_only_what_is_refused(
            list in prop_oneof![Just(json!([{"id": 1}])), Just(json!("[{\"id\": 1}]")), Just(json!("[]")), Just(json!(null)), Just(json!("x"))],
            count in prop_oneof![Just(json!(1)), Just(json!(1.0)), Just(json!(null)), Just(json!("1"))],
            text in prop_oneof![Just(json!("{}")), Just(json!("[1]")), Just(json!(null))],
            extra in prop_oneof![Just("toolCallId"), Just("text"), Just("other")],
        ) {
            let gate = of_everything();
            let given = json!({"needed": 1, "list": list, "count": count, "text": text, extra: "x"});
            let repaired = gate.repair(given.clone(), &RepairPolicy::default());
            if gate.check(&given).is_ok() {
                prop_assert_eq!(repaired, None);
            } else if let Some(repaired) = repaired {
                prop_assert!(gate.check(&repaired.value).is_ok());
            }
        }
    }
}
