//! Tags that are versions.

use semver::Version;

/// Returns the version that a tag is: three numbers and what may follow them by Semantic Versioning 2.0.0, such as `1.4.0` or
/// `v2.0.0-rc.1`. A `_` stands for the `+` of build metadata, which no tag may have. Other tags, such as `latest` and `1.4`, may move.
///
/// ```
/// use fumehood_registry::version::version_of_tag;
///
/// assert_eq!(version_of_tag("v1.4.0").map(|version| version.minor), Some(4));
/// assert_eq!(version_of_tag("1.4"), None);
/// ```
#[must_use]
pub fn version_of_tag(tag: &str) -> Option<Version> {
    Version::parse(&tag.strip_prefix('v').unwrap_or(tag).replace('_', "+")).ok()
}

/// Returns the tags of higher versions than this one, the highest first. Pre-releases count only if this one is one.
pub(crate) fn newer_tags(tags: Vec<String>, current: &Version) -> Vec<String> {
    let is_newer = |version: &Version| {
        version.cmp_precedence(current).is_gt() && (version.pre.is_empty() || !current.pre.is_empty())
    };
    let versions = tags.into_iter().filter_map(|tag| Some((version_of_tag(&tag).filter(is_newer)?, tag)));
    let mut newer: Vec<_> = versions.collect();
    newer.sort_by(|(one, _), (other, _)| other.cmp_precedence(one));
    newer.into_iter().map(|(_, tag)| tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_are_those_of_semantic_versioning() {
        let newer = |current: &str, tags: &[&str]| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            newer_tags(tags, &version_of_tag(current).unwrap()).join(" ")
        };
        assert_eq!(newer("0.1.0", &["0.3.0", "latest", "0.1.0", "0.10.0", "0.2", "0.0.9"]), "0.10.0 0.3.0");
        assert_eq!(newer("1.0.0", &["v1.0.1", "2.0.0-rc.1", "1.0.0_build.2", "sha256-00"]), "v1.0.1");
        assert_eq!(newer("2.0.0-rc.1", &["2.0.0-rc.2", "2.0.0", "1.9.0"]), "2.0.0 2.0.0-rc.2");
    }
}
