//! How many traces are read, answered and downloaded at the same time: each may be
//! large, and anybody may ask for any number of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::held;
use crate::problem::Problem;

/// Traces that are read and assembled. A small one is done in milliseconds.
const READ: usize = 2;
const WAIT: Duration = Duration::from_secs(10);
/// Mebibytes of large answers that have not been read to their end.
const ANSWERED_MEBIBYTES: usize = 128;
/// Downloads, each of which keeps a trace in memory and a thread.
const DOWNLOADED: usize = 2;

/// A place.
pub(crate) type Place = OwnedSemaphorePermit;

/// See the module.
pub(crate) struct Places {
    read: Arc<Semaphore>,
    answered: Arc<Semaphore>,
    downloaded: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            read: places(READ),
            answered: places(ANSWERED_MEBIBYTES),
            downloaded: places(DOWNLOADED),
        }
    }
}

impl Places {
    /// To read a trace, once there is a place.
    pub(crate) async fn to_read(&self) -> Result<Place, Problem> {
        let place = tokio::time::timeout(WAIT, Arc::clone(&self.read).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| {
            Problem::busy(format!(
                "other traces were being read for all of {} s, of which {READ} are at the same \
                 time; ask again later",
                WAIT.as_secs()
            ))
        })
    }

    /// To answer so many bytes; none where they are few. Nobody waits for it with an
    /// answer in memory.
    pub(crate) fn to_answer(&self, bytes: usize) -> Result<Option<Place>, Problem> {
        if !held::is_large(bytes) {
            return Ok(None);
        }
        let mebibytes = bytes.div_ceil(1 << 20).min(ANSWERED_MEBIBYTES);
        let mebibytes = u32::try_from(mebibytes).unwrap_or(u32::MAX);
        let place = Arc::clone(&self.answered).try_acquire_many_owned(mebibytes);
        place.map(Some).map_err(|_| {
            Problem::busy(format!(
                "others have yet to read {ANSWERED_MEBIBYTES} MiB of answers; ask again later, or \
                 with a smaller `limit`"
            ))
        })
    }

    /// To download a trace.
    pub(crate) fn to_download(&self) -> Result<Place, Problem> {
        Arc::clone(&self.downloaded).try_acquire_owned().map_err(|_| {
            Problem::busy(format!(
                "{DOWNLOADED} traces are being downloaded, which is as many as can be at the same \
                 time; ask again later, or read it in pages"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn places_are_few_and_come_back() {
        let places = Places::default();
        let all: Vec<_> = (0..DOWNLOADED).map(|_| places.to_download().expect("a place")).collect();
        assert!(places.to_download().is_err());
        drop(all);
        assert!(places.to_download().is_ok());
        let large = places.to_answer(200 << 20).expect("a place");
        assert!(large.is_some());
        assert!(places.to_answer(100 << 20).is_err());
        // What is small is always answered, and what is larger than all room alone.
        assert!(places.to_answer(1 << 20).expect("always").is_none());
        drop(large);
        assert!(places.to_answer(1 << 40).expect("a place").is_some());
        let mut reading = Vec::new();
        for _ in 0..READ {
            reading.push(places.to_read().await.expect("a place"));
        }
        assert_eq!(places.read.available_permits(), 0);
    }
}
