//! Properties that all hooks have, hooks made of functions, lists of hooks, and undeclared changes.

use std::fmt;
use std::sync::Arc;

/// Properties of a hook before or after calls.
pub trait Hook: Send + Sync {
    /// Returns the name of the hook in messages.
    fn name(&self) -> &str;

    /// Returns the priority. Hooks of higher priority run first, those of equal priority in the order in which they
    /// were added. Default: 0.
    fn priority(&self) -> i32 {
        0
    }

    /// Returns the fields that the hook may change. Changes of other fields are undone. Default: none.
    fn changes(&self) -> &[Field] {
        &[]
    }
}

/// A hook made of a function that does not wait.
///
/// It runs before calls if the function takes a [`super::ToolUse`] and returns a [`super::BeforeAction`], and after
/// calls if it takes a [`super::CompletedToolUse`] and returns an [`super::AfterAction`].
pub struct HookFn<F> {
    name: String,
    priority: i32,
    changes: Vec<Field>,
    pub(super) run: F,
}

impl<F> fmt::Debug for HookFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookFn").finish_non_exhaustive()
    }
}

impl<F> HookFn<F> {
    /// Creates a hook that may change the given fields.
    pub fn new(name: impl Into<String>, priority: i32, changes: &[Field], run: F) -> Self {
        Self { name: name.into(), priority, changes: changes.to_vec(), run }
    }
}

impl<F: Send + Sync> Hook for HookFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> i32 {
        self.priority
    }

    fn changes(&self) -> &[Field] {
        &self.changes
    }
}

/// A list of hooks, in order of priority.
pub struct Hooks<H: ?Sized>(pub(super) Vec<Arc<H>>);

impl<H: ?Sized> fmt::Debug for Hooks<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl<H: ?Sized> Default for Hooks<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H: Hook + ?Sized> Hooks<H> {
    /// Adds a hook.
    pub fn add(&mut self, hook: Arc<H>) {
        self.0.push(hook);
        self.0.sort_by_key(|hook| std::cmp::Reverse(hook.priority()));
    }

    /// Returns whether there are no hooks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A part of a call that a hook may declare that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The name of the tool.
    Tool,
    /// The arguments of the call.
    Arguments,
    /// The agent's state.
    State,
    /// The result of the call.
    Result,
}

impl Field {
    /// Returns the name of the field in messages.
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

/// A change of a field that the hook does not declare. The change was undone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the hook '{hook}' changed `{}` without declaring it, so the change was undone; declare it", field.as_str())]
pub struct UndeclaredChange {
    /// The name of the hook.
    pub hook: String,
    /// The field that it changed.
    pub field: Field,
}

/// Undoes a change that the hook did not declare. Returns whether the field is changed afterwards.
pub(super) fn undo_if_undeclared<T: PartialEq>(
    hook: &str,
    declared: &[Field],
    field: Field,
    current: &mut T,
    previous: T,
    undeclared: &mut Vec<UndeclaredChange>,
) -> bool {
    if *current == previous {
        return false;
    }
    if declared.contains(&field) {
        return true;
    }
    *current = previous;
    undeclared.push(UndeclaredChange { hook: hook.to_owned(), field });
    false
}
