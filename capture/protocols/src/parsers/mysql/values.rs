//! Numbers and flags in packets.

/// Precedes a query's text: no attributes, in one set.
pub(super) const NO_ATTRIBUTES: &[u8] = &[0, 1];

/// Capability bits that both sides exchange.
pub(super) mod capability {
    pub(in super::super) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(in super::super) const COMPRESS: u32 = 1 << 5;
    pub(in super::super) const PROTOCOL_41: u32 = 1 << 9;
    pub(in super::super) const TLS: u32 = 1 << 11;
    pub(in super::super) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in super::super) const LENGTH_ENCODED_AUTH: u32 = 1 << 21;
    pub(in super::super) const DEPRECATE_EOF: u32 = 1 << 24;
    pub(in super::super) const OPTIONAL_METADATA: u32 = 1 << 25;
    pub(in super::super) const ZSTD: u32 = 1 << 26;
    pub(in super::super) const QUERY_ATTRIBUTES: u32 = 1 << 27;
}

/// Reads a length-encoded integer; returns the value and the remaining bytes.
pub(super) fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let size = match first {
        0..=0xfa => return Some((u64::from(*first), rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let mut value = [0; 8];
    value[..size].copy_from_slice(rest.get(..size)?);
    Some((u64::from_le_bytes(value), &rest[size..]))
}
