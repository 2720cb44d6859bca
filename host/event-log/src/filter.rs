//! Which records are asked for, and in which order.

use fumehood_core::record::RecordKind;
use fumehood_core::time::Timestamp;
use rusqlite::types::Value;

use crate::row::{self, CELLS};

/// In which order records come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest first.
    #[default]
    Ascending,
    /// The newest first.
    Descending,
}

/// Which records are asked for: those that fit everything that is set. The default asks for all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Of this session.
    pub session: Option<String>,
    /// On behalf of this actor.
    pub actor: Option<String>,
    /// About the tool of this full name.
    pub tool: Option<String>,
    /// Of this kind.
    pub kind: Option<RecordKind>,
    /// With this status.
    pub status: Option<String>,
    /// About the call of this id.
    pub call: Option<String>,
    /// About a call that the model gave this id. Models reuse ids: several calls may fit, in one session, too.
    pub model_call: Option<String>,
    /// Made at this moment or later.
    pub since: Option<Timestamp>,
    /// Made before this moment.
    pub until: Option<Timestamp>,
    /// Beyond this number, in the order that is asked for: to go on where a page ended.
    pub after_seq: Option<u64>,
    /// At most this many. `None`: 1000.
    pub limit: Option<usize>,
    /// Which come first.
    pub order: Order,
}

impl Filter {
    /// How many records a query returns that does not say.
    pub const LIMIT: usize = 1000;

    /// The query, and what it is about.
    pub(crate) fn sql(&self) -> (String, Vec<Value>) {
        let text = |value: &Option<String>| value.clone().map(Value::Text);
        let moment = |value: Option<Timestamp>| value.map(|value| Value::Integer(row::integer(value.0)));
        let beyond = match self.order {
            Order::Ascending => "seq >",
            Order::Descending => "seq <",
        };
        let conditions = [
            ("session =", text(&self.session)),
            ("actor =", text(&self.actor)),
            ("tool =", text(&self.tool)),
            ("kind =", self.kind.map(|kind| Value::Text(kind.as_str().to_owned()))),
            ("status =", text(&self.status)),
            ("call =", text(&self.call)),
            ("json_extract(body, '$.model_call') =", text(&self.model_call)),
            ("at >=", moment(self.since)),
            ("at <", moment(self.until)),
            (beyond, self.after_seq.map(|seq| Value::Integer(row::integer(seq)))),
        ];
        let mut sql = format!("SELECT seq, hash, {CELLS} FROM records");
        let mut values = Vec::new();
        for (condition, value) in conditions.into_iter().filter_map(|(condition, value)| Some((condition, value?))) {
            sql.push_str(if values.is_empty() { " WHERE " } else { " AND " });
            sql.push_str(&format!("{condition} ?"));
            values.push(value);
        }
        sql.push_str(match self.order {
            Order::Ascending => " ORDER BY seq LIMIT ?",
            Order::Descending => " ORDER BY seq DESC LIMIT ?",
        });
        values.push(Value::Integer(i64::try_from(self.limit.unwrap_or(Self::LIMIT)).unwrap_or(i64::MAX)));
        (sql, values)
    }
}
