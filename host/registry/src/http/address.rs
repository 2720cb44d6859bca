//! Addresses that a registry may name: public ones, so that no redirect and no authorization service is behind the firewall.

use std::net::IpAddr;

use fumehood_core::policy::permission::http::check_public;
use url::{Host, Url};

/// Returns whether the host of a URL is one of this machine or network by what is written there. Names are resolved later.
pub(super) fn is_written_as_private(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => true,
    }
}

/// Returns whether two hosts have one owner, as far as names show: one is the other, is below it, or has the same parent of at
/// least two labels. Addresses are never of one site.
pub(super) fn is_same_site(one: &Url, other: &Url) -> bool {
    let (Some(Host::Domain(one)), Some(Host::Domain(other))) = (one.host(), other.host()) else { return false };
    is_below(one, other) || is_below(other, one) || (parent(one).is_some() && parent(one) == parent(other))
}

/// Returns whether a name is a site or below it. A site has at least two labels.
fn is_below(name: &str, site: &str) -> bool {
    let rest = name.strip_suffix(site).filter(|_| site.contains('.'));
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns the name above this one, if it has at least two labels.
fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent).filter(|parent| parent.contains('.'))
}

/// Returns whether an address belongs to the public Internet.
fn is_public(address: IpAddr) -> bool {
    check_public(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_which_hosts_are_of_one_site() {
        check_sites("registry-1.docker.io", "auth.docker.io", true);
        check_sites("registry.gitlab.com", "gitlab.com", true);
        check_sites("ghcr.io", "ghcr.io", true);
        check_sites("ghcr.io", "auth.io", false);
        check_sites("evil.example", "registry.example.com", false);
        check_sites("evilexample.com", "example.com", false);
        check_sites("com", "example.com", false);
        check_sites("127.0.0.1", "127.0.0.1", false);
        check_sites("10.0.0.1", "11.0.0.1", false);
        check_sites("localhost", "localhost", false);
    }

    fn check_sites(one: &str, other: &str, expected: bool) {
        assert_eq!(is_same_site(&url_of(one), &url_of(other)), expected, "{one} {other}");
        assert_eq!(is_same_site(&url_of(other), &url_of(one)), expected, "{other} {one}");
    }

    fn url_of(host: &str) -> Url {
        Url::parse(&format!("https://{host}/")).unwrap()
    }

    #[test]
    fn private_hosts_are_recognised_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "localhost",
            "a.LOCALHOST",
            "localhost.",
        ] {
            assert!(is_written_as_private(&Url::parse(&format!("https://{host}/")).unwrap()), "{host}");
        }
        assert!(!is_written_as_private(&Url::parse("https://ghcr.io/").unwrap()));
    }

    #[test]
    fn private_addresses_are_not_public() {
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
            "ff02::1",
        ];
        for text in private {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["1.1.1.1", "140.82.112.33", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
