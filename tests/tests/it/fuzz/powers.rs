//! Addresses, URLs and paths, put together at random from pieces that are known to mislead, at the decisions about
//! requests and folders.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use fumehood::permission::files::{Access, Folder, Quota};
use fumehood::permission::http::{HttpGrant, HttpLimits, decide};
use fumehood::{Call, ErrorKind, Grant, Host, Limits, Load};
use serde_json::json;

use super::cases::{self, Random};

const CANARY: &str = "CANARY: nobody may read this";

const URL_PIECES: &[&str] = &[
    "https:",
    "HTTPS:",
    "http:",
    "file:",
    "//",
    "/",
    "\\",
    "@",
    ":",
    ":443",
    ":8443",
    ":0",
    ":00443",
    "?",
    "#",
    "%",
    "%2e",
    "%2f",
    "%00",
    "..",
    ".",
    "/v1/",
    "/v1",
    "/v1/a",
    "/v2",
    "api.example.com",
    "API.example.com",
    "example.com",
    ".example.com",
    "evil.example",
    "127.0.0.1",
    "0x7f.1",
    "2130706433",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "localhost",
    "user",
    "user:pass",
    "\t",
    "\n",
    "\r\n",
    " ",
    "\u{0}",
    "\u{3002}",
    "\u{ff0e}",
    "\u{200b}",
    "\u{ad}",
    "xn--",
    "ß",
    "１２７",
    "*",
    ";",
    "&",
    "=",
];

const PATH_PIECES: &[&str] = &[
    "..",
    "../",
    "/..",
    ".",
    "./",
    "/",
    "//",
    "\\",
    "..\\",
    "sub",
    "sub/",
    "file",
    "file/",
    "canary",
    "outside",
    "inside",
    "out",
    "out/",
    "round",
    "loop",
    "/proc/self/root",
    "/proc/self/cwd",
    "/etc/passwd",
    "%2e%2e",
    "\u{0}",
    "...",
    " ",
    "~",
    "\n",
    "é",
];

fn put_together(random: &mut Random, pieces: &[&str], most: usize) -> String {
    (0..=random.below(most)).map(|_| *random.pick(pieces)).collect()
}

#[test]
fn addresses_and_urls() {
    let rules = ["GET https://api.example.com/v1/**", "GET https://*.example.com:8443/**"];
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let grant = HttpGrant::new(rules, Vec::new(), HttpLimits::default()).unwrap();
    let mut allowed = 0;
    cases::run("addresses and URLs", |random| {
        let mut url = put_together(random, URL_PIECES, 12);
        if random.below(2) == 0 {
            url = format!("https://api.example.com{url}");
        }
        let method = *random.pick(&["GET", "get", "POST", "GET ", "CONNECT", ""]);
        let Ok(permit) = decide(Some(&grant), method, &url) else { return };
        allowed += 1;
        // Whatever was requested, the request that is sent must match a rule by its literal parts.
        let host = permit.host().to_string();
        let port = permit.port();
        let path = permit.url().path().to_owned();
        let first = host == "api.example.com" && port == 443 && (path == "/v1" || path.starts_with("/v1/"));
        let second = host.ends_with(".example.com") && port == 8443;
        assert!(first || second, "{method} {url:?} was allowed as {}", permit.url());
        assert_eq!((permit.method(), permit.url().scheme(), permit.url().username()), ("GET", "https", ""), "{url:?}");
        assert!(!path.split('/').any(|step| step == ".." || step == "."), "{url:?}: {path}");
        let inner = inner_address(random);
        let outer = IpAddr::V4(Ipv4Addr::new(93, 184, 215, 14));
        assert!(grant.admit(&permit, &[inner]).is_err(), "{inner}");
        assert!(grant.admit(&permit, &[outer, inner]).is_err(), "{inner}");
        assert!(grant.admit(&permit, &[outer]).is_ok());
    });
    assert!(std::env::var_os("FUMEHOOD_FUZZ_CASE").is_some() || allowed > 0, "nothing was ever allowed");
}

