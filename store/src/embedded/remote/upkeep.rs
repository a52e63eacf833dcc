//! Background work with the bucket: uploads files that are old enough, removes files that are not
//! served any more, and evicts local copies. After failures it retries with growing pauses.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use super::Remote;
use super::bucket::Failure;
use crate::embedded::EmbeddedStore;
use crate::embedded::files::SpanFile;
use crate::embedded::upkeep::blocking;
use crate::embedded::upkeep::delete;

const LOOK_EVERY: Duration = Duration::from_millis(250);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Leftovers are searched for at the start, and then at this interval.
const LEFTOVERS_EVERY: Duration = Duration::from_secs(12 * 3600);

/// When to try again.
struct Times {
    pause: Duration,
    paused_until: Option<Instant>,
    leftovers_at: Instant,
}

/// Runs until the store is closed or dropped.
pub(crate) async fn run(store: Weak<EmbeddedStore>, remote: Arc<Remote>) {
    let mut times = Times { pause: FIRST_PAUSE, paused_until: None, leftovers_at: Instant::now() };
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        if store.closing.load(Ordering::Acquire) {
            return;
        }
        store.drop_copies(&remote).await;
        if times.paused_until.is_some_and(|until| Instant::now() < until) {
            continue;
        }
        match store.keep_in_step(&remote, &mut times).await {
            Ok(()) => {
                times.pause = FIRST_PAUSE;
                *remote.trouble_here.lock() = None;
            }
            Err(failure) => {
                if let Failure::Here(_) | Failure::Source(_) = &failure {
                    tracing::warn!("a file cannot be brought to object storage: {failure}");
                    *remote.trouble_here.lock() = Some(failure.to_string());
                }
                times.paused_until = Some(Instant::now() + times.pause);
                times.pause = (times.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl EmbeddedStore {
    async fn keep_in_step(&self, remote: &Arc<Remote>, times: &mut Times) -> Result<(), Failure> {
        if remote.is_away() || remote.taken_over.lock().is_some() {
            // Finds out here, and not in a reader, whether the problem is over.
            remote.check_owner().await?;
        }
        self.show_hidden(remote).await;
        while let Some(file) = self.next_to_upload(remote) {
            if self.closing.load(Ordering::Acquire) {
                return Ok(());
            }
            remote.check_owner().await?;
            match remote.upload(&file).await {
                Ok(uploaded) => {
                    let state = self.state.lock();
                    file.is_uploaded_as(&uploaded);
                    // The file may have been merged or dropped during the upload.
                    if !state.files.iter().any(|other| Arc::ptr_eq(other, &file)) {
                        uploaded.is_forgotten();
                        uploaded.leave();
                    }
                }
                Err(failure) => {
                    remote.figures.uploads_failed.fetch_add(1, Ordering::Relaxed);
                    if matches!(failure, Failure::Source(_)) {
                        // A damaged file must not block the others.
                        self.set_broken_aside(std::slice::from_ref(&file)).await;
                    }
                    return Err(failure);
                }
            }
            self.drop_copies(remote).await;
        }
        for head in remote.removable(|generations| self.is_replaced(generations)) {
            remote.check_owner().await?;
            remote.remove(&head).await?;
        }
        if Instant::now() >= times.leftovers_at {
            remote.check_owner().await?;
            remote.remove_leftovers().await?;
            times.leftovers_at = Instant::now() + LEFTOVERS_EVERY;
        }
        Ok(())
    }

    /// The oldest file that is old enough to upload.
    fn next_to_upload(&self, remote: &Remote) -> Option<Arc<SpanFile>> {
        let now = SystemTime::now();
        let is_due = |file: &&Arc<SpanFile>| {
            let waited = now.duration_since(file.waits_since).unwrap_or_default();
            // A file with deleted rows is rewritten first.
            file.remote().is_none() && !file.is_outdated() && waited >= remote.upload_after
        };
        self.state.lock().files.iter().find(is_due).cloned()
    }

    /// Whether the file that now contains these generations, if any, is in the bucket.
    fn is_replaced(&self, (first, last): (u64, u64)) -> bool {
        let state = self.state.lock();
        let overlaps =
            |file: &&Arc<SpanFile>| file.generations.0 <= last && first <= file.generations.1;
        let files = state.files.iter().chain(&state.hidden);
        files.filter(overlaps).all(|file| file.remote().is_some())
    }

    /// Serves hidden files again once their deleted rows are known.
    async fn show_hidden(&self, remote: &Remote) {
        let hidden = self.state.lock().hidden.clone();
        if hidden.is_empty() {
            return;
        }
        let _gate = self.moving.lock().await;
        for file in hidden {
            let selections = self.state.lock().deletions.after(file.deletions);
            let part = Arc::clone(&file);
            let applied = blocking("deleting", move || delete::apply(&part, &selections)).await;
            if applied.is_err() && file.damage().is_none() && remote.is_away() {
                return;
            }
            let mut state = self.state.lock();
            state.hidden.retain(|other| !Arc::ptr_eq(other, &file));
            match applied {
                Ok(_) => state.put(file),
                Err(error) => state.set_file_aside(&file, &error.to_string()),
            }
        }
    }
}
