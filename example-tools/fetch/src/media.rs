//! Content types (RFC 9110, section 8.3).

/// Content types of text other than `text/…`.
const TEXT_TYPES: &[&str] = &[
    "application/ecmascript",
    "application/javascript",
    "application/json",
    "application/toml",
    "application/x-ndjson",
    "application/x-yaml",
    "application/xml",
    "application/yaml",
];

/// A content type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Media {
    /// Type and subtype in lower case, such as `text/html`.
    pub(crate) name: String,
    /// The character set in lower case, if it is given.
    pub(crate) charset: Option<String>,
}

impl Media {
    /// Parses a header. An empty one means `application/octet-stream`.
    pub(crate) fn parse(header: &str) -> Self {
        let mut parts = header.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty()).unwrap_or("application/octet-stream");
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.eq_ignore_ascii_case("charset").then(|| value.trim_matches('"').to_ascii_lowercase())
        });
        Self { name: name.to_ascii_lowercase(), charset }
    }

    pub(crate) fn is_html(&self) -> bool {
        matches!(self.name.as_str(), "text/html" | "application/xhtml+xml")
    }

    pub(crate) fn is_text(&self) -> bool {
        let name = self.name.as_str();
        name.starts_with("text/") || name.ends_with("+json") || name.ends_with("+xml") || TEXT_TYPES.contains(&name)
    }
}

/// Returns whether text in this character set can be decoded as UTF-8.
pub(crate) fn is_utf8_compatible(charset: &str) -> bool {
    matches!(charset, "utf-8" | "utf8" | "us-ascii" | "ascii")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_content_types() {
        let check = |header: &str, name: &str, charset: Option<&str>, is_text: bool| {
            let media = Media::parse(header);
            assert_eq!((media.name.as_str(), media.charset.as_deref()), (name, charset), "{header}");
            assert_eq!(media.is_text(), is_text, "{header}");
        };
        check("text/HTML", "text/html", None, true);
        check("text/plain; charset=\"UTF-8\"", "text/plain", Some("utf-8"), true);
        check("text/plain;a=b; CHARSET=latin1", "text/plain", Some("latin1"), true);
        check("application/ld+json", "application/ld+json", None, true);
        check("image/svg+xml", "image/svg+xml", None, true);
        check("application/pdf", "application/pdf", None, false);
        check("", "application/octet-stream", None, false);
    }
}
