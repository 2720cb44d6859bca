//! What is known of the tools of a server: as they were listed last, and as they were when they were pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fumehood_core::digest::Digest;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::{Gate, GateLimits};
use fumehood_core::name::Namespace;
use fumehood_core::result::CallError;
use fumehood_core::sanitize::printable;
use rmcp::model::Tool;

use super::foreign::RemoteTool;

/// A tool, and what its results have to be.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) tool: RemoteTool,
    pub(crate) results: Option<Arc<Gate>>,
}

/// The tools of one listing.
#[derive(Default)]
pub(crate) struct Listed {
    tools: BTreeMap<Arc<str>, Known>,
    refused: Vec<String>,
}

/// What is known of the tools.
#[derive(Default)]
pub(crate) struct Seen {
    listed: Listed,
    pins: BTreeMap<Arc<str>, Digest>,
}

impl Listed {
    /// What a server of this name listed, as far as it is wanted. `output` bounds results, in bytes. Compiles schemas,
    /// which takes its time.
    pub(crate) fn of(server: &Namespace, tools: &[Tool], only: Option<&BTreeSet<String>>, output: usize) -> Self {
        let mut listed = Self::default();
        for tool in tools.iter().filter(|tool| only.is_none_or(|only| only.contains(tool.name.as_ref()))) {
            match known(server, tool, output) {
                Ok(known) => drop(listed.tools.insert(Arc::clone(&known.tool.foreign), known)),
                Err(why) => listed.refused.push(why),
            }
        }
        let missing = only.into_iter().flatten().filter(|name| tools.iter().all(|tool| tool.name != **name));
        listed.refused.extend(missing.map(|name| format!("{}: the server has no such tool", printable(name))));
        listed
    }
}

fn known(server: &Namespace, tool: &Tool, output: usize) -> Result<Known, String> {
    let tool = RemoteTool::of(server, tool)?;
    // Results are bounded as a whole; a long text in one is no sign of anything.
    let limits = GateLimits { document_bytes: output, string_bytes: output, ..GateLimits::default() };
    let gate = tool.output_schema.as_ref().map(|schema| Gate::for_results(schema.expose_raw(), limits)).transpose();
    let gate = gate.map_err(|error| format!("{}: its output schema is refused: {error}", printable(&tool.foreign)))?;
    Ok(Known { tool, results: gate.map(Arc::new) })
}

impl Seen {
    /// With tools that were pinned before.
    pub(crate) fn pinned(pins: BTreeMap<Arc<str>, Digest>) -> Self {
        Self { pins, listed: Listed::default() }
    }

    /// They were listed anew. What was not pinned is pinned as it is now.
    pub(crate) fn update(&mut self, listed: Listed) {
        for (name, known) in &listed.tools {
            self.pins.entry(Arc::clone(name)).or_insert(known.tool.digest);
        }
        self.listed = listed;
    }

    /// Those that are as they were pinned.
    pub(crate) fn tools(&self) -> Vec<RemoteTool> {
        let good = self.listed.tools.values().filter(|known| !self.is_changed(&known.tool));
        good.map(|known| known.tool.clone()).collect()
    }

    /// Those that cannot be used, each with the reason.
    pub(crate) fn refused(&self) -> Vec<String> {
        let changed = self.listed.tools.values().filter(|known| self.is_changed(&known.tool));
        let changed = changed.map(|known| format!("{}: it is not what was approved", printable(&known.tool.foreign)));
        self.listed.refused.iter().cloned().chain(changed).collect()
    }

    /// The tool of this name, if it may be called.
    pub(crate) fn callable(&self, server: &Namespace, foreign: &str) -> Result<Known, CallError> {
        match self.listed.tools.get(foreign) {
            None => Err(CallError::new(
                ErrorKind::UnknownTool,
                format!("the server `{server}` no longer has the tool `{}`", printable(foreign)),
            )),
            Some(known) if self.is_changed(&known.tool) => Err(CallError::new(
                ErrorKind::NeedsApproval,
                format!("the tool `{}` describes itself otherwise than when it was approved", known.tool.name),
            )
            .with_hint("someone has to look at its new description and approve it")),
            Some(known) => Ok(known.clone()),
        }
    }

    fn is_changed(&self, tool: &RemoteTool) -> bool {
        self.pins.get(&tool.foreign).is_some_and(|pin| *pin != tool.digest)
    }
}
