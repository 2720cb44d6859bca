//! What every hook says of itself, hooks made of functions, and hooks in the order in which they run.

use std::sync::Arc;

use super::fields::Field;

/// What every hook says of itself.
pub trait Hook: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// Hooks of higher priority run first; those of the same in the order in which they were added.
    fn priority(&self) -> i32 {
        0
    }

    /// What it may change. Changes of anything else are undone.
    fn changes(&self) -> &[Field] {
        &[]
    }
}

/// A hook made of a function that does not wait: before calls, if it takes a [`super::ToolUse`] and gives a
/// [`super::Before`]; after them, if it takes a [`super::ToolUsed`] and gives an [`super::After`].
pub struct HookFn<F> {
    name: String,
    priority: i32,
    changes: Vec<Field>,
    pub(super) run: F,
}

impl<F> HookFn<F> {
    /// A hook of this name that may change these fields.
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

/// Hooks, in order of priority.
pub struct Hooks<H: ?Sized>(pub(super) Vec<Arc<H>>);

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

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
