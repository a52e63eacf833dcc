//! Limits on large answers: how many traces are read, sent and downloaded at the same time.
//! Each may be large, and a client may ask for any number of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::slow_reader;

/// Traces that are read and assembled at once. A small one takes milliseconds.
const READ: usize = 2;
/// Queries that are evaluated at once on whole traces. Most take milliseconds.
const EVALUATED: usize = 4;
const WAIT: Duration = Duration::from_secs(10);
/// Mebibytes of large answers that clients have not read yet.
const ANSWERED_MEBIBYTES: usize = 128;
/// Downloads at once. Each needs the memory of a trace, and a thread.
const DOWNLOADED: usize = 2;

/// A share of a limit, given back when it is dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

/// Limits on large answers. See the module's description.
pub(crate) struct AnswerLimits {
    read: Arc<Semaphore>,
    evaluated: Arc<Semaphore>,
    answered: Arc<Semaphore>,
    downloaded: Arc<Semaphore>,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            read: permits(READ),
            evaluated: permits(EVALUATED),
            answered: permits(ANSWERED_MEBIBYTES),
            downloaded: permits(DOWNLOADED),
        }
    }
}

impl AnswerLimits {
    /// Waits until a trace may be read.
    pub(crate) async fn to_read(&self) -> Result<Permit, Problem> {
        let permit = tokio::time::timeout(WAIT, Arc::clone(&self.read).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            Problem::busy(format!(
                "other traces were being read for all of {} s, of which {READ} are at the same \
                 time; ask again later",
                WAIT.as_secs()
            ))
        })
    }

    /// Waits until a query may be evaluated on whole traces.
    pub(crate) async fn to_evaluate(&self) -> Result<Permit, Problem> {
        let permit = tokio::time::timeout(WAIT, Arc::clone(&self.evaluated).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            Problem::busy(format!(
                "other queries were being evaluated for all of {} s, of which {EVALUATED} are at \
                 the same time; ask again later",
                WAIT.as_secs()
            ))
        })
    }

    /// A permit to send an answer of this size; `None` for a small one. It does not wait,
    /// because the answer is in memory.
    pub(crate) fn to_answer(&self, bytes: usize) -> Result<Option<Permit>, Problem> {
        if !slow_reader::is_large(bytes) {
            return Ok(None);
        }
        let mebibytes = bytes.div_ceil(1 << 20).min(ANSWERED_MEBIBYTES);
        let mebibytes = u32::try_from(mebibytes).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.answered).try_acquire_many_owned(mebibytes);
        permit.map(Some).map_err(|_| {
            Problem::busy(format!(
                "others have yet to read {ANSWERED_MEBIBYTES} MiB of answers; ask again later, or \
                 with a smaller `limit`"
            ))
        })
    }

    /// A permit to download a trace.
    pub(crate) fn to_download(&self) -> Result<Permit, Problem> {
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
    async fn permits_are_few_and_come_back() {
        let limits = AnswerLimits::default();
        let all: Vec<_> =
            (0..DOWNLOADED).map(|_| limits.to_download().expect("a permit")).collect();
        assert!(limits.to_download().is_err());
        drop(all);
        assert!(limits.to_download().is_ok());
        let large = limits.to_answer(200 << 20).expect("a permit");
        assert!(large.is_some());
        assert!(limits.to_answer(100 << 20).is_err());
        // A small answer needs no permit; one that is larger than the limit is sent alone.
        assert!(limits.to_answer(1 << 20).expect("always").is_none());
        drop(large);
        assert!(limits.to_answer(1 << 40).expect("a permit").is_some());
        let mut reading = Vec::new();
        for _ in 0..READ {
            reading.push(limits.to_read().await.expect("a permit"));
        }
        assert_eq!(limits.read.available_permits(), 0);
    }
}
