//! Queries of lists: filters, the cursor and the size of a page.

use std::borrow::Cow;
use std::str::FromStr;

use utoipa::IntoParams;

/// Number of items in a page, unless the client says another.
const DEFAULT_PAGE: usize = 50;
/// Maximum number of items in a page.
const MAX_PAGE: usize = 500;

/// A page of a list.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Maximum number of items, 1 to 500.
    limit: Option<usize>,
}

impl Page {
    /// Parses the query of a list. `set` takes the name and the value of each filter, and returns `None` if there is none of
    /// this name; `names` lists them.
    ///
    /// # Errors
    /// Text about the first parameter that is unknown or malformed.
    pub(crate) fn parse(
        query: Option<&str>,
        names: &str,
        mut set: impl FnMut(&str, Cow<'_, str>) -> Option<Result<(), String>>,
    ) -> Result<Self, String> {
        let mut page = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "cursor" => page.cursor = Some(value.into_owned()),
                "limit" => page.limit = parse_number(&name, &value)?,
                _ => match set(&name, value) {
                    Some(read) => read?,
                    None => return Err(format!("unknown filter `{name}`; expected one of {names}, cursor and limit")),
                },
            }
        }
        Ok(page)
    }

    /// Returns the maximum number of items.
    ///
    /// # Errors
    /// If it is out of range.
    pub(crate) fn limit(&self) -> Result<usize, String> {
        let limit = self.limit.unwrap_or(DEFAULT_PAGE);
        if (1..=MAX_PAGE).contains(&limit) {
            Ok(limit)
        } else {
            Err(format!("`limit` is {limit}; expected 1 to {MAX_PAGE}"))
        }
    }

    /// Parses the cursor, if there is one: its prefix, and what `parse` reads after it.
    ///
    /// # Errors
    /// If it is none that this server gave.
    pub(crate) fn cursor<T>(&self, prefix: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, String> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let position = cursor.strip_prefix(prefix).and_then(parse);
        let unknown = || "invalid `cursor`; use `next` of the previous page".to_owned();
        position.map(Some).ok_or_else(unknown)
    }
}

/// Parses the whole number of a parameter.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_number<T: FromStr>(name: &str, value: &str) -> Result<Option<T>, String> {
    value.parse().map(Some).map_err(|_| format!("`{name}` is `{value}`; expected a whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Page, String> {
        Page::parse(Some(query), "tool", |name, _| (name == "tool").then_some(Ok(())))
    }

    #[test]
    fn pages_have_1_to_500_items() {
        for (query, expected) in [("", 50), ("limit=1", 1), ("tool=a&limit=500", 500)] {
            assert_eq!(parse(query).unwrap().limit(), Ok(expected), "{query}");
        }
        for query in ["limit=0", "limit=501", "limit=-1", "limit=x", "limit"] {
            assert!(parse(query).and_then(|page| page.limit()).is_err(), "{query}");
        }
        assert!(parse("colour=red").unwrap_err().contains("expected one of tool, cursor and limit"));
    }

    #[test]
    fn foreign_cursors_are_rejected() {
        let position = |query: &str| parse(query).unwrap().cursor("before:", |text| text.parse::<u64>().ok());
        assert_eq!((position(""), position("cursor=before:7")), (Ok(None), Ok(Some(7))));
        for cursor in ["", "7", "before:", "before:x", "after:7"] {
            assert!(position(&format!("cursor={cursor}")).is_err(), "{cursor}");
        }
    }
}
