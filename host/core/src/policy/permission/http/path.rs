//! Path patterns of rules, and detection of paths that servers may decode differently.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// Maximum number of percent-decodings. Servers decode once, some twice; a path that still changes after this many is
/// refused.
const MAX_DECODINGS: usize = 4;

/// A pattern of one path, or of all paths below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathPattern {
    /// The path itself, with any query.
    Exact(String),
    /// The path and everything below it. It has no trailing slash; all paths are below the empty one.
    Below(String),
}

impl PathPattern {
    /// Returns whether a path matches. Path and pattern are as returned by [`url::Url::path`].
    pub(super) fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == path,
            Self::Below(prefix) => {
                path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }

    /// Returns whether some path matches both patterns.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Below(_), Self::Exact(path)) => self.matches(path),
            (Self::Exact(path), Self::Below(_)) => other.matches(path),
            (Self::Below(one), Self::Below(two)) => self.matches(two) || other.matches(one),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => f.write_str(path),
            Self::Below(prefix) => write!(f, "{prefix}/**"),
        }
    }
}

/// Returns whether a server may interpret the path as another one than the one compared with the rules.
///
/// That is a path with a segment `.` or `..` (RFC 3986, section 5.2.4) or a zero byte, possibly only after further
/// decoding, or one that still changes after [`MAX_DECODINGS`] decodings.
pub(super) fn is_ambiguous(path: &str) -> bool {
    let mut path = Cow::Borrowed(path.as_bytes());
    for _ in 0..MAX_DECODINGS {
        // For some servers, a semicolon begins a parameter of the segment (RFC 3986, section 3.3).
        let is_dot_segment = |segment: &[u8]| matches!(segment.split(|byte| *byte == b';').next(), Some(b"." | b".."));
        if path.contains(&0) || path.split(|byte| matches!(byte, b'/' | b'\\')).any(is_dot_segment) {
            return true;
        }
        let decoded: Cow<'_, [u8]> = percent_decode(&path).into();
        if *decoded == *path {
            return false;
        }
        path = Cow::Owned(decoded.into_owned());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_match_whole_segments() {
        fn check(pattern: &PathPattern, path: &str, expected: bool) {
            assert_eq!(pattern.matches(path), expected, "{path}");
        }

        let below = PathPattern::Below("/v1".to_owned());
        for (path, expected) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/a/b", true),
            ("/v10", false),
            ("/v", false),
            ("/V1/a", false),
            ("/", false),
            ("//v1/a", false),
            ("/%761/a", false),
        ] {
            check(&below, path, expected);
        }
        let all = PathPattern::Below(String::new());
        for path in ["/", "/a", "/a/b"] {
            check(&all, path, true);
        }
        let exact = PathPattern::Exact("/v1".to_owned());
        for (path, expected) in [("/v1", true), ("/v1/", false), ("/v1/a", false)] {
            check(&exact, path, expected);
        }
    }

    #[test]
    fn detects_encoded_dot_segments() {
        for path in [
            "/a/../b",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/%2e%2e%2fb",
            "/a/..%2fb",
            "/a/..%5cb",
            "/a/%252e%252e%252fb",
            "/a/%25252e%25252e/b",
            "/a/%2525252525252e/b",
            "/a/..;/b",
            "/a/..;x=1/b",
            "/a/.;/b",
            "/a%00b",
            "/a/..",
        ] {
            assert!(is_ambiguous(path), "{path}");
        }
        for path in
            ["/", "/a/b", "/a..b/c", "/...", "/a%2Fb", "/a;x=1/b", "/100%25", "/%C3%A4", "/a/%", "/.well-known/x"]
        {
            assert!(!is_ambiguous(path), "{path}");
        }
    }
}
