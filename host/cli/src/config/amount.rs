//! Amounts as people write them: `"250ms"`, `"64MiB"`, `"10M"`.

use fumehood::limits::parse_bytes;
pub(crate) use fumehood::settings::{Bytes, Count, Time};

/// Maximum memory of a call, in bytes: the size of a 32-bit address space.
pub(crate) const MAX_MEMORY_BYTES: usize = 4 << 30;

/// Reads an amount of bytes with its unit, as times are read: a bare number could mean bytes or mebibytes. Zero is
/// zero.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let size = parse_bytes(text).map_err(|error| error.to_string())?;
    let number = text.trim();
    if number.bytes().all(|byte| byte.is_ascii_digit()) && size != 0 {
        Err(format!("`{number}` has no unit; expected, for example, `{number}MiB`, or `{number}B` for bytes"))
    } else {
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fumehood::limits::parse_duration;

    #[test]
    fn sizes_have_units() {
        assert_eq!((parse_size("64MiB"), parse_size("100B"), parse_size("0")), (Ok(64 << 20), Ok(100), Ok(0)));
        assert_eq!(
            parse_size("64").unwrap_err(),
            "`64` has no unit; expected, for example, `64MiB`, or `64B` for bytes"
        );
        assert!(parse_size("much").unwrap_err().contains("invalid size `much`"));
        assert!(parse_duration("5").is_err(), "times have units too");
    }
}
