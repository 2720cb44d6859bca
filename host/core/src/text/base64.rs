//! Base64 as others write it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Accepts what is left over in the last character, and any padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64 in the standard or the URL-safe alphabet, with or without padding, and with line ends (RFC 4648, sections 4
/// and 5; RFC 2045, section 6.8). A `data:` URL (RFC 2397) is read as its content.
///
/// # Errors
/// If a character is of neither alphabet, or the length is impossible.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    // The usual form needs no copy.
    LENIENT.decode(text).or_else(|_| LENIENT.decode(to_standard(text)))
}

/// Encodes bytes as base64 in the standard alphabet, with padding (RFC 4648, section 4).
#[must_use]
pub fn encode_base64(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

fn to_standard(text: &str) -> Vec<u8> {
    let content = match text.split_once(',') {
        Some((head, content)) if head.starts_with("data:") && head.ends_with(";base64") => content,
        _ => text,
    };
    let standard = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    });
    standard.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_usual_form() {
        let bytes = [0xfb, 0xff, 0xfe, 0x01];
        for text in [
            "+//+AQ==",
            "+//+AQ",
            "+//+AQ=",
            "-__-AQ==",
            "-__-AQ",
            "+//+\r\nAQ==\n",
            " -__-\n AQ ",
            "+/_-AR==",
            "data:image/png;base64,+//+AQ==",
        ] {
            assert_eq!(decode_base64(text), Ok(bytes.to_vec()), "{text:?}");
        }
        assert_eq!(decode_base64(""), Ok(Vec::new()));
        for text in ["!", "A", "AAAAA", "AA=A", "AA\u{200b}==", "é"] {
            assert!(decode_base64(text).is_err(), "{text:?}");
        }
    }
}
