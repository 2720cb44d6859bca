//! Grants of capabilities, and capabilities as the runtime keeps them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value as Json;

use super::{Capability, CapabilitySession};
use crate::schema::json::to_canonical_text;
use crate::text::sanitize::printable;
use crate::tool::ToolFlow;

/// Maximum length of the name of a capability, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum size of a grant as JSON text, in bytes.
const MAX_GRANT_BYTES: usize = 64 << 10;

/// A capability that is granted to a component, with what the operator allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityGrant {
    name: String,
    value: Json,
    description: String,
    flow: ToolFlow,
}

/// Errors of a grant of a capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityGrantError {
    /// The name is invalid.
    #[error("invalid name of a capability `{0}`; expected lowercase words with hyphens, such as `orders-database`")]
    Name(String),
    /// The value has no JSON form, or its text is too large.
    #[error("the grant of the capability `{name}` cannot be used: {reason}")]
    Value {
        /// The name of the capability.
        name: String,
        /// What was wrong.
        reason: String,
    },
    /// The capability is granted twice.
    #[error("the capability `{0}` is granted twice; expected one grant of each")]
    Duplicate(String),
}

/// The error of a capability that a host cannot link, or of a grant that does not fit it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the capability `{name}` cannot be used: {reason}")]
pub struct CapabilitySetupError {
    /// The name of the capability.
    pub name: String,
    /// What was wrong.
    pub reason: String,
}

impl CapabilitySetupError {
    /// Creates the error of the capability with this name.
    pub fn new(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { name: name.into(), reason: reason.into() }
    }
}

impl CapabilityGrant {
    /// Creates a grant without a description. [`Capability::grant`] adds one.
    ///
    /// # Errors
    /// If the name is invalid, or the value has no JSON text of at most 64 KiB.
    pub fn new(name: &str, value: &impl Serialize) -> Result<Self, CapabilityGrantError> {
        if !is_name(name) {
            return Err(CapabilityGrantError::Name(printable(name).into_owned()));
        }
        let wrong = |reason: String| CapabilityGrantError::Value { name: name.to_owned(), reason };
        let value = serde_json::to_value(value).map_err(|error| wrong(error.to_string()))?;
        let size = to_canonical_text(&value).len();
        if size > MAX_GRANT_BYTES {
            return Err(wrong(format!("it has {size} bytes as JSON; the maximum is {MAX_GRANT_BYTES}")));
        }
        let description = format!("use the capability {name}");
        Ok(Self { name: name.to_owned(), value, description, flow: ToolFlow::NONE })
    }

    /// Sets the phrase for people, and the flows of data.
    pub(super) fn describe(self, description: &str, flow: ToolFlow) -> Self {
        Self { description: printable(description).into_owned(), flow, ..self }
    }

    /// Returns the name of the capability.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the operator allows, as JSON.
    #[must_use]
    pub fn value(&self) -> &Json {
        &self.value
    }

    /// Returns the line that approvals pin. Equal grants have equal lines.
    #[must_use]
    pub fn line(&self) -> String {
        format!("capability {}: {}", self.name, to_canonical_text(&self.value))
    }

    /// Returns what a tool can do with it, as a phrase for models and people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the flows of data of a tool with this grant.
    #[must_use]
    pub fn flow(&self) -> ToolFlow {
        self.flow
    }
}

/// Returns whether a text is the name of a capability.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && name.split('-').all(is_word)
}

fn is_word(word: &str) -> bool {
    let is_letter_or_digit = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.bytes().all(is_letter_or_digit)
}

/// A capability of any type. Cheap to clone.
#[derive(Clone)]
pub struct CapabilityDefinition(Arc<dyn ErasedCapability>);

/// A capability with a grant, ready to be opened by calls. Cheap to clone.
#[derive(Clone)]
pub struct BoundCapability(Arc<dyn Fn() -> Box<dyn CapabilitySession> + Send + Sync>);

impl CapabilityDefinition {
    /// Wraps a capability.
    pub fn new(capability: impl Capability) -> Self {
        Self(Arc::new(Erased(Arc::new(capability))))
    }

    /// See [`Capability::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`Capability::description`].
    #[must_use]
    pub fn description(&self) -> &str {
        self.0.description()
    }

    /// See [`Capability::wit`].
    #[must_use]
    pub fn wit(&self) -> &str {
        self.0.wit()
    }

    /// See [`Capability::grant_schema`].
    #[must_use]
    pub fn grant_schema(&self) -> Option<Json> {
        self.0.grant_schema()
    }

    /// Reads a grant of this capability.
    ///
    /// # Errors
    /// If its value does not fit the type of the grant. The text says why.
    pub fn bind(&self, grant: &CapabilityGrant) -> Result<BoundCapability, String> {
        self.0.bind(grant.value())
    }
}

impl fmt::Debug for CapabilityDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CapabilityDefinition").field(&self.name()).finish()
    }
}

impl BoundCapability {
    /// Creates a capability whose sessions are opened by a function.
    pub fn new(open: impl Fn() -> Box<dyn CapabilitySession> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// Opens a session for one call.
    #[must_use]
    pub fn open(&self) -> Box<dyn CapabilitySession> {
        (self.0)()
    }
}

impl fmt::Debug for BoundCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundCapability").finish_non_exhaustive()
    }
}

/// A capability without the type of its grant.
trait ErasedCapability: Send + Sync {
    fn name(&self) -> &str;
    fn description(&self) -> &str;
    fn wit(&self) -> &str;
    fn grant_schema(&self) -> Option<Json>;
    fn bind(&self, grant: &Json) -> Result<BoundCapability, String>;
}

struct Erased<C>(Arc<C>);

impl<C: Capability> ErasedCapability for Erased<C> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn wit(&self) -> &str {
        self.0.wit()
    }

    fn grant_schema(&self) -> Option<Json> {
        self.0.grant_schema()
    }

    fn bind(&self, grant: &Json) -> Result<BoundCapability, String> {
        // From text, because numbers in a `Value` keep their digits and are not read as every type.
        let grant: C::Grant = serde_json::from_str(&grant.to_string()).map_err(|error| error.to_string())?;
        let grant = Arc::new(grant);
        let capability = Arc::clone(&self.0);
        Ok(BoundCapability::new(move || capability.open(Arc::clone(&grant))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_grants_have_equal_lines_of_one_line() {
        let line = |value: Json| CapabilityGrant::new("orders", &value).unwrap().line();
        assert_eq!(line(json!({"b": [1], "a": "x\ny"})), line(json!({"a": "x\ny", "b": [1]})));
        assert_eq!(line(json!({"a": "x\ny"})), r#"capability orders: {"a":"x\ny"}"#);
    }

    #[test]
    fn rejects_names_that_could_be_mistaken() {
        for name in ["", "Orders", "a b", "-a", "a-", "a_b", "ä", &"a".repeat(65)] {
            assert!(matches!(CapabilityGrant::new(name, &()), Err(CapabilityGrantError::Name(_))), "{name}");
        }
        assert!(CapabilityGrant::new("orders-db2", &()).is_ok());
        assert!(matches!(CapabilityGrant::new("a", &"x".repeat(70 << 10)), Err(CapabilityGrantError::Value { .. })));
    }
}
