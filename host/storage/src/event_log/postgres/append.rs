//! Appending: one transaction for all that has gathered, in two round trips.

use futures_util::future::{join, join3, try_join_all};

use super::Writer;
use super::batch::{Item, KnownRows, NewRow, Plan};
use crate::error::StorageError;
use crate::event_log::anchor::Sealer;
use crate::event_log::chain::{Hash, Mark};
use crate::event_log::port::Outcome;
use crate::event_log::row;
use crate::postgres::{BEGIN, Connection};

/// Maximum size of the bodies of one statement, in bytes, unless one body alone is larger.
const MAX_STATEMENT_BYTES: usize = 16 << 20;

/// Locks the log, and returns its last position and the head of a chain.
pub(super) const LOCK: &str =
    "SELECT s.position, w.seq, w.hash FROM log_state s, writers w WHERE w.number = $1 FOR UPDATE";

const FIND_IDS: &str = "SELECT id, content FROM records WHERE id = ANY($1)";

const FIND_ENTRIES: &str = "SELECT session, number, content FROM session_entries
    WHERE (session, number) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))";

const INSERT: &str =
    "INSERT INTO records (writer, position, seq, id, parent, session, at, kind, actor, tool, digest, call,
        status, body, model_call, content, hash)
    SELECT $1::bigint, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
        $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[],
        $17::bytea[])";

const INSERT_ENTRIES: &str = "INSERT INTO session_entries (session, number, at, content)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])";

pub(super) const INSERT_ANCHORS: &str = "INSERT INTO anchors (writer, seq, reason, hash, seal)
    SELECT $1::bigint, * FROM unnest($2::bigint[], $3::text[], $4::bytea[], $5::bytea[])
    ON CONFLICT (writer, seq, reason) DO UPDATE SET hash = excluded.hash, seal = excluded.seal";

const ADVANCE_LOG: &str = "UPDATE log_state SET position = $1";

const ADVANCE_WRITER: &str = "UPDATE writers SET seq = $2, hash = $3 WHERE number = $1";

