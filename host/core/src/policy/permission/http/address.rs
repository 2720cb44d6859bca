//! Classification of IP addresses: public, special-purpose, or private and named by the operator.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

use ipnet::IpNet;

use crate::policy::permission::GrantError;

/// The error of an address that is not public, with a description of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPublicError(&'static str);

impl fmt::Display for NotPublicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Special-purpose IPv4 networks by IANA's registry (RFC 6890): network, prefix length, description.
const SPECIAL_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "an address of this machine's own network (0.0.0.0/8)"),
    ([10, 0, 0, 0], 8, "a private address"),
    ([100, 64, 0, 0], 10, "an address behind a provider's NAT"),
    ([127, 0, 0, 0], 8, "a loopback address"),
    ([169, 254, 0, 0], 16, "a link-local address, where clouds keep their metadata"),
    ([172, 16, 0, 0], 12, "a private address"),
    ([192, 0, 0, 0], 24, "an address for protocols"),
    ([192, 0, 2, 0], 24, "an address for documentation"),
    ([192, 88, 99, 0], 24, "a relay for 6to4"),
    ([192, 168, 0, 0], 16, "a private address"),
    ([198, 18, 0, 0], 15, "an address for benchmarks"),
    ([198, 51, 100, 0], 24, "an address for documentation"),
    ([203, 0, 113, 0], 24, "an address for documentation"),
    ([224, 0, 0, 0], 4, "a multicast address"),
    ([255, 255, 255, 255], 32, "the broadcast address"),
    ([240, 0, 0, 0], 4, "a reserved address"),
];

/// Special-purpose IPv6 networks within 2000::/3. Addresses outside of 2000::/3 are not public at all.
const SPECIAL_V6: &[([u16; 2], u8, &str)] = &[
    ([0x2001, 0x0000], 32, "a Teredo address"),
    ([0x2001, 0x0db8], 32, "an address for documentation"),
    ([0x2001, 0x0000], 23, "an address for protocols"),
    ([0x3fff, 0x0000], 20, "an address for documentation"),
];

/// Checks that an address belongs to the public internet. An IPv6 address that embeds an IPv4 address is only as public
/// as that one.
///
/// # Errors
/// If the address is not public.
pub fn check_public(address: IpAddr) -> Result<(), NotPublicError> {
    match address {
        IpAddr::V4(address) => check_public_v4(address),
        IpAddr::V6(address) => check_public_v6(address),
    }
}

/// The private networks that an operator named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy::permission) struct NamedNetworks(Vec<IpNet>);

impl NamedNetworks {
    /// # Errors
    /// If one of them contains every address.
    pub(in crate::policy::permission) fn new(networks: Vec<IpNet>) -> Result<Self, GrantError> {
        match networks.iter().find(|net| net.prefix_len() == 0) {
            Some(every) => Err(GrantError::new(format!(
                "`{every}` would allow every private address; name a network, such as `127.0.0.1/32`"
            ))),
            None => Ok(Self(networks)),
        }
    }

    /// Returns the networks.
    pub(in crate::policy::permission) fn as_slice(&self) -> &[IpNet] {
        &self.0
    }

    /// Returns whether an address is in one of them.
    pub(in crate::policy::permission) fn contains(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        self.0.iter().any(|net| net.contains(&address) || net.contains(&canonical))
    }

    /// Checks that an address is public or in one of them.
    ///
    /// # Errors
    /// If it is neither.
    pub(in crate::policy::permission) fn check(&self, address: IpAddr) -> Result<(), NotPublicError> {
        if self.contains(address) { Ok(()) } else { check_public(address) }
    }

    /// Checks the address that a rule names.
    ///
    /// # Errors
    /// If the rule can never match, because the address is neither public nor in one of the networks.
    pub(in crate::policy::permission) fn check_rule(
        &self,
        rule: &impl fmt::Display,
        address: IpAddr,
    ) -> Result<(), GrantError> {
        self.check(address).map_err(|what| {
            let net = IpNet::from(address);
            GrantError::new(format!(
                "the rule `{rule}` can never match: {address} is {what}; allow it by private_addresses = [\"{net}\"]"
            ))
        })
    }
}

fn check_public_v4(address: Ipv4Addr) -> Result<(), NotPublicError> {
    let bits = address.to_bits();
    let special = SPECIAL_V4.iter().find(|(network, length, _)| {
        let network = u32::from_be_bytes(*network);
        (bits ^ network).leading_zeros() >= u32::from(*length)
    });
    special.map_or(Ok(()), |(.., what)| Err(NotPublicError(what)))
}

