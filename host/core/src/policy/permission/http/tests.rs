//! Tests of decisions about requests: rules, spellings of hosts, and resolved addresses.

use core::net::IpAddr;

use expect_test::{Expect, expect};
use ipnet::IpNet;
use proptest::prelude::*;

use super::{HttpGrant, HttpLimits, Reach, check_public, decide};

fn grant(rules: &[&str], private: &[&str]) -> HttpGrant {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let private = private.iter().map(|net| net.parse::<IpNet>().unwrap()).collect();
    HttpGrant::new(rules, private, HttpLimits::default()).unwrap()
}

#[test]
fn matches_method_scheme_host_port_and_path() {
    let grant = grant(&["GET,POST https://api.example.com/v1/**", "https://*.example.org:8443/a"], &[]);
    for (request, allowed) in [
        ("GET https://api.example.com/v1/x?q=1", true),
        ("POST https://API.example.com.:443/v1", true),
        ("GET https://api.example.com/v1/a/../b", true),
        ("HEAD https://api.example.com/v1/x", false),
        ("DELETE https://api.example.com/v1/x", false),
        ("GET http://api.example.com/v1/x", false),
        ("GET https://api.example.com:8443/v1/x", false),
        ("GET https://api.example.com/v10", false),
        ("GET https://api.example.com/v1/../v2", false),
        ("GET https://api.example.com/v1/%2e%2e/v2", false),
        ("GET https://api.example.com/v1/..%2fv2", false),
        ("GET https://api.example.com/", false),
        ("GET https://example.com/v1/x", false),
        ("GET https://api.example.com.evil.org/v1/x", false),
        ("GET https://api.example.com@evil.org/v1/x", false),
        ("GET https://evil.org/https://api.example.com/v1/x", false),
        ("GET https://x.example.org:8443/a", true),
        ("HEAD https://x.y.example.org:8443/a?b", true),
        ("GET https://example.org:8443/a", false),
        ("GET https://x.example.org:8443/a/b", false),
        ("CONNECT https://api.example.com/v1/x", false),
    ] {
        let (method, address) = request.split_once(' ').unwrap();
        assert_eq!(decide(Some(&grant), method, address).is_ok(), allowed, "{request}");
        assert!(decide(None, method, address).is_err(), "{request} without a grant");
    }
}

#[test]
fn refusal_names_the_line_that_would_allow_it() {
    fn check(grant: &HttpGrant, method: &str, address: &str, expected: Expect) {
        expected.assert_eq(&decide(Some(grant), method, address).unwrap_err().to_string());
    }

    let grant = grant(&["GET https://api.example.com/v1/**"], &[]);
    check(
        &grant,
        "GET",
        "https://other.example/a?secret=1",
        expect![[
            r#"http: GET https://other.example/a was refused, because no rule of this tool allows that host; to allow it: http = ["GET https://other.example/**"]"#
        ]],
    );
    check(
        &grant,
        "POST",
        "https://api.example.com/v1/x",
        expect![[
            r#"http: POST https://api.example.com/v1/x was refused, because its rule allows only GET; to allow it: http = ["POST https://api.example.com/**"]"#
        ]],
    );
    check(
        &grant,
        "GET",
        "https://api.example.com/v2",
        expect![[
            r#"http: GET https://api.example.com/v2 was refused, because no rule of this tool allows that path of the host; to allow it: http = ["GET https://api.example.com/**"]"#
        ]],
    );
    check(
        &grant,
        "GET",
        "http://api.example.com:8080/v1",
        expect![[
            r#"http: GET http://api.example.com:8080/v1 was refused, because the rules for that host name another scheme or port; to allow it: http = ["GET http://api.example.com:8080/**"]"#
        ]],
    );
    check(
        &grant,
        "GET",
        "https://u:p@api.example.com/",
        expect!["http: GET https://u:p@api.example.com/ was refused, because the URL contains a user or a password"],
    );
}

#[test]
fn line_of_a_refusal_allows_the_request() {
    for (method, address) in
        [("GET", "http://127.0.0.1:81/a"), ("PUT", "https://a.example/b/c"), ("GET", "http://[::1]/")]
    {
        let advice = decide(None, method, address).unwrap_err().allow.unwrap();
        let rule = advice.trim_start_matches("http = [\"").trim_end_matches("\"]");
        let grant = grant(&[rule], &["127.0.0.1/32", "::1/128"]);
        assert!(decide(Some(&grant), method, address).is_ok(), "{rule}");
    }
}

/// Spellings of loopback, private networks and cloud metadata (row 42 of `docs/hostile-corpus.md`). The parser maps
/// each of them to an address, or rejects it.
const SPELLINGS: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.1.",
    "127.000.000.001",
    "127.0.0.001",
    "0177.0.0.1",
    "0177.1",
    "0177.0.0.01",
    "0x7f.1",
    "0x7f.0.0.1",
    "0X7F.0x0.0X0.0x1",
    "0x7f000001",
    "0x7F000001.",
    "2130706433",
    "017700000001",
    "127.0x0.1",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "0x0",
    "00",
    "0.0",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::0001]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "１２７.０.０.１",
    "１２７.1",
    "127。0。0。1",
    "127．0．0．1",
    "①②⑦.⓪.⓪.①",
    "%31%32%37.0.0.1",
    "127.0.0.%31",
    "%30x7f.1",
    "169.254.169.254",
    "169.254.43518",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
    "10.0.0.1",
    "10.1",
    "012.0.0.1",
    "192.168.1.1",
    "192.168.257",
    "0300.0250.1.1",
    "172.16.0.1",
    "0xac100001",
    "100.64.0.1",
    "255.255.255.255",
    "4294967295",
    "224.0.0.1",
    "198.18.0.1",
];

