//! Decisions without input or output: references, the policy, and indexes.

use std::time::Duration;

use fumehood_core::digest::Digest;
use fumehood_core::time::Timestamp;
use fumehood_registry::index::{Index, IndexEntry, IndexError, IndexTool};
use fumehood_registry::index_history::IndexHistory;
use fumehood_registry::policy::{Pattern, Policy, PolicyError, SignatureRule, Trust};
use fumehood_registry::reference::{MAX_REFERENCE_BYTES, OciReference, Reference};
use fumehood_registry::signature::{Claim, Provenance, SignatureError, VerifiedSignature};
use proptest::prelude::*;

use crate::fixture::{KEY, NOW, OTHER_KEY, provenance, reference};

fn check(text: &str, expected: &str) {
    let found = match text.parse::<Reference>() {
        Ok(Reference::Oci(reference)) => format!("oci {reference}"),
        Ok(Reference::Url(reference)) => format!("url {reference}"),
        Ok(Reference::File(path)) => format!("file {}", path.display()),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{error:?}"),
    };
    assert!(found.starts_with(expected), "{text}: {found}");
}

#[test]
fn parses_references_and_says_what_is_wrong() {
    let digest = Digest::of(b"");
    let pinned = format!("oci://ghcr.io/acme/greeter@{digest}");
    check("oci://ghcr.io/acme/greeter:1.0", "oci oci://ghcr.io/acme/greeter:1.0");
    check(&pinned, &format!("oci {pinned}"));
    check("oci://GHCR.io:5000/a:B", "oci oci://ghcr.io:5000/a:B");
    check("oci://[::1]:5000/a/b__c/d--e:t", "oci oci://[::1]:5000/a/b__c/d--e:t");
    check("oci://ghcr.io/acme/greeter", "NoVersion");
    for host in ["", "a b", "user@host", "host:0", "host:99999", "host:", "-", "[::1", "a/../b:"] {
        let text = format!("oci://{host}/name:1");
        assert!(text.parse::<Reference>().is_err(), "{text}");
    }
    for name in ["", "A", "a/", "/a", "a//b", "a..b", "a___b", "-a", "a-", "a/../b", "ä"] {
        check(&format!("oci://ghcr.io/{name}:1"), "Name");
    }
    for tag in ["", "-a", ".a", "a b", "a:b", &"a".repeat(129)] {
        check(&format!("oci://ghcr.io/a:{tag}"), "Tag");
    }
    check("oci://ghcr.io/a@sha256:12", "Digest");
    check(&format!("oci://ghcr.io/{}:1", "a".repeat(250)), "Name");
    let hex = digest.hex();
    check(&format!("https://example.com/a.wasm#sha256={hex}"), &format!("url https://example.com/a.wasm#sha256={hex}"));
    check("https://example.com/a.wasm", "NoDigest");
    check("https://example.com/a.wasm#sha256=12", "Digest");
    check(&format!("http://example.com/a.wasm#sha256={hex}"), "Url");
    let secret = format!("https://ann:secret@example.com/a.wasm#sha256={hex}").parse::<Reference>().unwrap_err();
    assert!(!secret.to_string().contains("secret"), "{secret}");
    check("docker://ghcr.io/a:1", "Scheme");
    check("./a.wasm", "file ./a.wasm");
    check("C:/a.wasm", "file C:/a.wasm");
    check("file://a.wasm", "file a.wasm");
    check("", "Unreadable");
    check("a\nb", "Unreadable");
    check(&"a".repeat(MAX_REFERENCE_BYTES + 1), "TooLong");
}

proptest! {
    #[test]
    fn parsing_never_panics_and_round_trips(text in "(oci|https|http|file|x)?(://)?[ -~äß\u{202e}]{0,80}") {
        if let Ok(reference) = text.parse::<Reference>() {
            let again = reference.to_string().parse::<Reference>();
            prop_assert_eq!(again, Ok(reference));
        }
    }

    #[test]
    fn valid_names_round_trip(
        host in "[a-z]{1,10}\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?",
        name in "[a-z0-9]{1,8}((\\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}(/[a-z0-9]{1,8}){0,3}",
        tag in "[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}",
    ) {
        let text = format!("oci://{host}/{name}:{tag}");
        let reference: OciReference = text.parse().unwrap();
        prop_assert_eq!(reference.to_string(), text);
        prop_assert_eq!(reference.name(), format!("{host}/{name}"));
    }

    #[test]
    fn patterns_never_panic(text in "[ -~]{0,60}", name in "[a-z./:]{0,40}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            let _ = pattern.matches(&name);
        }
    }
}

