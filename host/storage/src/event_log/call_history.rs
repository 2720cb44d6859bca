//! The history of one call: its own records, their causes and their effects.

use std::collections::BTreeSet;

use fumehood_core::text::abbreviation::abbreviate;

use super::filter::{Filter, Order};
use super::port::Kinship;
use super::reader::{ReadError, Reader};
use super::row::StoredRecord;

/// One call of a session, with the records before and after it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CallHistory {
    /// The session that made it.
    pub session: String,
    /// The records that led to the call, from the start of the session on, unless they were pruned.
    pub before: Vec<StoredRecord>,
    /// The records of the call itself, in order.
    pub call: Vec<StoredRecord>,
    /// The records that followed from the call, in order.
    pub after: Vec<StoredRecord>,
}

impl Reader {
    /// Returns the call with this id and its history. If there is none, returns the calls to which a model gave this
    /// id, newest first: models reuse ids, even in one session. `session` restricts both searches.
    ///
    /// # Errors
    /// If the database cannot be read, or a row does not contain a record.
    pub fn show(&self, call: &str, session: Option<&str>) -> Result<Vec<CallHistory>, ReadError> {
        let newest = Filter { session: session.map(str::to_owned), order: Order::Descending, ..Filter::default() };
        let mut left = self.query(&Filter { call: Some(call.to_owned()), ..newest.clone() })?;
        if left.is_empty() {
            left = self.query(&Filter { model_call: Some(call.to_owned()), ..newest })?;
        }
        let mut calls = Vec::new();
        while let Some(first) = left.first() {
            let session = first.record.session.clone();
            let call = first.record.call.clone();
            let (mut own, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|row| row.record.session == session && row.record.call == call);
            own.reverse();
            left = others;
            calls.push(self.history(session, own)?);
        }
        Ok(calls)
    }

    /// Returns the ids of calls that begin with `prefix`, in the order of their bytes; at most `max`.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn calls_with_prefix(&self, prefix: &str, max: usize) -> Result<Vec<String>, ReadError> {
        let mut found = self.source().calls_beside(prefix, Order::Ascending, max)?;
        found.retain(|call| call.starts_with(prefix));
        Ok(found)
    }

    /// Returns the shortest prefix of the id of a call by which [`Self::calls_with_prefix`] finds no other: see [`abbreviate`].
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn abbreviate_call<'c>(&self, call: &'c str) -> Result<&'c str, ReadError> {
        let mut beside = self.source().calls_beside(call, Order::Ascending, 1)?;
        beside.extend(self.source().calls_beside(call, Order::Descending, 1)?);
        Ok(abbreviate(call, beside.iter().map(String::as_str)))
    }

    fn history(&self, session: String, call: Vec<StoredRecord>) -> Result<CallHistory, ReadError> {
        let own: BTreeSet<u64> = call.iter().map(|row| row.seq).collect();
        let ids: Vec<String> = call.iter().map(|row| row.record.id.clone()).collect();
        let mut before = self.source().kin(&ids, Kinship::Ancestors)?;
        let mut after = self.source().kin(&ids, Kinship::Descendants)?;
        before.retain(|row| !own.contains(&row.seq));
        after.retain(|row| !own.contains(&row.seq) && !before.iter().any(|earlier| earlier.seq == row.seq));
        Ok(CallHistory { session, before, call, after })
    }
}
