//! Pages of lists: their size, and where they begin.

use axum::response::Result;
use http::StatusCode;

use crate::http_api::problem::problem;

/// Number of items in a page, unless the client says another.
const DEFAULT_PAGE: usize = 50;
/// Maximum number of items in a page.
const MAX_PAGE: usize = 500;

/// Returns the maximum number of items of a page.
///
/// # Errors
/// If it is out of range.
pub(crate) fn page_limit(limit: Option<usize>) -> Result<usize> {
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(limit);
    }
    Err(problem(StatusCode::BAD_REQUEST, format!("`limit` is {limit}; expected 1 to {MAX_PAGE}")).into())
}

/// Parses a cursor, if there is one: its prefix, and what `parse` reads after it.
///
/// # Errors
/// If it is none that this server gave.
pub(crate) fn parse_cursor<T>(
    cursor: Option<&str>,
    prefix: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let unknown = || problem(StatusCode::BAD_REQUEST, "invalid `cursor`; use `next` of the previous page");
    Ok(Some(cursor.strip_prefix(prefix).and_then(parse).ok_or_else(unknown)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_1_to_500_items() {
        for (limit, expected) in [(None, 50), (Some(1), 1), (Some(500), 500)] {
            assert_eq!(page_limit(limit).unwrap(), expected, "{limit:?}");
        }
        for limit in [0, 501, usize::MAX] {
            assert!(page_limit(Some(limit)).is_err(), "{limit}");
        }
    }

    #[test]
    fn foreign_cursors_are_rejected() {
        let position = |cursor| parse_cursor(cursor, "before:", |text| text.parse::<u64>().ok());
        assert_eq!(position(None).unwrap(), None);
        assert_eq!(position(Some("before:7")).unwrap(), Some(7));
        for cursor in ["", "7", "before:", "before:x", "after:7"] {
            assert!(position(Some(cursor)).is_err(), "{cursor}");
        }
    }
}
