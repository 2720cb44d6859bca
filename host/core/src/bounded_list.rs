//! Lists of bounded length in messages between processes.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Bytes of a list that are allocated before its elements are read: a claimed length allocates no more.
const MAX_RESERVED_BYTES: usize = 4 << 10;

/// A list of at most `MAX` elements.
///
/// A longer one fails as soon as its next element is read. Elements may take a few bytes in a message and many times that in memory,
/// so the size of the message does not bound its cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BoundedList<T, const MAX: usize>(Vec<T>);

/// The error of a list with more elements than its type allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a list has {found} elements; the maximum is {max}")]
pub struct ListTooLong {
    /// The number of elements, as far as they were counted.
    pub found: usize,
    /// The maximum number.
    pub max: usize,
}

impl<T, const MAX: usize> BoundedList<T, MAX> {
    /// Collects the first `MAX` elements.
    pub fn truncate_from(elements: impl IntoIterator<Item = T>) -> Self {
        Self(elements.into_iter().take(MAX).collect())
    }
}

impl<T, const MAX: usize> Default for BoundedList<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> TryFrom<Vec<T>> for BoundedList<T, MAX> {
    type Error = ListTooLong;

    fn try_from(elements: Vec<T>) -> Result<Self, ListTooLong> {
        let found = elements.len();
        if found > MAX { Err(ListTooLong { found, max: MAX }) } else { Ok(Self(elements)) }
    }
}

impl<T, const MAX: usize> Deref for BoundedList<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> IntoIterator for BoundedList<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

/// Reads a list of at most `MAX` elements, for `#[serde(deserialize_with = "…")]` on a field.
///
/// # Errors
/// If it has more elements, or one is malformed.
pub fn deserialize<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    BoundedList::<T, MAX>::deserialize(deserializer).map(|list| list.0)
}

/// Reads a list element by element.
struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
    type Value = BoundedList<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let reserved = MAX_RESERVED_BYTES / size_of::<T>().max(1);
        let mut list = Vec::with_capacity(elements.size_hint().unwrap_or_default().min(reserved));
        while let Some(element) = elements.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::custom(ListTooLong { found: MAX.saturating_add(1), max: MAX }));
            }
            list.push(element);
        }
        Ok(BoundedList(list))
    }
}
