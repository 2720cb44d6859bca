//! `fumehood log follow`: prints records as they are written.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fumehood::event_log::{Filter, Order, ReadError, Reader, StoredRecord};

use super::to_filter;
use crate::args::log;
use crate::exit::Exit;
use crate::render;

/// Maximum duration of one poll. Ctrl-C takes effect between two polls.
const MAX_POLL_TIME: Duration = Duration::from_millis(200);

pub(super) async fn run(reader: Reader, follow: &log::Follow, json: bool) -> Result<Exit> {
    let filter = to_filter(&follow.filters);
    let (earlier, after) = query_last(&reader, &filter, follow.last)?;
    earlier.iter().try_for_each(|record| print(record, json))?;
    let mut following = reader.follow(Filter { after_seq: Some(after), ..filter });
    let mut last_record = Instant::now();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let poll = tokio::task::spawn_blocking(move || {
            let found = following.next(MAX_POLL_TIME);
            (following, found)
        });
        let (back, found) = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(Exit::Interrupted),
            polled = poll => polled.context("the log cannot be followed")?,
        };
        following = back;
        let found = found?;
        found.iter().try_for_each(|record| print(record, json))?;
        if !found.is_empty() {
            last_record = Instant::now();
        }
        if follow.idle.is_some_and(|idle| last_record.elapsed() >= idle) {
            return Ok(Exit::Ok);
        }
    }
}

/// Returns the last matching records, and the number of the last row of the log.
fn query_last(reader: &Reader, filter: &Filter, last: u32) -> Result<(Vec<StoredRecord>, u64), ReadError> {
    let end = reader.last()?.map_or(0, |mark| mark.seq);
    let limit = Some(usize::try_from(last).unwrap_or(usize::MAX));
    let before = Some(end.saturating_add(1));
    let newest = Filter { order: Order::Descending, limit, after_seq: before, ..filter.clone() };
    let mut found = reader.query(&newest)?;
    found.reverse();
    Ok((found, end))
}

fn print(record: &StoredRecord, json: bool) -> Result<()> {
    if json { render::json_line(record) } else { render::line(&render::record::to_line(record)) }
}
