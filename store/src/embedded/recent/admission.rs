//! Decides whether memory has room for a batch, and how long a batch waits for room.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::contract::{Origin, StoreError};
use crate::embedded::EmbeddedStore;
use crate::embedded::state::State;

const RETRY_AFTER: Duration = Duration::from_secs(2);
/// How long a batch waits for room before its sender is refused. Normally, a file is written within
/// a second.
const ROOM_WITHIN: Duration = Duration::from_secs(1);
/// Batches that wait may take one part in this many of the memory for recent rows.
const WAITING_SHARE: u64 = 8;
/// Interval at which a batch is checked whose first copy is still in progress.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl EmbeddedStore {
    /// Reserves memory for a batch. Returns `None` if the batch was already stored.
    pub(crate) async fn admit(
        &self,
        bytes: u64,
        origin: Option<Origin>,
    ) -> Result<Option<()>, StoreError> {
        let deadline = Instant::now() + ROOM_WITHIN;
        let mut waiting = None;
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            let comes_twice = {
                let mut state = self.state.lock();
                if let Some(origin) = origin.filter(|origin| state.origins.knows(*origin)) {
                    tracing::debug!(sequence = origin.sequence, "a batch came twice");
                    state.count("batches_duplicate", 1);
                    return Ok(None);
                }
                let on_its_way = origin.is_some_and(|origin| state.pending.contains(&origin));
                if !on_its_way {
                    match self.reserve(&mut state, bytes) {
                        Ok(()) => {
                            state.pending.extend(origin);
                            return Ok(Some(()));
                        }
                        Err(Room::Never(error)) => return Err(error),
                        Err(Room::NotNow(reason)) => {
                            let may_wait = waiting.is_some()
                                || state.waiting_bytes + bytes
                                    <= self.config.recent_max_bytes / WAITING_SHARE;
                            if !may_wait || Instant::now() >= deadline {
                                return Err(refuse(&mut state, reason));
                            }
                            waiting.get_or_insert_with(|| Waiting::of(self, &mut state, bytes));
                        }
                    }
                }
                on_its_way
            };
            if comes_twice {
                // The first copy must finish before it is known whether this one is a duplicate.
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            } else {
                // Checks once more if the notification did not arrive in time.
                let _ = tokio::time::timeout_at(deadline.into(), room).await;
            }
        }
    }

    fn reserve(&self, state: &mut State, bytes: u64) -> Result<(), Room> {
        let most = self.config.recent_max_bytes;
        if bytes > most {
            state.count("batches_refused_too_large", 1);
            return Err(Room::Never(StoreError::Invalid(format!(
                "the batch takes {} MiB and all memory for recent spans is {} MiB; send smaller \
                 batches, or give more memory",
                bytes >> 20,
                most >> 20
            ))));
        }
        let held = state.recent.bytes() + state.pending_bytes;
        if held + bytes > most {
            let full = format!("{} of {} MiB for recent spans are taken", held >> 20, most >> 20);
            return Err(match &state.file_trouble {
                Some(trouble) => Room::Never(refuse(state, format!("{full}: {trouble}"))),
                None => Room::NotNow(format!("{full}: files are written slower than spans come")),
            });
        }
        state.pending_bytes += bytes;
        Ok(())
    }
}

/// Why there is no room for a batch.
enum Room {
    /// Waiting would not help.
    Never(StoreError),
    /// Rows are moving from memory to files, but not fast enough. The text is the reason for a
    /// refusal.
    NotNow(String),
}

fn refuse(state: &mut State, reason: String) -> StoreError {
    state.count("batches_refused_memory_full", 1);
    state.refused(&reason);
    StoreError::Full { reason, retry_after: RETRY_AFTER }
}

/// A batch that waits for room. Dropping it ends the wait, also if the sender disconnects.
struct Waiting<'a> {
    state: &'a Mutex<State>,
    bytes: u64,
}

impl<'a> Waiting<'a> {
    fn of(store: &'a EmbeddedStore, state: &mut State, bytes: u64) -> Self {
        state.waiting_bytes += bytes;
        Self { state: &store.state, bytes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.state.lock().waiting_bytes -= self.bytes;
    }
}
