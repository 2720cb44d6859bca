//! The handles of one session.

use std::collections::HashMap;

/// The values behind the handles that a session has given to a tool.
///
/// Numbers are not used again, so a handle that was dropped never names another value.
#[derive(Debug)]
pub struct HandleTable<T> {
    values: HashMap<u32, T>,
    next: u32,
}

/// The error of a handle that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tool used a handle that it does not own")]
pub struct HandleError;

impl<T> HandleTable<T> {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { values: HashMap::new(), next: 1 }
    }

    /// Adds a value and returns its handle.
    ///
    /// # Errors
    /// If all numbers were used.
    pub fn insert(&mut self, value: T) -> Result<u32, HandleError> {
        let handle = self.next;
        self.next = handle.checked_add(1).ok_or(HandleError)?;
        self.values.insert(handle, value);
        Ok(handle)
    }

    /// Returns the value of a handle.
    ///
    /// # Errors
    /// If the handle is not in the table.
    pub fn get_mut(&mut self, handle: u32) -> Result<&mut T, HandleError> {
        self.values.get_mut(&handle).ok_or(HandleError)
    }

    /// Removes the value of a handle.
    ///
    /// # Errors
    /// If the handle is not in the table.
    pub fn remove(&mut self, handle: u32) -> Result<T, HandleError> {
        self.values.remove(&handle).ok_or(HandleError)
    }

    /// Returns the number of handles in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether the table has no handles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_handle_never_names_another_value() {
        let mut table = HandleTable::new();
        let first = table.insert("first").unwrap();
        assert_eq!(table.remove(first), Ok("first"));
        let second = table.insert("second").unwrap();
        assert_ne!(first, second);
        assert_eq!(table.get_mut(first), Err(HandleError));
        assert_eq!(table.remove(first), Err(HandleError));
        assert_eq!(table.get_mut(second), Ok(&mut "second"));
        assert_eq!(table.len(), 1);
    }
}
