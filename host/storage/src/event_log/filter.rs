//! Filter and order of a query.

use fumehood_core::record::RecordKind;
use fumehood_core::time::Timestamp;

use super::row;

/// The order of the records in a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

/// A filter of records, which selects those that match every field that is set. The default selects all records.
///
/// ```
/// use fumehood_core::record::RecordKind;
/// use fumehood_core::time::Timestamp;
/// use fumehood_storage::event_log::Filter;
///
/// // The failed calls of an actor since a moment, in milliseconds since 1970.
/// let failed = Filter {
///     actor: Some("ann".to_owned()),
///     kind: Some(RecordKind::ToolFinished),
///     status: Some("error".to_owned()),
///     since: Some(Timestamp(1_700_000_000_000)),
///     ..Filter::default()
/// };
/// assert_eq!(failed.limit, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// The session.
    pub session: Option<String>,
    /// The actor on whose behalf the session runs.
    pub actor: Option<String>,
    /// The full name of the tool.
    pub tool: Option<String>,
    /// The kind of record.
    pub kind: Option<RecordKind>,
    /// The status.
    pub status: Option<String>,
    /// The id of the call.
    pub call: Option<String>,
    /// The id that the model gave to the call. Models reuse ids, so several calls may match, even in one session.
    pub model_call: Option<String>,
    /// The earliest time of a record, inclusive.
    pub since: Option<Timestamp>,
    /// The latest time of a record, exclusive.
    pub until: Option<Timestamp>,
    /// The row after which the result begins, in the order of the query; the last row of the previous page.
    pub after_seq: Option<u64>,
    /// Maximum number of records. `None`: [`Filter::DEFAULT_LIMIT`].
    pub limit: Option<usize>,
    /// The order of the result.
    pub order: Order,
}

impl Filter {
    /// Maximum number of records of a query without a limit.
    pub const DEFAULT_LIMIT: usize = 1000;

    /// Returns the conditions, each with its value. `model_call` and `position` are the expressions of a database for the id of a model
    /// and for the position in the log.
    pub(crate) fn conditions(&self, model_call: &str, position: &str) -> Vec<(String, FilterValue<'_>)> {
        fn text(value: &Option<String>) -> Option<FilterValue<'_>> {
            value.as_deref().map(FilterValue::Text)
        }
        fn moment(value: Option<Timestamp>) -> Option<FilterValue<'static>> {
            value.map(|value| FilterValue::Integer(row::to_sql(value.0)))
        }
        let beyond = match self.order {
            Order::Ascending => ">",
            Order::Descending => "<",
        };
        let conditions = [
            ("session", "=", text(&self.session)),
            ("actor", "=", text(&self.actor)),
            ("tool", "=", text(&self.tool)),
            ("kind", "=", self.kind.map(|kind| FilterValue::Text(kind.as_str()))),
            ("status", "=", text(&self.status)),
            ("call", "=", text(&self.call)),
            ("at", ">=", moment(self.since)),
            ("at", "<", moment(self.until)),
            (model_call, "=", text(&self.model_call)),
            (position, beyond, self.after_seq.map(|seq| FilterValue::Integer(row::to_sql(seq)))),
        ];
        let given = conditions.into_iter().filter_map(|(column, operator, value)| Some((column, operator, value?)));
        given.map(|(column, operator, value)| (format!("{column} {operator}"), value)).collect()
    }

    /// Returns the maximum number of records.
    pub(crate) fn max_records(&self) -> i64 {
        i64::try_from(self.limit.unwrap_or(Self::DEFAULT_LIMIT)).unwrap_or(i64::MAX)
    }
}

/// The value of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterValue<'a> {
    Text(&'a str),
    Integer(i64),
}
