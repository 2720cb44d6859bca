//! What a hook may change, and what is done when it changes more.

/// A part of a call that a hook may declare that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Which tool is called.
    Tool,
    /// Its arguments.
    Arguments,
    /// The agent's state.
    State,
    /// The result.
    Result,
}

impl Field {
    /// The name that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Arguments => "arguments",
            Self::State => "state",
            Self::Result => "result",
        }
    }
}

/// A hook changed what it does not declare. The change was undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the hook '{hook}' changed `{}`, which it does not declare; the change was undone: declare it", field.as_str())]
pub struct Diagnosis {
    /// Which hook.
    pub hook: String,
    /// What it changed.
    pub field: Field,
}

/// Puts back what was changed without being declared.
pub(super) fn hold<T: PartialEq>(
    hook: &str,
    declared: &[Field],
    field: Field,
    now: &mut T,
    was: T,
    found: &mut Vec<Diagnosis>,
) -> bool {
    if *now == was {
        return false;
    }
    if declared.contains(&field) {
        return true;
    }
    *now = was;
    found.push(Diagnosis { hook: hook.to_owned(), field });
    false
}
