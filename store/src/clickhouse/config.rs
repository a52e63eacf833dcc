//! Settings of the ClickHouse store.

use std::time::Duration;

use super::address::Address;
use crate::embedded::EmbeddedConfig;

/// The ClickHouse and the spool of spans that wait for it.
#[derive(Debug, Clone)]
pub struct ClickHouseConfig {
    /// Address of the ClickHouse.
    pub address: Address,
    /// Local storage for spans that ClickHouse does not have yet.
    pub spool: EmbeddedConfig,
    /// Maximum bytes of files in the spool, in addition to those at startup. Beyond it, senders are
    /// refused.
    pub spool_max_bytes: u64,
    /// ClickHouse drops spans older than this. `None` means never.
    pub retain_age: Option<Duration>,
}

/// Interval at which spans are sent. ClickHouse prefers at most one insert a second, with thousands
/// of rows each.
const SEND_EVERY: Duration = Duration::from_secs(5);

impl ClickHouseConfig {
    /// Default settings with this spool.
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