/// Appends items, and returns the outcome of each.
///
/// An item that the database takes for itself but not with its contents, such as one that is too large for an index, is
/// found by writing one item after the other, and refused alone.
pub(super) async fn append(
    connection: &mut Connection,
    writer: &Writer,
    items: &[Item],
) -> Result<Vec<Outcome>, StorageError> {
    let error = match append_at_once(connection, writer, items).await {
        Ok(outcomes) => return Ok(outcomes),
        Err(error) if is_about_contents(&error) => error,
        Err(error) => return Err(error.into()),
    };
    connection.run("ROLLBACK").await?;
    if items.len() == 1 {
        return Ok(vec![Err(StorageError::from(error).to_string())]);
    }
    let mut outcomes = Vec::new();
    for item in items {
        match append_at_once(connection, writer, std::slice::from_ref(item)).await {
            Ok(outcome) => outcomes.extend(outcome),
            Err(error) if is_about_contents(&error) => {
                connection.run("ROLLBACK").await?;
                outcomes.push(Err(StorageError::from(error).to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(outcomes)
}

/// Returns whether an error is about what was to be written, and not about the server: classes 22 (data), 23 (constraints)
/// and 54 (limits) of SQLSTATE.
fn is_about_contents(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)))
}

async fn append_at_once(
    connection: &mut Connection,
    writer: &Writer,
    items: &[Item],
) -> Result<Vec<Outcome>, tokio_postgres::Error> {
    let (last_position, head, known) = begin(connection, writer, items).await?;
    let plan = Plan::new(items, known, head);
    let position = last_position.saturating_add(i64::try_from(plan.rows.len()).unwrap_or(i64::MAX));
    let chunks = chunks(&plan.rows);
    let insert = connection.prepare(INSERT).await?;
    let entry = connection.prepare(INSERT_ENTRIES).await?;
    let anchor = connection.prepare(INSERT_ANCHORS).await?;
    let advance_log = connection.prepare(ADVANCE_LOG).await?;
    let advance_writer = connection.prepare(ADVANCE_WRITER).await?;
    let client = &connection.client;
    // Sent one behind the other without waiting for answers.
    let rows = try_join_all(chunks.iter().map(async |(first, rows)| {
        let columns = Columns::new(rows, last_position.saturating_add(*first));
        columns.insert(client, &insert, writer.number).await
    }));
    let others = async {
        if !plan.entries.is_empty() {
            let sessions: Vec<&str> = plan.entries.iter().map(|entry| entry.session.as_str()).collect();
            let numbers: Vec<i64> = plan.entries.iter().map(|entry| row::to_sql(entry.number)).collect();
            let times: Vec<i64> = plan.entries.iter().map(|entry| row::to_sql(entry.at.0)).collect();
            let contents: Vec<&str> = plan.entries.iter().map(|entry| entry.content.as_str()).collect();
            client.execute(&entry, &[&sessions, &numbers, &times, &contents]).await?;
        }
        if !plan.anchors.is_empty() {
            let anchors = Anchors::new(&writer.sealer, &plan.anchors);
            client
                .execute(&anchor, &[&writer.number, &anchors.seqs, &anchors.reasons, &anchors.hashes, &anchors.seals])
                .await?;
        }
        Ok::<_, tokio_postgres::Error>(())
    };
    let heads = async {
        if !plan.rows.is_empty() {
            let seq = row::to_sql(plan.head.seq);
            let hash = plan.head.hash.0.as_slice();
            let (log, own) = join(
                client.execute(&advance_log, &[&position]),
                client.execute(&advance_writer, &[&writer.number, &seq, &hash]),
            )
            .await;
            log.and(own)?;
        }
        Ok(())
    };
    let (rows, others, heads) = join3(rows, others, heads).await;
    rows.map(|_| ()).and(others).and(heads)?;
    connection.run("COMMIT").await?;
    Ok(plan.outcomes)
}

/// Begins the transaction: locks the log, and finds the items that are there already.
async fn begin(
    connection: &mut Connection,
    writer: &Writer,
    items: &[Item],
) -> Result<(i64, Mark, KnownRows), tokio_postgres::Error> {
    let ids: Vec<&str> = items.iter().flat_map(Item::records).map(|record| record.record.id.as_str()).collect();
    let entries = items.iter().filter_map(|item| match item {
        Item::Entry(entry, _) => Some((entry.session.as_str(), row::to_sql(entry.number))),
        Item::Record(_) => None,
    });
    let (sessions, numbers): (Vec<&str>, Vec<i64>) = entries.filter(|(session, _)| !session.contains('\0')).unzip();
    let lock = connection.prepare(LOCK).await?;
    let find = connection.prepare(FIND_IDS).await?;
    let find_entries = connection.prepare(FIND_ENTRIES).await?;
    let client = &connection.client;
    let number = [&writer.number as _];
    let ids_parameters = [&ids as _];
    let opened =
        join3(client.batch_execute(BEGIN), client.query_one(&lock, &number), client.query(&find, &ids_parameters));
    let (begun, locked, found) = opened.await;
    begun?;
    let locked = locked?;
    let found = found?;
    let hash: Vec<u8> = locked.try_get(2)?;
    let head = Mark { seq: row::from_sql(locked.try_get(1)?), hash: Hash::from_bytes(&hash).unwrap_or(Hash([0; 32])) };
    let mut known = KnownRows::default();
    for row in found {
        known.ids.insert(row.try_get(0)?, row.try_get(1)?);
    }
    if !sessions.is_empty() {
        for row in client.query(&find_entries, &[&sessions, &numbers]).await? {
            known.entries.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
        }
    }
    Ok((locked.try_get(0)?, head, known))
}

/// Divides rows so that no statement has more than [`MAX_STATEMENT_BYTES`], and returns each part with the number of rows
/// before it.
fn chunks<'p, 'a>(rows: &'p [NewRow<'a>]) -> Vec<(i64, &'p [NewRow<'a>])> {
    let mut chunks = Vec::new();
    let mut rest = rows;
    let mut before = 0_i64;
    while !rest.is_empty() {
        let mut bytes = 0_usize;
        let fits = rest.iter().take_while(|row| {
            bytes = bytes.saturating_add(row.record.body.len());
            bytes <= MAX_STATEMENT_BYTES
        });
        let count = fits.count().max(1);
        let (chunk, others) = rest.split_at(count);
        chunks.push((before, chunk));
        (rest, before) = (others, before.saturating_add(i64::try_from(count).unwrap_or(i64::MAX)));
    }
    chunks
}

