//! `fumehood log follow`: records as they come.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fumehood::event_log::{Filter, Order, ReadError, Reader, StoredRecord};

use super::filter;
use crate::args::log;
use crate::exit::Exit;
use crate::render;

/// How long one look takes at most: Ctrl-C is heeded between two of them.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn run(reader: Reader, follow: &log::Follow, json: bool) -> Result<Exit> {
    let filter = filter::of(&follow.filters);
    let (earlier, after) = earlier(&reader, &filter, follow.last)?;
    earlier.iter().try_for_each(|record| print(record, json))?;
    let mut following = reader.follow(Filter { after_seq: Some(after), ..filter });
    let mut seen = Instant::now();
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let look = tokio::task::spawn_blocking(move || {
            let found = following.next(LOOK);
            (following, found)
        });
        let (back, found) = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(Exit::Interrupted),
            looked = look => looked.context("the log cannot be followed")?,
        };
        following = back;
        let found = found?;
        found.iter().try_for_each(|record| print(record, json))?;
        if !found.is_empty() {
            seen = Instant::now();
        }
        if follow.idle.is_some_and(|idle| seen.elapsed() >= idle) {
            return Ok(Exit::Ok);
        }
    }
}

/// The last records that are there already, and the number of the last row that has been looked at.
fn earlier(reader: &Reader, filter: &Filter, last: u32) -> Result<(Vec<StoredRecord>, u64), ReadError> {
    let end = reader.last()?.map_or(0, |mark| mark.seq);
    let limit = Some(usize::try_from(last).unwrap_or(usize::MAX));
    let before = Some(end.saturating_add(1));
    let newest = Filter { order: Order::Descending, limit, after_seq: before, ..filter.clone() };
    let mut found = reader.query(&newest)?;
    found.reverse();
    Ok((found, end))
}

fn print(record: &StoredRecord, json: bool) -> Result<()> {
    if json { render::json_line(record) } else { render::line(&render::record::in_a_line(record)) }
}