#[test]
fn patterns_match_whole_names() {
    assert!(pattern_matches("ghcr.io/acme/**", "ghcr.io/acme/a"));
    assert!(pattern_matches("ghcr.io/acme/**", "ghcr.io/acme/a/b"));
    assert!(pattern_matches("GHCR.io/acme/*", "ghcr.io/acme/a"));
    assert!(!pattern_matches("ghcr.io/acme/*", "ghcr.io/acme/a/b"));
    assert!(!pattern_matches("ghcr.io/acme/**", "ghcr.io/acmeevil/a"));
    assert!(!pattern_matches("ghcr.io/acme/**", "evil.example/ghcr.io/acme/a"));
    assert!(!pattern_matches("ghcr.io/acme", "ghcr.io/acme/a"));
    assert!(pattern_matches("localhost:5000/**", "localhost:5000/a"));
    for text in ["", "oci://a/b", "a/b:1", "a/b@sha256:0", "a/[", &"a".repeat(600)] {
        assert!(matches!(text.parse::<Pattern>(), Err(PolicyError::Pattern { .. })), "{text}");
    }
}

fn pattern_matches(pattern: &str, name: &str) -> bool {
    pattern.parse::<Pattern>().unwrap().matches(name)
}

fn verified(signed_at: Option<&str>) -> VerifiedSignature {
    let provenance = Provenance { signed_at: signed_at.map(Into::into), ..provenance() };
    let digest = Digest::of(b"");
    let claim = Claim::new(&reference("ghcr.io", "acme/a:1"), digest, digest, provenance);
    VerifiedSignature { key: KEY.public().id(), claim }
}

#[test]
fn keys_of_a_namespace_replace_the_general_ones() {
    let general = KEY.public().clone();
    let own = OTHER_KEY.public().clone();
    let policy = Policy::new()
        .trusted_keys([general.clone()])
        .trusted("ghcr.io/acme/**".parse().unwrap(), [own.clone()])
        .trusted("ghcr.io/**".parse().unwrap(), []);
    assert_eq!(policy.keys_for("ghcr.io/acme/a"), [own]);
    assert_eq!(policy.keys_for("example.com/a"), [general]);
    assert!(policy.keys_for("ghcr.io/other/a").is_empty());
}

#[test]
fn rules_about_signatures_and_ages() {
    let missing = || Err(SignatureError::Missing { name: "a/b".to_owned() });
    let judge =
        |policy: Policy, verification| policy.judge("a/b", verification, NOW).map_err(|error| error.to_string());
    assert!(judge(Policy::new(), missing()).unwrap_err().contains("not signed"));
    assert!(matches!(judge(Policy::new(), Ok(verified(None))), Ok(Trust::Verified(_))));
    let warn = Policy::new().signatures(SignatureRule::Warn);
    assert!(matches!(judge(warn.clone(), missing()), Ok(Trust::Unverified(_))));
    let off = Policy::new().signatures(SignatureRule::Off);
    assert_eq!(judge(off, Ok(verified(None))), Ok(Trust::Unchecked));
    // The clock of the test says 2027-01-15.
    assert!(judge(cooled_policy(10), Ok(verified(Some("2027-01-01T00:00:00Z")))).is_ok());
    let young = judge(cooled_policy(20), Ok(verified(Some("2027-01-01T00:00:00Z")))).unwrap_err();
    assert!(young.contains("14days") && young.contains("20days"), "{young}");
    // Neither a missing time nor one in the future makes it old.
    for text in [None, Some("soon")] {
        assert!(judge(cooled_policy(1), Ok(verified(text))).unwrap_err().contains("no signature with a time"));
    }
    assert!(judge(cooled_policy(1), Ok(verified(Some("2127-01-01T00:00:00Z")))).unwrap_err().contains("0s ago"));
    assert!(judge(warn.min_age(Duration::from_secs(1)), missing()).is_err());
}

fn cooled_policy(days: u64) -> Policy {
    Policy::new().min_age(Duration::from_secs(days * 86_400))
}

fn entry(name: &str, title: &str, tool: &str, description: &str) -> IndexEntry {
    IndexEntry {
        reference: reference("ghcr.io", &format!("{name}:1")).with_digest(Digest::of(name.as_bytes())),
        component: Digest::of(title.as_bytes()),
        title: title.into(),
        description: "".into(),
        signers: vec![KEY.public().id()],
        tools: vec![IndexTool {
            name: tool.into(),
            description: description.into(),
            input_schema: r#"{"type":"object"}"#.into(),
        }],
    }
}

