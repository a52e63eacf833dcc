//! What the ClickHouse store is to know.

use std::time::Duration;

use super::address::Address;
use crate::embedded::EmbeddedConfig;

/// Where ClickHouse is, and where spans wait for it.
#[derive(Debug, Clone)]
pub struct ClickHouseConfig {
    /// The ClickHouse.
    pub address: Address,
    /// This server's disk and memory for spans that ClickHouse does not have
    /// yet.
    pub spool: EmbeddedConfig,
    /// Bytes of files in the spool beyond which senders are refused, on top of
    /// what it has when it is opened.
    pub spool_max_bytes: u64,
    /// ClickHouse drops spans older than this; `None`: never.
    pub retain_age: Option<Duration>,
}

/// Spans are sent to ClickHouse this often: seldom enough for its liking, which
/// is one insert a second and thousands of rows in each.
const SEND_EVERY: Duration = Duration::from_secs(5);

impl ClickHouseConfig {
    /// The defaults, with this directory as the spool.
    pub fn new(address: Address, spool: EmbeddedConfig) -> Self {
        let generation_max_age = spool.generation_max_age.min(SEND_EVERY);
        Self {
            address,
            retain_age: spool.retain_age,
            spool: EmbeddedConfig { generation_max_age, ..spool },
            spool_max_bytes: 4 << 30,
        }
    }
}