/// Returns an address that is not public, in one of its disguises.
fn inner_address(random: &mut Random) -> IpAddr {
    let number = random.number();
    let [a, b, c, d, ..] = number.to_le_bytes();
    let v4 = match random.below(6) {
        0 => Ipv4Addr::new(127, a, b, c),
        1 => Ipv4Addr::new(10, a, b, c),
        2 => Ipv4Addr::new(192, 168, a, b),
        3 => Ipv4Addr::new(169, 254, a, b),
        4 => Ipv4Addr::new(172, 16 | (a & 15), b, c),
        _ => Ipv4Addr::new(224 | (a & 15), b, c, d),
    };
    let [high, low] =
        [u16::from_be_bytes([v4.octets()[0], v4.octets()[1]]), u16::from_be_bytes([v4.octets()[2], v4.octets()[3]])];
    match random.below(6) {
        0 => v4.into(),
        1 => v4.to_ipv6_mapped().into(),
        2 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into(),
        3 => Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into(),
        4 => Ipv6Addr::new(0xfe80 | u16::from(a & 0x3f), 0, 0, 0, 0, 0, 0, high).into(),
        _ => Ipv6Addr::new(0xfc00 | u16::from(a), 0, 0, 0, 0, 0, 0, low).into(),
    }
}

/// Returns the names and contents of everything outside the folder.
fn outside(root: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    for folder in [root.to_owned(), root.join("outside")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let content = if path.is_file() { std::fs::read_to_string(&path).unwrap() } else { String::new() };
            seen.push(format!("{} {content}", path.display()));
        }
    }
    seen.sort();
    seen
}

#[test]
fn paths_of_guests() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    std::fs::create_dir_all(at("granted/sub/inside")).unwrap();
    std::fs::create_dir(at("outside")).unwrap();
    std::fs::write(at("granted/file"), "file").unwrap();
    for canary in ["canary", "outside/canary"] {
        std::fs::write(at(canary), CANARY).unwrap();
    }
    for (name, target) in [("out", "../outside"), ("sub/round", ".."), ("loop", "loop")] {
        std::os::unix::fs::symlink(target, at("granted").join(name)).unwrap();
    }
    let folder = Folder::new(at("granted"), "/w", Access::Write(Quota::new(1 << 20, 200).unwrap())).unwrap();
    let limits = Limits::default().deadline(Duration::from_secs(10));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let host = Host::builder().concurrency(4).limits(limits).build().unwrap();
    let load = Load::bytes("it", fumehood_tests::component("files").unwrap());
    runtime.block_on(host.load(load.grant(Grant::none().with_folder(folder).unwrap()))).unwrap();
    let before = outside(root.path());
    cases::run("paths of guests", |random| {
        let path = put_together(random, PATH_PIECES, 8);
        let other = put_together(random, PATH_PIECES, 8);
        let (tool, arguments) = match random.below(6) {
            0 => ("read", json!({"folder": 0, "path": path, "follow": random.below(2)})),
            1 => ("write", json!({"folder": 0, "path": path, "how": 1, "offset": 0, "size": 9, "times": 1})),
            2 => ("mkdir", json!({"folder": 0, "path": path})),
            3 => ("unlink", json!({"folder": 0, "path": path})),
            4 => ("symlink", json!({"folder": 0, "target": other, "path": path})),
            _ => ("rename", json!({"folder": 0, "path": path, "to": 0, "new": other})),
        };
        let result = runtime.block_on(host.call(Call::new(format!("it__{tool}"), arguments)));
        assert!(!format!("{result:?}").contains(CANARY), "{tool} {path:?} {other:?}");
        let kind = result.error().map(|error| error.kind);
        assert!(!matches!(kind, Some(ErrorKind::Host | ErrorKind::Deadline)), "{tool} {path:?}: {result:?}");
        assert_eq!(outside(root.path()), before, "{tool} {path:?} {other:?}");
    });
}
