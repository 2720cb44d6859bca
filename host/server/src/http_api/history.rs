//! The port for calls that have ended: an event log, where one is configured.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::text::abbreviation::abbreviate;
use fumehood_core::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One call in a list.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallSummary {
    /// The id of the call, which no other one has.
    pub id: String,
    /// The id that a client or a model chose for the call, if it is another one. Several calls may have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_call: Option<String>,
    /// The full name of the tool.
    pub tool: String,
    /// `running`, `ok`, or the kind of its failure.
    pub status: String,
    /// The time of its start, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The duration of a call that has ended, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// The actor on whose behalf it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The name that the client gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The position in the list, which grows with every call.
    #[serde(skip)]
    pub position: u64,
}

/// One call with all that is recorded about it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CallDetail {
    /// The call.
    #[serde(flatten)]
    pub summary: CallSummary,
    /// Its arguments, unless they are not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Its result, unless it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Its failure, unless it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Its cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// The status of a call that has not ended.
pub const RUNNING_STATUS: &str = "running";

/// A query for calls, the newest first. Fields that are set restrict it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallQuery {
    /// The actor of the client: the calls of others are not for it.
    pub actor: Option<String>,
    /// The full name of the tool.
    pub tool: Option<String>,
    /// The status: see [`CallSummary::status`].
    pub status: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// The id that a client or a model chose: see [`CallSummary::model_call`].
    pub model_call: Option<String>,
    /// Only calls before this position.
    pub before: Option<u64>,
    /// Maximum number of calls.
    pub limit: usize,
}

/// A part of the calls that match a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallList {
    /// The calls, the newest first.
    pub calls: Vec<CallSummary>,
    /// The [`CallQuery::before`] of the next part, unless there is none. A store that searched as far as one query may has a
    /// next part after few calls, or none.
    pub next: Option<u64>,
}

/// The reason why something could not be read or decided, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortError(pub String);

/// The port for recorded calls.
pub trait CallStore: Send + Sync {
    /// Returns the calls that match, the newest first.
    fn list(&self, query: CallQuery) -> BoxFuture<'_, Result<CallList, PortError>>;

    /// Returns a short form of each id, in the same order, for people: a prefix that no other call begins with. Of a store that does
    /// not implement this, a prefix that none of these ids begins with.
    fn abbreviate(&self, ids: Vec<String>) -> BoxFuture<'_, Result<Vec<String>, PortError>> {
        let of = |id: &String| abbreviate(id, ids.iter().map(String::as_str)).to_owned();
        Box::pin(std::future::ready(Ok(ids.iter().map(of).collect())))
    }

    /// Returns the call with this id, which no other one has, if it is one of this actor.
    fn find(&self, id: String, actor: Option<String>) -> BoxFuture<'_, Result<Option<CallDetail>, PortError>>;
}
