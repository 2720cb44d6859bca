//! Which paths of a server a rule means, and which paths mean something else to a server that decodes them.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// Servers decode once; careless ones twice. A path that is still changing after this many times is meant to mislead.
const DECODINGS: usize = 4;

/// One path of a server, or all below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathPattern {
    /// This one, with any query.
    Exact(String),
    /// This one and everything below it. It has no slash at its end; all paths are below the empty one.
    Below(String),
}

impl PathPattern {
    /// Both are as [`url::Url::path`] gives them.
    pub(super) fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == path,
            Self::Below(prefix) => {
                path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }
}

impl PathPattern {
    /// Whether there is a path that both mean.
    pub(super) fn meets(&self, other: &Self) -> bool {
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

/// Whether the path has a step to itself or upwards, `.` or `..`, that shows only when it is decoded again: a server may
/// read it as a path that no rule was asked about.
pub(super) fn is_ambiguous(path: &str) -> bool {
    let mut path = Cow::Borrowed(path.as_bytes());
    for _ in 0..DECODINGS {
        // What stands behind a semicolon is a parameter of the step for some servers.
        let step = |step: &[u8]| matches!(step.split(|byte| *byte == b';').next(), Some(b"." | b".."));
        if path.contains(&0) || path.split(|byte| matches!(byte, b'/' | b'\\')).any(step) {
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
    fn a_prefix_ends_where_a_step_ends() {
        let check = |pattern: &PathPattern, path: &str, expected| assert_eq!(pattern.matches(path), expected, "{path}");
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
    fn steps_that_hide_in_an_encoding_are_found() {
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
