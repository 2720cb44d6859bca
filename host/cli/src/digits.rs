//! 32 bytes as 64 hexadecimal digits.

/// The bytes, if these are 64 such digits.
pub(crate) fn parse(text: &str) -> Option<[u8; 32]> {
    let mut bytes = Vec::with_capacity(32);
    let mut digits = text.trim().chars();
    while let Some(high) = digits.next() {
        let byte = high.to_digit(16)? * 16 + digits.next()?.to_digit(16)?;
        bytes.push(u8::try_from(byte).ok()?);
    }
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_digits_will_do() {
        assert_eq!(parse("0F"), None);
        assert_eq!(parse(&"0F".repeat(32)), Some([15; 32]));
        for wrong in ["0g".repeat(32), "00".repeat(31), "00".repeat(33), "0".repeat(63), String::new()] {
            assert_eq!(parse(&wrong), None, "{wrong}");
        }
    }
}
