//! Where an IP address leads: out, to this machine or its neighbours, or where no request may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A host of the public internet.
    Public,
    /// This machine itself.
    Loopback,
    /// A private network.
    Private,
    /// Nowhere that a request may go: link-local (cloud metadata lives there), multicast, unspecified,
    /// reserved, and tunnels that hide another address.
    Never,
}

/// Services that hand credentials to whoever asks, at addresses that look private.
const METADATA: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Where `address` leads, by the registries of special-purpose addresses (RFC 6890 and its heirs).
pub fn reach(address: IpAddr) -> Reach {
    if METADATA.contains(&address) {
        return Reach::Never;
    }
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(v4: Ipv4Addr) -> Reach {
    match v4.octets() {
        [127, ..] => Reach::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Reach::Private,
        [0, ..] | [169, 254, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => Reach::Never,
        [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => Reach::Never,
        _ => Reach::Public,
    }
}

fn reach_v6(v6: Ipv6Addr) -> Reach {
    if v6 == Ipv6Addr::LOCALHOST {
        return Reach::Loopback;
    }
    if let Some(v4) = v6.to_ipv4_mapped() {
        return reach(IpAddr::V4(v4));
    }
    match v6.segments() {
        // NAT64 leads to the IPv4 address at its end.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            match reach(IpAddr::V4(Ipv4Addr::new(a, b, c, d))) {
                Reach::Public => Reach::Public,
                _ => Reach::Never,
            }
        }
        [0xfc00..=0xfdff, ..] => Reach::Private,
        // Teredo, documentation, 6to4.
        [0x2001, 0 | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Never,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Reach {
        reach(text.parse().unwrap_or_else(|_| panic!("{text}")))
    }

    #[test]
    fn addresses_lead_where_the_registries_say() {
        for text in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"]
        {
            assert_eq!(of(text), Reach::Public, "{text}");
        }
        for text in ["127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(text), Reach::Loopback, "{text}");
        }
        for text in ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"] {
            assert_eq!(of(text), Reach::Private, "{text}");
        }
    }

    #[test]
    fn metadata_multicast_and_disguises_lead_nowhere() {
        let texts = [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "100.100.100.200",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.2.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:0:1::1",
            "::7f00:1",
        ];
        for text in texts {
            assert_eq!(of(text), Reach::Never, "{text}");
        }
    }
}
