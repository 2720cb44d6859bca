//! Addresses that a registry may redirect to: public ones, so that no redirect reaches a service behind the firewall.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves names to public addresses only.
#[derive(Debug)]
pub(super) struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err("it has no public address".into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns whether an address belongs to the public Internet (RFC 6890 and its registries).
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    let is_protocol = a == 192 && b == 0 && c == 0;
    let is_reserved = a == 0 || a >= 240;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_benchmark
        || is_protocol
        || is_reserved)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Global unicast; addresses that embed one of version 4 are judged by that.
    let [first, second, third, ..] = address.segments();
    if let Some(embedded) = address.to_ipv4_mapped() {
        return is_public_v4(embedded);
    }
    let is_documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    let is_tunnel = first == 0x2002 || (first == 0x2001 && second == 0);
    let is_translated = first == 0x0064 && second == 0xff9b && third <= 1;
    first & 0xe000 == 0x2000 && !is_documentation && !is_tunnel && !is_translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_this_machine_do_not_resolve() {
        let error = PublicResolver.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert_eq!(error.to_string(), "it has no public address");
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
