//! Which addresses may be connected to.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The addresses that `web_fetch` connects to. The address of the connection counts, not the name in the URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reach {
    /// Addresses of the public internet only. This is the default.
    #[default]
    Public,
    /// Addresses of the public internet, and these. For private servers and for tests.
    PublicAnd(Vec<IpAddr>),
    /// Every address, also those of this machine, of private networks and of cloud metadata services. Use it only where a
    /// firewall limits the process.
    Any,
}

impl Reach {
    /// Returns whether a connection to `address` is permitted.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        match self {
            Self::Public => is_public(address),
            Self::PublicAnd(others) => others.contains(&address) || is_public(address),
            Self::Any => true,
        }
    }
}

/// Returns whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The networks of IPv4 that are not public, with the number of bits of their prefix.
const NOT_PUBLIC: &[(Ipv4Addr, u32)] = &[
    // This network, and private ones.
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Behind the NAT of a provider; the metadata service of one cloud.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local; the metadata services of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // The host of a virtual machine at Azure.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Protocols, documentation, benchmarks, relays to IPv6.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, reserved and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !NOT_PUBLIC.iter().any(|(network, length)| (bits ^ network.to_bits()) >> (32 - length) == 0)
}

/// Only global unicast addresses (`2000::/3`) are public, without those that contain another address: Teredo, 6to4, ISATAP.
/// Mapped, compatible and translated IPv4 addresses, local and multicast ones are outside of this range.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, _, _, fifth, sixth, ..] = address.segments();
    let is_global = first & 0xe000 == 0x2000;
    let is_protocol = first == 0x2001 && second < 0x0200;
    let is_documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    let is_6to4 = first == 0x2002;
    let is_isatap = matches!(fifth, 0 | 0x0200) && sixth == 0x5efe;
    is_global && !is_protocol && !is_documentation && !is_6to4 && !is_isatap
}

/// The error of a connection to an address that is not permitted.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) address: IpAddr,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has the address {}", self.host, self.address)
    }
}

impl std::error::Error for Refused {}

/// Finds the addresses of a name.
pub(super) type Lookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync>;

/// Asks the resolver of the operating system.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// A resolver that returns permitted addresses only. The client connects to what it returns, and does not resolve the name
/// again, so that another answer of the name server between a check and the connection has no effect.
pub(super) struct Guard {
    pub(super) reach: Reach,
    pub(super) lookup: Lookup,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, found) = (self.reach.clone(), (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move {
            let found = found.await?;
            // One address that is not permitted is enough: an honest name has none.
            if let Some(address) = found.iter().find(|address| !reach.permits(**address)) {
                return Err(Refused { host: name.as_str().to_owned(), address: *address }.into());
            }
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("reach", &self.reach).finish_non_exhaustive()
    }
}
