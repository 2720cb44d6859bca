//! Queries of lists: filters, the cursor and the size of a page.

use std::borrow::Cow;
use std::str::FromStr;

/// Number of items in a page, unless the client says another.
const DEFAULT_PAGE: usize = 50;
/// Maximum number of items in a page.
const MAX_PAGE: usize = 500;

/// Reads the parameters of a query. `set` takes the name and the value of one, and returns `None` if there is none of this
/// name; `names` lists them.
///
/// # Errors
/// What is wrong with the first parameter that is.
pub(crate) fn read(
    query: Option<&str>,
    names: &str,
    mut set: impl FnMut(&str, Cow<'_, str>) -> Option<Result<(), String>>,
) -> Result<(), String> {
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match set(&name, value) {
            Some(read) => read?,
            None => return Err(format!("there is no filter `{name}`; there are {names}")),
        }
    }
    Ok(())
}

/// Parses the whole number of a parameter.
///
/// # Errors
/// If it is none.
pub(crate) fn parse_number<T: FromStr>(name: &str, value: &str) -> Result<Option<T>, String> {
    value.parse().map(Some).map_err(|_| format!("`{name}` is `{value}`; give a whole number"))
}

/// Returns the number of items in a page.
///
/// # Errors
/// If it is out of range.
pub(crate) fn check_limit(limit: Option<usize>) -> Result<usize, String> {
    let limit = limit.unwrap_or(DEFAULT_PAGE);
    match (1..=MAX_PAGE).contains(&limit) {
        true => Ok(limit),
        false => Err(format!("`limit` is {limit}; give 1 to {MAX_PAGE}")),
    }
}

/// Parses a cursor, if there is one: its prefix, and what `parse` reads after it.
///
/// # Errors
/// If it is none that this server gave.
pub(crate) fn parse_cursor<T>(
    cursor: Option<&str>,
    prefix: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(cursor) = cursor else { return Ok(None) };
    let position = cursor.strip_prefix(prefix).and_then(parse);
    let unknown = || "`cursor` is not one of this server; give the `next` of the page before".to_owned();
    position.map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_1_to_500_items() {
        for (limit, expected) in [(None, Some(50)), (Some(1), Some(1)), (Some(500), Some(500))] {
            assert_eq!(check_limit(limit).ok(), expected);
        }
        for limit in [0, 501] {
            assert!(check_limit(Some(limit)).unwrap_err().contains("give 1 to 500"));
        }
    }

    #[test]
    fn foreign_cursors_are_rejected() {
        let parse = |cursor| parse_cursor(cursor, "before:", |text| text.parse::<u64>().ok());
        assert_eq!(parse(None), Ok(None));
        assert_eq!(parse(Some("before:7")), Ok(Some(7)));
        for cursor in ["", "7", "before:", "before:x", "after:7"] {
            assert!(parse(Some(cursor)).is_err(), "{cursor}");
        }
    }
}
