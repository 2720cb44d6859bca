//! The `context` interface: what a guest can read about its own call.

use super::CallState;
use crate::bindings::fumehood::tool::{context, types};

impl context::Host for CallState {
    fn call_id(&mut self) -> String {
        self.call.id.clone()
    }

    fn tool_name(&mut self) -> String {
        self.call.tool.clone()
    }

    fn remaining_ms(&mut self) -> u64 {
        u64::try_from(self.deadline.remaining().as_millis()).unwrap_or(u64::MAX)
    }

    fn actor(&mut self) -> Option<String> {
        self.call.actor.as_deref().map(str::to_owned)
    }

    fn state(&mut self) -> Option<String> {
        self.call.state.as_deref().filter(|_| self.powers.grant.state()).map(str::to_owned)
    }
}

impl types::Host for CallState {}
