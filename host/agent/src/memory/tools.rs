//! The tools through which a model reads, writes and searches notes.

use std::sync::Arc;

use fumehood_core::call::CallContext;
use fumehood_core::flow::ToolFlow;
use fumehood_core::tool::definition::Annotations;
use schemars::JsonSchema;
use serde::Deserialize;

use super::notes::{Memory, MemoryError, Note};
use crate::registry::{BuiltIn, BuiltInError, BuiltIns, RegisterError, ToolError};

/// The names of the tools.
pub const TOOL_NAMES: [&str; 3] = ["memory_read", "memory_write", "memory_search"];

#[derive(Deserialize, JsonSchema)]
struct ReadArguments {
    /// The name of the note.
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct WriteArguments {
    /// The name of the note. A note of the same name is written over.
    key: String,
    /// The text of the note.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct SearchArguments {
    /// Words that a note must have, all of them.
    query: String,
    /// The maximum number of notes to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 50))]
    limit: u8,
}

fn default_limit() -> u8 {
    10
}

/// Errors returned by [`register`].
#[derive(Debug, thiserror::Error)]
pub enum MemoryToolsError {
    /// A tool that is not valid.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A name that is taken.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

impl From<MemoryError> for BuiltInError {
    fn from(error: MemoryError) -> Self {
        Self::from(error.0)
    }
}

/// Registers the tools for this memory.
///
/// # Errors
/// If one of their names is taken.
pub fn register(tools: &BuiltIns, memory: &Arc<dyn Memory>) -> Result<(), MemoryToolsError> {
    let reads = Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() };
    let writes = Annotations { read_only: Some(false), idempotent: Some(true), ..Annotations::default() };
    let [read, write, search] = TOOL_NAMES;
    // They outlive the session whose data is in them.
    let kept = ToolFlow { source: Some("notes may contain private data from earlier sessions"), sink: None };

    let notes = Arc::clone(memory);
    let run = move |args: ReadArguments, call: CallContext| {
        let notes = Arc::clone(&notes);
        async move {
            let found = notes.read(call.actor.as_deref(), &args.key).await?;
            found.ok_or_else(|| BuiltInError::from(format!("unknown note {:?}; search for it", args.key)))
        }
    };
    tools.register(
        BuiltIn::new(read, "Reads a note that you wrote earlier.", run)?.with_annotations(reads).with_flow(kept),
    )?;

    let notes = Arc::clone(memory);
    let run = move |args: WriteArguments, call: CallContext| {
        let notes = Arc::clone(&notes);
        async move {
            notes.write(call.actor.as_deref(), &args.key, &args.text).await?;
            Ok(format!("noted {:?}", args.key))
        }
    };
    tools.register(
        BuiltIn::new(write, "Writes a note for later.", run)?.with_annotations(writes).with_flow(ToolFlow::NONE),
    )?;

    let notes = Arc::clone(memory);
    let run = move |args: SearchArguments, call: CallContext| {
        let notes = Arc::clone(&notes);
        async move {
            let found: Vec<Note> = notes.search(call.actor.as_deref(), &args.query, usize::from(args.limit)).await?;
            Ok(found)
        }
    };
    tools.register(
        BuiltIn::new(search, "Searches the notes that you wrote.", run)?.with_annotations(reads).with_flow(kept),
    )?;
    Ok(())
}