/// The columns of rows that one statement inserts.
struct Columns<'a> {
    rows: &'a [NewRow<'a>],
    positions: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// Gives the rows the positions after this one.
    fn new(rows: &'a [NewRow<'a>], last_position: i64) -> Self {
        Self { rows, positions: (last_position.saturating_add(1)..).take(rows.len()).collect() }
    }

    async fn insert(
        &self,
        client: &tokio_postgres::Client,
        statement: &tokio_postgres::Statement,
        writer: i64,
    ) -> Result<u64, tokio_postgres::Error> {
        let records = || self.rows.iter().map(|row| row.record);
        let seqs: Vec<i64> = self.rows.iter().map(|row| row::to_sql(row.mark.seq)).collect();
        let hashes: Vec<&[u8]> = self.rows.iter().map(|row| row.mark.hash.0.as_slice()).collect();
        let ids: Vec<&str> = records().map(|record| record.record.id.as_str()).collect();
        let parents: Vec<Option<&str>> = records().map(|record| record.record.parent.as_deref()).collect();
        let sessions: Vec<&str> = records().map(|record| record.record.session.as_str()).collect();
        let times: Vec<i64> = records().map(|record| record.at).collect();
        let kinds: Vec<&str> = records().map(|record| record.kind.as_str()).collect();
        let actors: Vec<Option<&str>> = records().map(|record| record.record.actor.as_deref()).collect();
        let tools: Vec<Option<&str>> = records().map(|record| record.record.tool.as_deref()).collect();
        let digests: Vec<Option<&str>> = records().map(|record| record.record.digest.as_deref()).collect();
        let calls: Vec<Option<&str>> = records().map(|record| record.record.call.as_deref()).collect();
        let statuses: Vec<Option<&str>> = records().map(|record| record.record.status.as_deref()).collect();
        let bodies: Vec<&str> = records().map(|record| record.body.as_str()).collect();
        let model_calls: Vec<Option<&str>> = records().map(|record| record.model_call.as_deref()).collect();
        let contents: Vec<&[u8]> = records().map(|record| record.content.0.as_slice()).collect();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 17] = [
            &writer,
            &self.positions,
            &seqs,
            &ids,
            &parents,
            &sessions,
            &times,
            &kinds,
            &actors,
            &tools,
            &digests,
            &calls,
            &statuses,
            &bodies,
            &model_calls,
            &contents,
            &hashes,
        ];
        client.execute(statement, &parameters).await
    }
}

/// The columns of anchors that one statement inserts.
pub(super) struct Anchors {
    pub(super) seqs: Vec<i64>,
    pub(super) reasons: Vec<&'static str>,
    pub(super) hashes: Vec<Vec<u8>>,
    pub(super) seals: Vec<Vec<u8>>,
}

impl Anchors {
    /// Seals marks.
    pub(super) fn new(sealer: &Sealer, anchors: &[(Mark, &'static str)]) -> Self {
        Self {
            seqs: anchors.iter().map(|(mark, _)| row::to_sql(mark.seq)).collect(),
            reasons: anchors.iter().map(|(_, reason)| *reason).collect(),
            hashes: anchors.iter().map(|(mark, _)| mark.hash.0.to_vec()).collect(),
            seals: anchors.iter().map(|(mark, reason)| sealer.seal(*mark, reason).0.to_vec()).collect(),
        }
    }
}
