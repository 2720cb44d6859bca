//! Items that are to be appended: prepared before the transaction, and planned when its head is known.

use std::collections::HashMap;

use fumehood_core::record::{Record, RecordKind};
use fumehood_core::saved_session::SessionEntry;

use crate::error::StorageError;
use crate::event_log::anchor;
use crate::event_log::chain::{self, Hash, Mark};
use crate::event_log::port::Outcome;
use crate::event_log::queue::Rows;
use crate::event_log::row;
use crate::event_log::sessions;

/// Maximum size of the body of a record, in bytes: a quarter of what one value may have.
const MAX_BODY_BYTES: usize = 256 << 20;

/// A record as its columns.
#[derive(Debug)]
pub(super) struct PreparedRecord {
    pub(super) record: Record,
    pub(super) at: i64,
    pub(super) kind: RecordKind,
    pub(super) body: String,
    pub(super) model_call: Option<String>,
    pub(super) content: Hash,
}

/// A record, or why it cannot be written.
type PreparationResult = Result<PreparedRecord, String>;

/// An item that is written as a whole.
#[derive(Debug)]
pub(super) enum Item {
    Record(Box<PreparationResult>),
    Entry(SessionEntry, Vec<PreparationResult>),
}

impl Item {
    /// Prepares an item, which may then cross threads.
    pub(super) fn prepare(rows: &Rows) -> Self {
        match rows {
            Rows::Record(record) => Self::Record(Box::new(prepare(record))),
            Rows::Entry(entry, records) => Self::Entry(entry.as_ref().clone(), records.iter().map(prepare).collect()),
        }
    }

    /// Returns the records that can be written.
    pub(super) fn records(&self) -> impl Iterator<Item = &PreparedRecord> {
        let records = match self {
            Self::Record(record) => std::slice::from_ref(record.as_ref()),
            Self::Entry(_, records) => records,
        };
        records.iter().filter_map(|record| record.as_ref().ok())
    }
}

fn prepare(record: &Record) -> PreparationResult {
    let body = serde_json::to_string(&record.body)
        .map_err(|error| format!("cannot write the body of record {}: {error}", record.id))?;
    if body.len() > MAX_BODY_BYTES {
        return Err(StorageError::TooLarge.to_string());
    }
    let cells = row::to_cells(record, &body);
    let has_nul = |cell: &chain::Cell<'_>| matches!(cell, chain::Cell::Text(text) if text.contains(&0));
    if cells.iter().any(has_nul) {
        return Err(format!("the record {:?} has a NUL character, which PostgreSQL cannot store", record.id));
    }
    let content = chain::content_hash(&cells);
    let model_call = model_call(&record.body).map(str::to_owned);
    // The body is in its text already.
    let record = Record { body: serde_json::Value::Null, ..record.clone() };
    Ok(PreparedRecord { at: row::to_sql(record.at.0), kind: record.kind, record, body, model_call, content })
}

/// Returns the id that the model gave to the call of a record, for the column that it is found by.
pub(super) fn model_call(body: &serde_json::Value) -> Option<&str> {
    let id = body.get("model_call").and_then(serde_json::Value::as_str);
    id.filter(|id| !id.contains('\0'))
}

/// Records and entries that the database has already.
#[derive(Debug, Default)]
pub(super) struct KnownRows {
    /// Hashes of contents by the ids of records.
    pub(super) ids: HashMap<String, Vec<u8>>,
    /// Contents of entries by their sessions and numbers.
    pub(super) entries: HashMap<(String, i64), String>,
}

/// A record with its place in the chain.
pub(super) struct NewRow<'a> {
    pub(super) record: &'a PreparedRecord,
    pub(super) mark: Mark,
}

/// The rows that a transaction writes.
pub(super) struct Plan<'a> {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) rows: Vec<NewRow<'a>>,
    pub(super) anchors: Vec<(Mark, &'static str)>,
    pub(super) entries: Vec<&'a SessionEntry>,
    pub(super) head: Mark,
}

impl<'a> Plan<'a> {
    /// Links all records of the items that are not there yet to the head.
    pub(super) fn new(items: &'a [Item], known: KnownRows, head: Mark) -> Self {
        let mut plan = Self { outcomes: Vec::new(), rows: Vec::new(), anchors: Vec::new(), entries: Vec::new(), head };
        let KnownRows { mut ids, mut entries } = known;
        for item in items {
            let outcome = match item {
                Item::Record(record) => plan.add(&mut ids, record),
                Item::Entry(entry, records) => {
                    let mut outcome = plan.add_entry(&mut entries, entry);
                    if outcome.is_ok() {
                        for record in records {
                            outcome = outcome.and(plan.add(&mut ids, record));
                        }
                    }
                    outcome
                }
            };
            plan.outcomes.push(outcome);
        }
        plan
    }

