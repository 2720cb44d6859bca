//! The catalogue of tools that can be found, and the tool that searches it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::ToolSpec;
use fumehood_core::flow::ToolFlow;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::search::ToolIndex;
use fumehood_core::tool::{Changes, Stop, Tool, ValidatedCall};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::summary::ToolSummary;
use super::{SEARCH_TOOLS, ToolSearch};
use crate::registry::{BuiltInTool, ToolError, ToolPolicy, ToolRegistry, built_in_tool};
use crate::truncate::{clean, clean_schema};

const DESCRIPTION: &str = "Finds tools by what they do. Most tools are not listed until a search has found them, and can \
                           not be called before. Search whenever no listed tool fits, and call what you found in your \
                           next step.";

/// Number of tools that a search returns unless the model asks for another number.
const DEFAULT_LIMIT: u8 = 5;
/// Maximum number of tools that a search returns.
const MAX_LIMIT: u8 = 20;
/// Maximum number of components and servers that the description names.
const MAX_SOURCES: usize = 40;
/// Maximum bytes of a result: more than [`MAX_LIMIT`] summaries can have, because a cut result would show no tools.
const MAX_RESULT_BYTES: usize = 128 << 10;

/// The tools of a registry, those that are always listed, and an index of all of them.
pub(crate) struct ToolCatalogue {
    registry: ToolRegistry,
    pinned: BTreeSet<String>,
    tool: Arc<Tool>,
    changes: Vec<Changes>,
    index: Mutex<IndexedTools>,
}

/// An index, and the revisions of all providers that it was made from.
#[derive(Default)]
struct IndexedTools {
    revisions: Option<Vec<u64>>,
    index: ToolIndex,
}

impl fmt::Debug for ToolCatalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCatalogue").field("pinned", &self.pinned).finish_non_exhaustive()
    }
}

impl ToolCatalogue {
    /// Creates the catalogue of a registry that is complete.
    ///
    /// # Errors
    /// If the definition of the search itself is not valid.
    pub(crate) fn new(settings: ToolSearch, registry: ToolRegistry) -> Result<Self, ToolError> {
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "A few words for what the tool should do, such as `send an email`.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                    "description": "The maximum number of tools to return.",
                },
            },
            "required": ["query"],
        });
        let annotations = Annotations {
            read_only: Some(true),
            idempotent: Some(true),
            destructive: Some(false),
            open_world: Some(false),
        };
        let tool = Arc::new(built_in_tool(SEARCH_TOOLS, DESCRIPTION, schema, annotations)?.with_flow(ToolFlow::NONE));
        let changes = registry.changes();
        Ok(Self { registry, pinned: settings.pinned, tool, changes, index: Mutex::default() })
    }

    /// Returns whether a tool is listed from the start.
    pub(crate) fn is_listed(&self, tool: &Tool) -> bool {
        tool.namespace().is_none() || self.pinned.contains(tool.full_name())
    }

    /// Returns the search as the model sees it. `tools` are those that it finds.
    pub(crate) fn search_spec(&self, tools: &[Arc<Tool>]) -> ToolSpec {
        let deferred: Vec<_> = tools.iter().filter(|tool| !self.is_listed(tool)).collect();
        let sources: BTreeSet<&str> =
            deferred.iter().filter_map(|tool| tool.namespace()).map(|namespace| namespace.as_str()).collect();
        let mut spec = self.tool.to_spec();
        if !deferred.is_empty() {
            let more = if sources.len() > MAX_SOURCES { ", …" } else { "" };
            let names: Vec<&str> = sources.into_iter().take(MAX_SOURCES).collect();
            spec.description.push_str(&format!(
                " Tools that are not listed: {} ({}{more}).",
                deferred.len(),
                names.join(", ")
            ));
        }
        spec
    }

    /// Brings the index up to date, on a thread for blocking work if it is not: thousands of tools take a second.
    async fn refresh(self: &Arc<Self>) {
        if self.is_current() {
            return;
        }
        let catalogue = Arc::clone(self);
        // A panic leaves the index as it is, and `find` brings it up to date.
        let _updated = tokio::task::spawn_blocking(move || drop(catalogue.current())).await;
    }

    fn is_current(&self) -> bool {
        // An update that runs is waited for on the other thread.
        let Ok(indexed) = self.index.try_lock() else { return false };
        indexed.revisions.as_ref() == Some(&self.revisions())
    }

    fn revisions(&self) -> Vec<u64> {
        self.changes.iter().map(Changes::revision).collect()
    }

    /// Returns the index, brought up to date.
    fn current(&self) -> MutexGuard<'_, IndexedTools> {
        let mut indexed = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        // The revisions are read first: a change in between costs one more update, and never leaves an old set in place.
        let revisions = self.revisions();
        if indexed.revisions.as_ref() != Some(&revisions) {
            indexed.index.update(self.registry.tools());
            indexed.revisions = Some(revisions);
        }
        indexed
    }

    /// Finds the tools for a query among those that `is_allowed` accepts, the best first.
    fn find(&self, query: &str, limit: usize, is_allowed: impl Fn(&str) -> bool) -> Vec<Arc<Tool>> {
        let indexed = self.current();
        let found = indexed.index.search_among(query, limit, |tool| is_allowed(tool.full_name()));
        found.into_iter().map(|(tool, _)| tool).collect()
    }
}

