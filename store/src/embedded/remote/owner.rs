//! Ownership of a prefix: only the server whose id is in the owner object may write. Two servers
//! that merge and remove files would destroy each other's.

use std::fs;
use std::path::{Path, PathBuf};

use object_store::PutMode;
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Failure};
use crate::contract::StoreError;
use crate::embedded::{fault, private};

/// Key of the owner object.
pub(super) const KEY: &str = "owner.json";

/// The contents of the owner object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) id: String,
    /// The host's name, for operators.
    pub(super) host: String,
    pub(super) since_unix_seconds: u64,
}

/// A directory's knowledge about its bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    /// The directory's id as an owner.
    pub(super) id: String,
    pub(super) url: String,
    /// Whether the heads of all files in the bucket have been fetched.
    pub(super) adopted: bool,
}

fn path(directory: &Path) -> PathBuf {
    directory.join("object-storage.json")
}

impl Marker {
    /// The directory's marker, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, because files might be overlooked.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, StoreError> {
        let path = path(directory);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault::io(format!("cannot read {}", path.display()))(error)),
        };
        let marker = serde_json::from_str(&text).map_err(|error| {
            StoreError::Invalid(format!(
                "{} is damaged ({error}); restore it, or take the files over into an empty \
                 directory",
                path.display()
            ))
        });
        marker.map(Some)
    }

    /// Writes the marker durably.
    pub(super) fn write(&self, directory: &Path) -> Result<(), StoreError> {
        let path = path(directory);
        let text = serde_json::to_vec(self).map_err(fault::engine("cannot write a marker"))?;
        private::write_durably(&path, &text)
            .map_err(fault::io(format!("cannot write {}", path.display())))
    }
}

/// A unique id.
pub(super) fn new_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    // `RandomState` is the standard library's access to the system's random numbers.
    format!("{:016x}", std::hash::RandomState::new().build_hasher().finish())
}

/// The result of claiming a prefix.
pub(super) enum Claim {
    Own,
    /// The prefix belongs to another server.
    Others(Owner),
}

/// Reads the prefix's owner; `None` if there is none.
pub(super) async fn read(bucket: &Bucket) -> Result<Option<Owner>, Failure> {
    match bucket.get(KEY).await {
        Ok(found) => parse(&found.bytes, bucket).map(Some),
        Err(Failure::Missing) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn parse(bytes: &[u8], bucket: &Bucket) -> Result<Owner, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::Unreachable(format!(
            "{}/{KEY} is not what Spanwise writes ({error}); choose another prefix",
            bucket.url
        ))
    })
}

/// Makes `id` the owner if there is none or it is `take_over`.
pub(super) async fn claim(
    bucket: &Bucket,
    id: &str,
    take_over: Option<&str>,
) -> Result<Claim, Failure> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let own = Owner {
        id: id.to_owned(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        since_unix_seconds: since.map_or(0, |since| since.as_secs()),
    };
    let own = serde_json::to_vec(&own).map_err(|error| Failure::Here(error.to_string()))?;
    // If two servers claim at the same time, reading again shows which was first.
    for _ in 0..3 {
        let mode = match bucket.get(KEY).await {
            Err(Failure::Missing) => PutMode::Create,
            Err(failure) => return Err(failure),
            Ok(found) => {
                let owner = parse(&found.bytes, bucket)?;
                if owner.id == id {
                    return Ok(Claim::Own);
                }
                if take_over != Some(&owner.id) {
                    return Ok(Claim::Others(owner));
                }
                match bucket.has_versions {
                    true => PutMode::Update(found.version),
                    false => PutMode::Overwrite,
                }
            }
        };
        match bucket.put_if(KEY, own.clone().into(), mode).await {
            Ok(()) | Err(Failure::Conflict) => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::Unreachable(format!("{}/{KEY} changes all the time", bucket.url)))
}

/// The error if a prefix belongs to another server.
pub(super) fn refusal(bucket: &Bucket, owner: &Owner) -> String {
    format!(
        "{} belongs to the server with the id {} on host {}. If that one is gone for good, take \
         its files over: start with --object-storage-take-over {} and an empty data directory; \
         otherwise choose another prefix",
        bucket.url, owner.id, owner.host, owner.id
    )
}
