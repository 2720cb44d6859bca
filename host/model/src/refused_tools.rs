//! The tools that were left out of one request because the provider refused them.

use fumehood_core::chat::{ModelError, ToolSpec};
use fumehood_core::text::sanitize::printable;

use crate::spec::Service;

/// Maximum number of tools that are left out of one request, each after a request that was refused.
const MAX_LEFT_OUT_TOOLS: usize = 16;
/// Maximum number of requests that look for a tool which the provider does not name: enough for one of 1,024.
const MAX_PROBES: usize = 10;

/// The tools that were left out of one request, and the search for further ones.
#[derive(Debug, Default)]
pub(crate) struct LeftOutTools {
    tools: Vec<ToolSpec>,
    probes: usize,
}

impl LeftOutTools {
    pub(crate) fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// Adds a tool. Returns false if there are too many already.
    pub(crate) fn add(&mut self, tool: ToolSpec) -> bool {
        let has_room = self.tools.len() < MAX_LEFT_OUT_TOOLS;
        if has_room {
            self.tools.push(tool);
        }
        has_room
    }

    /// Counts a request that looks for a tool. Returns false if there were too many already.
    pub(crate) fn count_probe(&mut self) -> bool {
        let has_room = self.probes < MAX_PROBES;
        self.probes = self.probes.saturating_add(usize::from(has_room));
        has_room
    }
}

/// Returns the notice for an operator that a tool was left out.
pub(crate) fn left_out_notice(service: Service, tool: &ToolSpec, error: &ModelError) -> String {
    format!(
        "the tool `{}` is left out of requests to this model, because {service} refused its definition: {}; all other \
         tools are still offered",
        printable(&tool.name),
        error.message,
    )
}
