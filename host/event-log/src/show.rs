//! One call with its causal chain: what led to it, what happened to it, and what came of it.

use std::collections::BTreeSet;

use rusqlite::types::Value;

use crate::filter::{Filter, Order};
use crate::reader::{ReadError, Reader};
use crate::row::{CELLS, Stored};

/// How long a causal chain may be. A longer one was not made by a session.
const LONGEST: i64 = 10_000;

/// One call of one session.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CallHistory {
    /// The session that made it.
    pub session: String,
    /// What led to it, from the start of the session on, as far as it is still there.
    pub before: Vec<Stored>,
    /// What is recorded about the call itself, in order.
    pub call: Vec<Stored>,
    /// What followed from it, in order.
    pub after: Vec<Stored>,
}

impl Reader {
    /// Returns the call of this id with its history. If there is none, returns the calls that a model gave this id, the newest
    /// first: models reuse ids, in one session, too. `session` narrows both.
    ///
    /// # Errors
    /// The database cannot be read, or a row holds no record.
    pub fn show(&self, call: &str, session: Option<&str>) -> Result<Vec<CallHistory>, ReadError> {
        let newest = Filter { session: session.map(str::to_owned), order: Order::Descending, ..Filter::default() };
        let mut left = self.query(&Filter { call: Some(call.to_owned()), ..newest.clone() })?;
        if left.is_empty() {
            left = self.query(&Filter { model_call: Some(call.to_owned()), ..newest })?;
        }
        let key = |row: &Stored| (row.record.session.clone(), row.record.call.clone());
        let mut calls = Vec::new();
        while let Some(of) = left.first().map(key) {
            let (mut own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|row| key(row) == of);
            own.reverse();
            left = others;
            calls.push(self.history(of.0, own)?);
        }
        Ok(calls)
    }

    fn history(&self, session: String, call: Vec<Stored>) -> Result<CallHistory, ReadError> {
        let own: BTreeSet<u64> = call.iter().map(|row| row.seq).collect();
        let ids: Vec<String> = call.iter().map(|row| row.record.id.clone()).collect();
        // UNION drops what was found before, so that even a forged circle comes to an end.
        let up = "SELECT r.parent FROM chain JOIN records r ON r.id = chain.id WHERE r.parent IS NOT NULL";
        let down = "SELECT r.id FROM chain JOIN records r ON r.parent = chain.id";
        let mut before = self.chain(&ids, up)?;
        let mut after = self.chain(&ids, down)?;
        before.retain(|row| !own.contains(&row.seq));
        after.retain(|row| !own.contains(&row.seq) && !before.iter().any(|earlier| earlier.seq == row.seq));
        Ok(CallHistory { session, before, call, after })
    }

    fn chain(&self, ids: &[String], step: &str) -> Result<Vec<Stored>, ReadError> {
        let ids = serde_json::to_string(ids).unwrap_or_default();
        let sql = format!(
            "WITH RECURSIVE chain (id) AS (SELECT value FROM json_each(?1) UNION {step} LIMIT {LONGEST})
             SELECT seq, hash, {CELLS} FROM records WHERE id IN (SELECT id FROM chain) ORDER BY seq"
        );
        self.select(&sql, vec![Value::Text(ids)])
    }
}
