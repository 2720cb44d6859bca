//! The approved way to start or reach a server.

use serde_json::Value;

use super::PinError;
use crate::digest::Digest;
use crate::schema::json;

/// Domain separation: the prefix of the hashed text, so that the hash has no other meaning.
const ENTRY_DOMAIN: &str = "fumehood server entry 1\n";

/// The approved configuration of a server: its command line or URL, one line for each word.
///
/// It is approved before the server is started or contacted for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pin: Digest,
    lines: Vec<String>,
}

impl Entry {
    /// Approves `lines`.
    #[must_use]
    pub fn new(lines: Vec<String>) -> Self {
        // Texts always have a JSON form.
        let text = json::to_canonical_text(&Value::from(lines.clone()));
        Self { pin: Digest::of(format!("{ENTRY_DOMAIN}{text}").as_bytes()), lines }
    }

    /// Restores a stored approval from its lines and the hash stored with them.
    ///
    /// # Errors
    /// If the hash does not match.
    pub fn from_parts(pin: Digest, lines: Vec<String>) -> Result<Self, PinError> {
        match Self::new(lines) {
            entry if entry.pin == pin => Ok(entry),
            entry => Err(PinError { written: pin, found: entry.pin }),
        }
    }

    /// Returns the hash over all lines.
    #[must_use]
    pub fn pin(&self) -> Digest {
        self.pin
    }

    /// Returns the approved lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_edited_lines() {
        let entry = Entry::new(vec!["run: [\"a\"]".to_owned()]);
        assert_eq!(Entry::from_parts(entry.pin(), entry.lines().to_vec()), Ok(entry.clone()));
        let error = Entry::from_parts(entry.pin(), vec!["run: [\"b\"]".to_owned()]).unwrap_err();
        assert_eq!(error.written, entry.pin());
    }
}
