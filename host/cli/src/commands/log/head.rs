//! `fumehood log head`: prints a checkpoint to keep elsewhere.

use anyhow::Result;
use fumehood::event_log::{Checkpoint, Reader};
use serde::Serialize;

use crate::exit::Exit;
use crate::{moment, render};

/// A checkpoint for `--json`: the whole line, and its fields.
#[derive(Serialize)]
struct Head {
    checkpoint: Checkpoint,
    log: String,
    row: u64,
    hash: String,
    at: u64,
}

pub(super) fn run(reader: &Reader, json: bool) -> Result<Exit> {
    let checkpoint = reader.checkpoint(moment::now())?;
    if json {
        let Checkpoint { log, mark, at } = checkpoint;
        let (log, hash) = (log.to_string(), mark.hash.to_string());
        render::json(&Head { checkpoint, log, row: mark.seq, hash, at: at.0 })?;
    } else {
        render::line(&checkpoint.to_string())?;
    }
    Ok(Exit::Ok)
}
