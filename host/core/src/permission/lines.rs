//! A grant as lines of a policy: to show, to compare and to pin. One grant has one text.

use std::path::Path;

use super::{Grant, Power};

impl Grant {
    /// One line for each thing that is granted, as a policy would have it, sorted. Values of secrets are not in them.
    ///
    /// Folders below `base` are written relative to it, so that a policy means the same wherever it is checked out.
    #[must_use]
    pub fn lines(&self, base: Option<&Path>) -> Vec<String> {
        let _ = base;
        let mut lines = Vec::new();
        if self.state() {
            lines.push("state = true".to_owned());
        }
        lines.sort();
        lines
    }

    /// Whether anything of that sort is granted.
    #[must_use]
    pub fn has(&self, power: Power) -> bool {
        match power {
            Power::State => self.state(),
            Power::Clock | Power::Random | Power::Sockets => false,
            Power::Files | Power::Http | Power::Env | Power::Args | Power::Secrets | Power::KeyValue => false,
        }
    }
}

impl Power {
    /// What a line of a policy that grants it looks like; `None` if nobody can be granted it.
    #[must_use]
    pub fn example(self) -> Option<&'static str> {
        match self {
            Self::Files => Some("read = [\"./FOLDER:/FOLDER\"]"),
            Self::Http => Some("http = [\"GET https://HOST/**\"]"),
            Self::Env => Some("env = { NAME = \"VALUE\" }"),
            Self::Args => Some("args = [\"ARGUMENT\"]"),
            Self::Secrets => {
                Some("secrets = [{ name = \"NAME\", from = { env = \"VARIABLE\" }, for = \"https://HOST/**\" }]")
            }
            Self::Clock => Some("clock = \"1us\""),
            Self::Random => Some("random_seed = 1"),
            Self::KeyValue => Some("key_value = \"1MiB\""),
            Self::State => Some("state = true"),
            Self::Sockets => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_lines() {
        assert!(Grant::none().lines(None).is_empty());
        assert_eq!(Grant::none().with_state().lines(None), ["state = true"]);
        assert!(Grant::none().with_state().has(Power::State) && !Grant::none().has(Power::State));
    }
}
