//! Lines of a grant, with amounts that a person can read.

use fumehood::limits::{display_bytes, parse_bytes};

/// Keys whose values are amounts of bytes.
const BYTES: [&str; 4] = ["bytes", "bytes_in", "bytes_out", "key_value"];

/// Writes the amounts of a line of a grant with units, such as `key_value = 1.0 MiB`. Two different lines stay different, and
/// what is in quotes is left as it is.
pub(crate) fn readable(line: &str) -> String {
    let (quoted, rest) = line.split_at(line.rfind('"').map_or(0, |at| at + 1));
    let parts: Vec<String> = rest.split(", ").map(part).collect();
    format!("{quoted}{}", parts.join(", "))
}

fn part(part: &str) -> String {
    let amount =
        part.rsplit_once(" = ").filter(|(key, _)| BYTES.iter().any(|name| key.rsplit(' ').next() == Some(name)));
    match amount.and_then(|(key, digits)| Some((key, digits.parse::<u64>().ok()?))) {
        Some((key, bytes)) => format!("{key} = {}", amount_text(bytes)),
        None => part.to_owned(),
    }
}

/// With a unit if that is the very number.
fn amount_text(bytes: u64) -> String {
    let shown = display_bytes(bytes);
    match parse_bytes(&shown).is_ok_and(|read| read as u64 == bytes) {
        true => shown,
        false => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units_and_texts_stay() {
        let check = |line: &str, expected: &str| assert_eq!(readable(line), expected);
        check("key_value = 1048576", "key_value = 1.0 MiB");
        check("key_value = 1048577", "key_value = 1048577 B");
        check("scratch = bytes = 67108864, entries = 1000", "scratch = bytes = 64.0 MiB, entries = 1000");
        check(
            r#"write: "./o:/o, bytes = 1024", bytes = 2048, entries = 5"#,
            r#"write: "./o:/o, bytes = 1024", bytes = 2.0 KiB, entries = 5"#,
        );
        check(r#"env: A = "bytes = 1024""#, r#"env: A = "bytes = 1024""#);
        check("http_limits: requests = 3, bytes_out = 1024", "http_limits: requests = 3, bytes_out = 1.0 KiB");
    }
}
