//! A key-value store that persists across calls.
//!
//! All tools of a component share one store, to which no other component has access. It must be granted; otherwise
//! every operation is [`Denied`](StoreError::Denied). A key is 1 to 256 bytes of text without control characters, a
//! value has at most 64 KiB, and the operator sets a quota for all of them together.
//!
//! Each function is one atomic operation. Calls may run concurrently, and of two that set the same key the last one
//! wins.
//!
//! ```
//! use fumehood_guest::{ToolError, store};
//!
//! fn visit(name: &str) -> Result<u64, ToolError> {
//!     let key = format!("visits/{name}");
//!     let before = store::get(&key)?.and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<u64>().ok()).unwrap_or(0);
//!     store::set(&key, (before + 1).to_string())?;
//!     Ok(before + 1)
//! }
//!
//! assert_eq!((visit("Ada"), visit("Ada"), visit("Grace")), (Ok(1), Ok(2), Ok(1)));
//! let visitors: Result<Vec<String>, _> = store::keys("visits/").collect();
//! assert_eq!(visitors.unwrap(), ["visits/Ada", "visits/Grace"]);
//! ```

use std::error::Error;
use std::fmt;

use crate::{ToolError, host};

/// An error of an operation, which then changed nothing.
///
/// `?` converts it to a [`ToolError`] of the matching kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// This tool was not granted a store.
    Denied,
    /// The key, prefix or cursor is invalid.
    InvalidKey,
    /// The value is longer than 64 KiB.
    TooLarge,
    /// The store would exceed its quota. Each entry counts the bytes of its key and its value, and 64 more.
    Full,
    /// The store is temporarily unavailable, or damaged.
    Unavailable,
}

/// One page of the keys of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The keys, in byte order.
    pub keys: Vec<String>,
    /// The cursor of the next page; `None` if there are no more keys.
    pub next: Option<String>,
}

/// Returns the value of a key, or `None` if there is no such key.
///
/// # Errors
///
/// [`Denied`](StoreError::Denied), [`InvalidKey`](StoreError::InvalidKey) and [`Unavailable`](StoreError::Unavailable).
pub fn get(key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    host::get(key)
}

/// Sets the value of a key, and replaces any previous value.
///
/// # Errors
///
/// All of [`StoreError`].
pub fn set(key: &str, value: impl AsRef<[u8]>) -> Result<(), StoreError> {
    host::set(key, value.as_ref())
}

/// Removes a key with its value. Returns whether it existed.
///
/// # Errors
///
/// [`Denied`](StoreError::Denied), [`InvalidKey`](StoreError::InvalidKey) and [`Unavailable`](StoreError::Unavailable).
pub fn delete(key: &str) -> Result<bool, StoreError> {
    host::delete(key)
}

/// Returns the keys that begin with `prefix`, after those of the page that returned `cursor`: at most `limit`, and at
/// most 1000. A `limit` of 0 means 1000.
///
/// # Errors
///
/// [`Denied`](StoreError::Denied), [`InvalidKey`](StoreError::InvalidKey) and [`Unavailable`](StoreError::Unavailable).
pub fn page(prefix: &str, cursor: Option<&str>, limit: u32) -> Result<Page, StoreError> {
    host::list(prefix, cursor, limit)
}

/// Returns an iterator over all keys that begin with `prefix`, in byte order. They are fetched in pages; after an error
/// the iterator ends.
pub fn keys(prefix: impl Into<String>) -> Keys {
    Keys { prefix: prefix.into(), page: Vec::new().into_iter(), next: Next::First }
}

/// The iterator that [`keys`] returns.
#[derive(Debug)]
pub struct Keys {
    prefix: String,
    page: std::vec::IntoIter<String>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    After(String),
    End,
}

impl Iterator for Keys {
    type Item = Result<String, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.page.next() {
                return Some(Ok(key));
            }
            let found = match std::mem::replace(&mut self.next, Next::End) {
                Next::First => page(&self.prefix, None, 0),
                Next::After(cursor) => page(&self.prefix, Some(&cursor), 0),
                Next::End => return None,
            };
            match found {
                Ok(found) => {
                    self.page = found.keys.into_iter();
                    self.next = found.next.map_or(Next::End, Next::After);
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Denied => "this tool has no key-value store; the operator can grant one",
            Self::InvalidKey => "a key must be 1 to 256 bytes of text without control characters",
            Self::TooLarge => "a value in the store has at most 64 KiB; keep less under one key",
            Self::Full => "the store of this tool is full; delete something first",
            Self::Unavailable => "the store of this tool cannot be reached just now; try again later",
        })
    }
}

impl Error for StoreError {}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Denied => Self::denied(error),
            StoreError::InvalidKey | StoreError::TooLarge => Self::invalid_arguments(error),
            StoreError::Full => Self::failed(error),
            StoreError::Unavailable => Self::unavailable(error),
        }
    }
}
