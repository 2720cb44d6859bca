//! `fumehood cell`: the keys of gateways and workers.

use anyhow::Result;
use fumehood::cell::NodeKey;
use serde_json::json;

use crate::args::{Arguments, Cell, CellKey};
use crate::exit::Exit;
use crate::render;

pub(crate) fn run(arguments: &Arguments, cell: &Cell) -> Result<Exit> {
    let Cell::Key(key) = cell;
    let public = match key {
        CellKey::New { file } => NodeKey::create(file)?.public(),
        CellKey::Show { file } => NodeKey::read(file)?.public(),
    };
    if arguments.json {
        render::json(&json!({ "public": public.to_string() }))?;
        return Ok(Exit::Ok);
    }
    render::line(&public.to_string())?;
    render::note(
        "add it to fumehood.toml of the other nodes, in [cell.workers] or [cell.gateways]: NAME = \"ed25519:…\"",
    );
    Ok(Exit::Ok)
}