fn index() -> Index {
    let entries = vec![
        entry("acme/notes", "Notes", "search_notes", "Finds notes by words"),
        entry("acme/calendar", "Calendar", "add_event", "Adds an event, with notes"),
        entry("acme/units", "Units", "convert", "Converts lengths and weights"),
    ];
    Index::build("acme", NOW, entries).unwrap()
}

#[test]
fn finds_components_by_words() {
    let index = index();
    let search = |words: &str| {
        let found = index.search(words);
        found.iter().map(|found| &*found.entry.title).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(search("notes"), "Notes Calendar");
    assert_eq!(search("NOTES event"), "Calendar");
    assert_eq!(search("convert"), "Units");
    assert_eq!(search("nothing"), "");
    assert_eq!(search(" "), "");
}

#[test]
fn an_index_never_becomes_an_older_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = || IndexHistory::open(folder.path().join("indexes")).unwrap();
    let url = "https://example.com/acme.json";
    let key = KEY.public().id();
    let of = |millis| Index { issued_at: Timestamp(millis), ..index() };
    open().check(url, key, &of(2000)).unwrap();
    open().check(url, key, &of(2000)).unwrap();
    let error = open().check(url, key, &of(1999)).unwrap_err();
    for part in ["`acme`", "1970-01-01T00:00:01.999Z", "1970-01-01T00:00:02.000Z", "remove "] {
        assert!(error.to_string().contains(part), "{error}");
    }
    open().check(url, key, &of(3000)).unwrap();
    assert!(matches!(open().check(url, key, &of(2000)), Err(IndexError::Older { .. })));
    // Another place, another key, and the record that the message names.
    open().check("https://example.com/other.json", key, &of(1000)).unwrap();
    open().check(url, OTHER_KEY.public().id(), &of(1000)).unwrap();
    // A list that a replaced key signed long ago, where both keys are trusted.
    let old = OTHER_KEY.public().id();
    let both = [key, OTHER_KEY.public().id()];
    assert!(matches!(open().check_among(url, old, &both, &of(1000)), Err(IndexError::Older { .. })));
    open().check_among(url, old, &both, &of(3000)).unwrap();
    let IndexError::Older { record, .. } = error else { panic!("{error}") };
    std::fs::write(&record, "{").unwrap();
    assert!(matches!(open().check(url, key, &of(3000)), Err(IndexError::History { .. })));
    std::fs::remove_file(record).unwrap();
    open().check(url, key, &of(1000)).unwrap();
    open().check(url, key, &of(u64::MAX)).unwrap();
    assert!(matches!(open().check(url, key, &of(1000)), Err(IndexError::Older { .. })));
}

#[test]
fn an_index_is_verified_before_it_is_read() {
    let index = index();
    let trusted = [KEY.public().clone()];
    let file = index.sign(&KEY).unwrap();
    let open = |file: &str, name: &str| Index::open(file.as_bytes(), name, &trusted);
    assert_eq!(open(&file, "acme"), Ok((index.clone(), KEY.public().id())));
    assert!(matches!(open(&file, "other"), Err(IndexError::OtherName { .. })));
    let foreign = index.sign(&OTHER_KEY).unwrap();
    assert!(matches!(open(&foreign, "acme"), Err(IndexError::ForeignKey { .. })));
    // Another list under the signature of this one.
    let mut bundle: serde_json::Value = serde_json::from_str(&file).unwrap();
    let mut other = index.clone();
    other.entries.pop();
    let payload: serde_json::Value = serde_json::from_str(&other.sign(&KEY).unwrap()).unwrap();
    bundle["dsseEnvelope"]["payload"] = payload["dsseEnvelope"]["payload"].clone();
    assert!(matches!(open(&bundle.to_string(), "acme"), Err(IndexError::Wrong { .. })));
    for broken in ["", "{}", "[1]", &file[..file.len() / 2]] {
        assert!(matches!(open(broken, "acme"), Err(IndexError::Malformed { .. })), "{broken}");
    }
    let unpinned = IndexEntry { reference: reference("ghcr.io", "a:1"), ..index.entries[0].clone() };
    assert!(matches!(Index::build("acme", NOW, vec![unpinned]), Err(IndexError::Build(_))));
}
