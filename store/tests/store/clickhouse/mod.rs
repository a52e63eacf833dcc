//! Failures that only the ClickHouse store must survive: a ClickHouse that is down, goes down, is
//! full, or is misconfigured.

pub(crate) mod cluster;
mod faults;
mod moving;
pub(crate) mod server;
mod statements;
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spanwise_store::StoreError;
use spanwise_store::clickhouse::{ClickHouseConfig, ClickHouseStore};
use spanwise_store::embedded::EmbeddedConfig;

/// A store that sends rows at once.
pub(crate) fn sending(address: &str, spool: &Path) -> ClickHouseConfig {
    configured(address, super::support::in_files(spool))
}

/// A store that does not send rows by itself.
pub(crate) fn keeping(address: &str, spool: &Path) -> ClickHouseConfig {
    let keep = super::support::in_memory(spool);
    let mut config = configured(address, keep.clone());
    config.spool.generation_max_age = keep.generation_max_age;
    config
}

fn configured(address: &str, spool: EmbeddedConfig) -> ClickHouseConfig {
    ClickHouseConfig::new(address.parse().expect("an address"), spool)
}

/// Opens the store. Waits if the previous one is just releasing the directory.
pub(crate) async fn open(config: ClickHouseConfig) -> Arc<ClickHouseStore> {
    for _ in 0..200 {
        match ClickHouseStore::open(config.clone()).await {
            Err(StoreError::Invalid(reason)) if reason.contains("in use") => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            opened => return opened.expect("the store opens"),
        }
    }
    panic!("the directory stays in use");
}
