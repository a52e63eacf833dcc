//! Files in object storage, and its failures.

mod costs;
mod faults;
mod moving;
mod server;

use std::path::Path;

use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore, ObjectStorageConfig};
use spanwise_store::{Store, StoreError};

use super::support::{append, files, in_files, until_in_files};
use server::S3;

/// A store whose rows become files and then objects with this prefix at once.
fn at(directory: &Path, object_storage: ObjectStorageConfig) -> EmbeddedConfig {
    EmbeddedConfig { object_storage: Some(object_storage), ..in_files(directory) }
}

async fn refusal(config: EmbeddedConfig) -> StoreError {
    match EmbeddedStore::open(config).await {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

/// Stores this many files of ten rows, and waits until they are uploaded.
async fn store_files(store: &dyn Store, first: u64, count: u64) {
    for n in first..first + count {
        append(store, n * 10..n * 10 + 10).await;
        until_in_files(store).await;
    }
}

/// Names of the objects of each kind, sorted.
fn objects(server: &S3, prefix: &str) -> [Vec<String>; 3] {
    ["heads", "spans", "shapes"].map(|kind| {
        let directory = server.objects(prefix).join(kind);
        if !directory.exists() {
            return Vec::new();
        }
        let name = |path: &std::path::PathBuf| {
            path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
        };
        files(&directory, "").iter().map(name).collect()
    })
}