    fn add(&mut self, ids: &mut HashMap<String, Vec<u8>>, record: &'a PreparationResult) -> Outcome {
        let record = record.as_ref().map_err(Clone::clone)?;
        let id = &record.record.id;
        match ids.get(id) {
            // It was sent again after a failure.
            Some(kept) if *kept == record.content.0 => return Ok(()),
            Some(_) => {
                return Err(format!("the id {id} belongs to another record; ids of records must be unique"));
            }
            None => {}
        }
        ids.insert(id.clone(), record.content.0.to_vec());
        let seq = self.head.seq.saturating_add(1);
        self.head = Mark { seq, hash: chain::row_hash(self.head.hash, seq, record.content) };
        self.rows.push(NewRow { record, mark: self.head });
        self.anchors.extend(anchor::reason_at(seq, record.kind).map(|reason| (self.head, reason)));
        Ok(())
    }

    fn add_entry(&mut self, entries: &mut HashMap<(String, i64), String>, entry: &'a SessionEntry) -> Outcome {
        if entry.session.contains('\0') || entry.content.contains('\0') {
            return Err("the session has a NUL character, which PostgreSQL cannot store".to_owned());
        }
        let key = (entry.session.clone(), row::to_sql(entry.number));
        if let Some(kept) = entries.get(&key) {
            return sessions::compare_repeated(entry, Some(kept));
        }
        entries.insert(key, entry.content.clone());
        self.entries.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn record(id: &str) -> Record {
        Record {
            id: id.to_owned(),
            parent: None,
            session: "s".to_owned(),
            at: Timestamp(1),
            kind: RecordKind::ToolFinished,
            actor: None,
            tool: None,
            digest: None,
            call: None,
            status: None,
            body: json!({"model_call": id}),
        }
    }

    fn item(record: Record) -> Item {
        Item::prepare(&Rows::Record(Box::new(record)))
    }

    fn begin() -> Mark {
        Mark { seq: 0, hash: chain::genesis_hash(&[1; 16]) }
    }

    #[test]
    fn records_that_are_there_are_linked_once() {
        let items = ["a", "b", "a", "c"].map(|id| item(record(id)));
        let known = item(record("b")).records().next().unwrap().content.0.to_vec();
        let known = KnownRows { ids: [("b".to_owned(), known)].into(), ..KnownRows::default() };
        let plan = Plan::new(&items, known, begin());
        assert_eq!(plan.outcomes, [Ok(()), Ok(()), Ok(()), Ok(())]);
        let written: Vec<_> = plan.rows.iter().map(|row| (row.mark.seq, row.record.record.id.as_str())).collect();
        assert_eq!(written, [(1, "a"), (2, "c")]);
        assert_eq!(plan.head, plan.rows[1].mark);
    }

    #[test]
    fn another_record_with_the_same_id_is_refused_alone() {
        let items = [item(record("a")), item(Record { tool: Some("t".to_owned()), ..record("a") }), item(record("b"))];
        let plan = Plan::new(&items, KnownRows::default(), begin());
        assert!(plan.outcomes[1].as_ref().unwrap_err().contains("belongs to another record"));
        assert_eq!((plan.rows.len(), plan.head.seq), (2, 2));
    }

    #[test]
    fn nul_characters_are_refused_unless_json_escapes_them() {
        let items = [
            item(Record { actor: Some("a\0b".to_owned()), ..record("a") }),
            item(Record { body: json!({"text": "a\0b", "model_call": "a\0b"}), ..record("b") }),
        ];
        let plan = Plan::new(&items, KnownRows::default(), begin());
        assert!(plan.outcomes[0].as_ref().unwrap_err().contains("NUL"));
        assert_eq!((plan.rows.len(), &plan.rows[0].record.model_call), (1, &None));
    }

    #[test]
    fn entry_of_another_process_is_refused_with_its_records() {
        let items = [prepare_entry("one"), prepare_entry("one"), prepare_entry("two")];
        let plan = Plan::new(&items, KnownRows::default(), begin());
        assert_eq!((plan.entries.len(), plan.rows.len()), (1, 1));
        assert!(plan.outcomes[1].is_ok());
        assert!(plan.outcomes[2].as_ref().unwrap_err().contains("was continued by another process"));
    }

    fn prepare_entry(content: &str) -> Item {
        let entry = SessionEntry { session: "s".to_owned(), number: 0, at: Timestamp(1), content: content.to_owned() };
        Item::prepare(&Rows::Entry(Box::new(entry), vec![record(content)]))
    }

    #[test]
    fn anchors_are_due_where_a_session_ends() {
        let items = [item(record("a")), item(Record { kind: RecordKind::SessionFinished, ..record("b") })];
        let plan = Plan::new(&items, KnownRows::default(), Mark { seq: 1022, ..begin() });
        let due: Vec<_> = plan.anchors.iter().map(|(mark, reason)| (mark.seq, *reason)).collect();
        assert_eq!(due, [(1024, "rows")], "one anchor for a row, as in a file");
        let plan = Plan::new(&items, KnownRows::default(), begin());
        assert_eq!(plan.anchors, [(plan.head, "session")]);
    }
}