fn check_public_v6(address: Ipv6Addr) -> Result<(), NotPublicError> {
    if let Some((embedded, is_routed)) = embedded_v4(address) {
        check_public_v4(embedded)?;
        return if is_routed { Ok(()) } else { Err(NotPublicError("an IPv6 address that embeds an IPv4 address")) };
    }
    let [first, second, ..] = address.segments();
    let bits = (u32::from(first) << 16) | u32::from(second);
    let special = SPECIAL_V6.iter().find(|([first, second], length, _)| {
        let network = (u32::from(*first) << 16) | u32::from(*second);
        (bits ^ network).leading_zeros() >= u32::from(*length)
    });
    if let Some((.., what)) = special {
        return Err(NotPublicError(what));
    }
    match first {
        0x2000..=0x3fff => Ok(()),
        _ if address.is_unspecified() => Err(NotPublicError("the unspecified address")),
        _ if address.is_loopback() => Err(NotPublicError("a loopback address")),
        0xfc00..=0xfdff => Err(NotPublicError("a private address")),
        0xfe80..=0xfebf => Err(NotPublicError("a link-local address")),
        0xfec0..=0xfeff => Err(NotPublicError("a site-local address")),
        0xff00..=0xffff => Err(NotPublicError("a multicast address")),
        _ => Err(NotPublicError("an address outside of the public ranges")),
    }
}

/// Returns the IPv4 address embedded in an IPv6 address, and whether packets are routed to it.
///
/// They are for mapped, NAT64 (RFC 6052) and 6to4 (RFC 3056) addresses; the others are obsolete, or have a meaning in
/// one network only.
fn embedded_v4(address: Ipv6Addr) -> Option<(Ipv4Addr, bool)> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match (a, b, c, d, e, f) {
        _ if address.is_unspecified() || address.is_loopback() => None,
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => Some((join_v4(g, h), true)),
        (0, 0, 0, 0, 0, 0) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 1, ..) => Some((join_v4(g, h), false)),
        (0x2002, ..) => Some((join_v4(b, c), true)),
        // Teredo inverts every bit of the client's address (RFC 4380, section 4).
        (0x2001, 0, ..) => Some((join_v4(!g, !h), false)),
        _ => None,
    }
}

fn join_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &str) {
        let found = check_public(address.parse().unwrap()).map_or_else(|reason| reason.to_string(), |()| String::new());
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{address}: {found:?}");
    }

    #[test]
    fn accepts_public_addresses() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::200e",
            "2001:4860:4860::8888",
            "2001:200::1",
            // Embedded, and routed to the IPv4 address.
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:0808:0808::1",
        ] {
            check(address, "");
        }
    }

    #[test]
    fn rejects_special_addresses_with_a_description() {
        for (address, expected) in [
            ("0.0.0.0", "this machine"),
            ("0.255.255.255", "this machine"),
            ("10.0.0.0", "private"),
            ("10.255.255.255", "private"),
            ("100.64.0.0", "NAT"),
            ("100.127.255.255", "NAT"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.255", "loopback"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.0", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.1", "protocols"),
            ("192.0.2.1", "documentation"),
            ("192.88.99.1", "6to4"),
            ("192.168.0.1", "private"),
            ("198.18.0.0", "benchmarks"),
            ("198.19.255.255", "benchmarks"),
            ("198.51.100.1", "documentation"),
            ("203.0.113.1", "documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.254", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("fc00::1", "private"),
            ("fdff::1", "private"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
            ("100::1", "outside of the public ranges"),
            ("4000::1", "outside of the public ranges"),
            ("5f00::1", "outside of the public ranges"),
            ("2001:db8::1", "documentation"),
            ("2001:2::1", "protocols"),
            ("2001:10::1", "protocols"),
            ("3fff:fff::1", "documentation"),
        ] {
            check(address, expected);
        }
    }

    #[test]
    fn rejects_special_addresses_embedded_in_ipv6() {
        for (address, expected) in [
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:10.0.0.1", "private"),
            ("::ffff:0:127.0.0.1", "loopback"),
            ("::ffff:0:8.8.8.8", "embeds"),
            ("::127.0.0.1", "loopback"),
            ("::10.0.0.1", "private"),
            ("::8.8.8.8", "embeds"),
            ("64:ff9b::127.0.0.1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::10.0.0.1", "private"),
            ("64:ff9b:1::8.8.8.8", "embeds"),
            ("2002:7f00:1::1", "loopback"),
            ("2002:a9fe:a9fe::1", "link-local"),
            ("2002:c0a8:1::1", "private"),
            // The client 192.168.0.1, and then 8.8.8.8, of a Teredo address.
            ("2001:0:4136:e378:8000:63bf:3f57:fffe", "private"),
            ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", "embeds"),
        ] {
            check(address, expected);
        }
    }
}
