//! Knowledge: texts that belong to a skill, as tools. A text is not part of a prompt until the model calls the tool.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::flow::ToolFlow;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{Stop, Tool, ValidatedCall};
use serde_json::json;

use crate::registry::{BuiltInTool, Purpose, ToolError, ToolPolicy, built_in_tool};

/// Maximum bytes of an entry that the model sees: more than for other results, because an entry is there to be read.
const MAX_ENTRY_BYTES: usize = 32 << 10;

type Load = dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// An entry of knowledge, as a tool.
pub struct Knowledge {
    tool: Arc<Tool>,
    load: Box<Load>,
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knowledge").finish_non_exhaustive()
    }
}

impl Knowledge {
    /// Creates an entry whose text is loaded by `load` for each call. The model gets its error.
    ///
    /// # Errors
    /// If the name is not valid for a tool.
    pub fn new(
        name: &str,
        description: &str,
        load: impl Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync + 'static,
    ) -> Result<Self, ToolError> {
        let annotations = Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() };
        let tool = built_in_tool(name, description, json!({"type": "object", "properties": {}}), annotations)?;
        Ok(Self { tool: Arc::new(tool.with_flow(ToolFlow::NONE)), load: Box::new(load) })
    }

    /// Creates an entry whose text is in memory.
    ///
    /// # Errors
    /// Like [`Knowledge::new`].
    pub fn from_text(name: &str, description: &str, text: impl Into<Arc<str>>) -> Result<Self, ToolError> {
        let text = text.into();
        Self::new(name, description, move || Box::pin(std::future::ready(Ok(text.to_string()))))
    }
}

impl BuiltInTool for Knowledge {
    fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    fn purpose(&self) -> Purpose {
        Purpose::Knowledge
    }

    fn policy(&self) -> ToolPolicy {
        ToolPolicy { result_bytes: Some(MAX_ENTRY_BYTES), ..ToolPolicy::default() }
    }

    fn call(&self, _call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = match (self.load)().await {
                Ok(text) => Ok(vec![Content::text(text)]),
                Err(message) => Err(CallError::new(ErrorKind::Unavailable, message)),
            };
            let tool = self.tool.full_name().to_owned();
            Ok(CallResult { id: context.id, tool, outcome, metadata: Metadata::default() })
        })
    }
}