/// Escapes invisible characters and the tags of prompts in all texts about a tool.
pub(crate) fn clean_spec(spec: ToolSpec) -> ToolSpec {
    let description = clean(&spec.description);
    let parameters = clean_schema(&spec.parameters);
    ToolSpec { description, parameters, ..spec }
}

/// The search within the allowlist of one batch.
pub(crate) struct SearchTool<F> {
    catalogue: Arc<ToolCatalogue>,
    is_allowed: F,
}

impl<F: Fn(&str) -> bool> SearchTool<F> {
    /// Creates the search for the tools that `is_allowed` accepts.
    pub(crate) fn new(catalogue: Arc<ToolCatalogue>, is_allowed: F) -> Self {
        Self { catalogue, is_allowed }
    }

    fn search(&self, call: &ValidatedCall) -> Result<Vec<Content>, CallError> {
        let arguments = SearchArguments::read(call.arguments())
            .map_err(|message| CallError::new(ErrorKind::InvalidArguments, message))?;
        let found = self.catalogue.find(&arguments.query, usize::from(arguments.limit), &self.is_allowed);
        let tools: Vec<_> = found.iter().map(|tool| ToolSummary::new(&clean_spec(tool.to_spec()))).collect();
        let note =
            tools.is_empty().then_some("No tool has one of these words. Try others for what the tool should do.");
        let invalid =
            |error: serde_json::Error| CallError::new(ErrorKind::BadResult, format!("the result is not JSON: {error}"));
        let text = serde_json::to_string(&SearchResult { tools, note }).map_err(invalid)?;
        Ok(vec![Content::json(text).map_err(invalid)?])
    }
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default = "default_limit")]
    limit: u8,
}

fn default_limit() -> u8 {
    DEFAULT_LIMIT
}

impl SearchArguments {
    fn read(arguments: &Value) -> Result<Self, String> {
        Self::deserialize(arguments).map_err(|error| error.to_string())
    }
}

/// The result of a search.
#[derive(Serialize)]
struct SearchResult {
    tools: Vec<ToolSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl<F: Fn(&str) -> bool + Send + Sync> BuiltInTool for SearchTool<F> {
    fn tool(&self) -> &Arc<Tool> {
        &self.catalogue.tool
    }

    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        SearchArguments::read(arguments).map(drop)
    }

    fn policy(&self) -> ToolPolicy {
        ToolPolicy { result_bytes: Some(MAX_RESULT_BYTES), ..ToolPolicy::default() }
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            self.catalogue.refresh().await;
            let tool = self.tool().full_name().to_owned();
            let outcome = self.search(&call);
            Ok(CallResult { id: context.id, tool, outcome, metadata: Metadata::default() })
        })
    }
}