#[test]
fn every_spelling_of_an_inner_address_is_refused() {
    assert!(SPELLINGS.len() >= 60, "{}", SPELLINGS.len());
    // Independent of the rules: a wildcard cannot match an address, and a grant of everything cannot be written.
    let wide = grant(&["http://*.example.com/**", "https://*.example.com/**", "http://1.1.1.1/**"], &[]);
    for spelling in SPELLINGS {
        for scheme in ["http", "https"] {
            let address = format!("{scheme}://{spelling}/");
            let refusal = decide(Some(&wide), "GET", &address).expect_err(spelling);
            assert!(refusal.to_string().contains("no rule"), "{refusal}");
            let url = url::Url::parse(&address).unwrap();
            let ip = match url.host().unwrap() {
                url::Host::Ipv4(ip) => IpAddr::V4(ip),
                url::Host::Ipv6(ip) => IpAddr::V6(ip),
                url::Host::Domain(name) => panic!("{spelling} is the name {name}"),
            };
            assert!(check_public(ip).is_err(), "{spelling} is {ip}");
        }
    }
    for invalid in [
        "127.0.0.1.1",
        "256.0.0.1",
        "0x100000000",
        "127.0.0.0x",
        "[::1",
        "[::1]a",
        "[::1%25eth0]",
        "127.0.0.1%00",
        "a b",
    ] {
        assert!(decide(Some(&wide), "GET", &format!("http://{invalid}/")).is_err(), "{invalid}");
    }
}

#[test]
fn admits_host_only_if_all_addresses_are_allowed() {
    fn check(grant: &HttpGrant, addresses: &[&str], expected: Option<Reach>) {
        let permit = decide(Some(grant), "GET", "https://api.example.com/").unwrap();
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(grant.admit(&permit, &addresses).ok(), expected, "{addresses:?}");
    }

    let open = grant(&["GET https://api.example.com/**"], &[]);
    let inside = grant(&["GET https://api.example.com/**"], &["10.0.0.0/8", "::1/128"]);
    check(&open, &["1.1.1.1", "2606:4700:4700::1111"], Some(Reach::Public));
    check(&open, &["1.1.1.1", "127.0.0.1"], None);
    check(&open, &["10.0.0.1"], None);
    check(&open, &["::ffff:10.0.0.1"], None);
    check(&inside, &["10.0.0.1"], Some(Reach::Named));
    check(&inside, &["::ffff:10.0.0.1", "::1"], Some(Reach::Named));
    check(&inside, &["10.0.0.1", "1.1.1.1"], Some(Reach::Public));
    check(&inside, &["10.0.0.1", "127.0.0.1"], None);
    check(&inside, &["64:ff9b::10.0.0.1"], None);
    let permit = decide(Some(&open), "GET", "https://api.example.com/").unwrap();
    let refusal = open.admit(&permit, &["127.0.0.1".parse().unwrap()]).unwrap_err();
    expect![[r#"http: GET https://api.example.com/ was refused, because its host is at 127.0.0.1, a loopback address; to allow it: private_addresses = ["127.0.0.1/32"]"#]]
        .assert_eq(&refusal.to_string());
}

#[test]
fn rejects_invalid_grants() {
    fn check(rules: &[&str], private: &[&str], limits: HttpLimits, expected: Expect) {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let private = private.iter().map(|net| net.parse().unwrap()).collect();
        expected.assert_eq(&HttpGrant::new(rules, private, limits).unwrap_err().to_string());
    }

    let default = HttpLimits::default();
    check(
        &[],
        &[],
        default,
        expect!["a grant of requests needs at least one rule; add a rule, or leave the grant out"],
    );
    check(
        &["https://a.example/**"],
        &[],
        HttpLimits { in_flight: 0, ..default },
        expect!["the limit `in_flight` of requests is zero, so no request could succeed; leave it out for the default"],
    );
    check(
        &["https://a.example/**"],
        &["0.0.0.0/0"],
        default,
        expect!["`0.0.0.0/0` would allow every private address; name a network, such as `127.0.0.1/32`"],
    );
    check(
        &["http://127.0.0.1:8080/**"],
        &["10.0.0.0/8"],
        default,
        expect![[
            r#"the rule `GET,HEAD http://127.0.0.1:8080/**` can never match: 127.0.0.1 is a loopback address; allow it by private_addresses = ["127.0.0.1/32"]"#
        ]],
    );
    check(
        &[],
        &[],
        default,
        expect!["a grant of requests needs at least one rule; add a rule, or leave the grant out"],
    );
}

proptest! {
    /// No input panics, and every allowed request is to a host that a rule names.
    #[test]
    fn allows_only_hosts_that_a_rule_names(method in "[A-Z]{1,8}|\\PC{0,8}", address in "\\PC{0,64}|https?://[^/]{0,24}/\\PC{0,24}") {
        let grant = grant(&["GET,POST https://api.example.com/v1/**", "http://*.example.org/**"], &[]);
        if let Ok(permit) = decide(Some(&grant), &method, &address) {
            let host = permit.host().to_string();
            prop_assert!(host == "api.example.com" || host.ends_with(".example.org"), "{}", host);
            prop_assert!(permit.url().as_str().starts_with("http"));
        }
    }

    /// No address panics, and embedding an address never makes it public.
    #[test]
    fn wrapping_an_address_does_not_make_it_public(bits: u32, wide: u128) {
        let _ = check_public(IpAddr::V6(wide.into()));
        let v4 = core::net::Ipv4Addr::from_bits(bits);
        let mapped = v4.to_ipv6_mapped();
        prop_assert_eq!(check_public(v4.into()).is_ok(), check_public(mapped.into()).is_ok());
    }
}
