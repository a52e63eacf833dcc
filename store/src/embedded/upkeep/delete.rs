//! Deletes rows on request.

use std::sync::Arc;

use spanwise_model::schema::column;

use super::blocking;
use super::deletions::{self, Deletion, StoredSelection};
use crate::contract::{Deleted, Key, Outline, Selection, StoreError, TimeRange};
use crate::embedded::files::SpanFile;
use crate::embedded::files::reader;
use crate::embedded::keys::starts;
use crate::embedded::{EmbeddedStore, fault};

/// Rows of a trace that are assigned to it later start at most so long before or after the others.
const AROUND_NANO: i64 = 60_000_000_000;

impl EmbeddedStore {
    /// See [`crate::Store::delete`]. The rows remain in log and files for now, but no answer
    /// contains them. The next maintenance run rewrites the files without them.
    pub(crate) async fn forget(&self, selection: &Selection) -> Result<Deleted, StoreError> {
        // Before the deletion is durable, so that no crash leaves what was derived from its rows.
        let _deleting = self.derived.delete(self.time_of(selection).await?)?;
        // No rows move to a file or between files meanwhile.
        let _gate = self.moving.lock().await;
        // Acknowledged rows are in older generations than future ones.
        self.wal.rotate().await;
        let through_generation = self.wal.open_generation().saturating_sub(1);
        let deletion = {
            let state = self.state.lock();
            let rows = match selection {
                Selection::Trace(_) => state.recent.rows_of_trace(selection, through_generation),
                Selection::Service(_) => Ok(Vec::new()),
            };
            let rows = rows.map_err(fault::engine("cannot read rows in memory"))?;
            let number = state.deletions.next_number();
            Deletion { number, through_generation, what: StoredSelection::from(selection), rows }
        };
        let path = self.state.lock().deletions.path().to_owned();
        let deletion = blocking("deleting", move || {
            deletions::write(&path, &deletion)?;
            Ok(Arc::new(deletion))
        })
        .await?;
        let (mut rows, files) = {
            let mut state = self.state.lock();
            state.deletions.add(Arc::clone(&deletion));
            let rows = state.recent.delete(&deletion);
            (rows.map_err(fault::engine("cannot read rows in memory"))?, state.files.clone())
        };
        let selections = vec![selection.clone()];
        let looked = files.clone();
        let from_files = blocking("deleting", move || {
            Ok(looked.iter().map(|file| apply(file, &selections)).collect::<Vec<_>>())
        })
        .await?;
        for (file, removed) in files.iter().zip(from_files) {
            match removed {
                Ok(count) => rows += count,
                // The file is hidden until it can be reached.
                Err(_) if file.may_be_away() => {
                    let mut state = self.state.lock();
                    if state.forget(file) {
                        state.hidden.push(Arc::clone(file));
                    }
                }
                // The file is set aside like any damaged file.
                Err(_) => drop(self.set_broken_aside(std::slice::from_ref(file)).await),
            }
        }
        // Deleted spans may be sent again.
        self.wal.look_again().await;
        let mut state = self.state.lock();
        state.count("deletions", 1);
        state.count("rows_deleted_on_request", rows);
        Ok(Deleted { rows })
    }

    /// The time in which something may have been derived from the selected rows. Of a service, that
    /// is all time: what is derived from its rows may be about rows that call it, at any time before.
    async fn time_of(&self, selection: &Selection) -> Result<TimeRange, StoreError> {
        let Selection::Trace(id) = selection else { return Ok(TimeRange::ALL) };
        let keys = [Key::AssembledTrace(*id), Key::Trace(*id)];
        let outline = Outline { columns: vec![column::START_UNIX_NANO], attributes: Vec::new() };
        let found = self.look_up(&keys, TimeRange::ALL, Some(&outline)).await?;
        let rows = || found.iter().filter_map(starts).flat_map(|starts| starts.values());
        let (Some(first), Some(last)) = (rows().min(), rows().max()) else {
            return Ok(TimeRange { from_unix_nano: 0, to_unix_nano: 0 });
        };
        Ok(TimeRange {
            from_unix_nano: first.saturating_sub(AROUND_NANO),
            to_unix_nano: last.saturating_add(AROUND_NANO),
        })
    }

    /// Removes deletions that affect nothing any more.
    pub(crate) fn prune_deletions(&self) {
        let mut state = self.state.lock();
        // Remote files that are not served now may be served again.
        let is_unsure = state.has_unreadable_files
            || !state.hidden.is_empty()
            || self.remote.as_ref().is_some_and(|remote| remote.has_leaving());
        if state.deletions.list().is_empty() || is_unsure {
            return;
        }
        // All deletions are applied in a file without deleted rows.
        let outdated = state.files.iter().filter(|file| file.is_outdated());
        let known = outdated.map(|file| file.deletions).min().unwrap_or(u64::MAX);
        let oldest = state.recent.oldest().map_or(u64::MAX, |(generation, _)| generation);
        if let Err(error) = state.deletions.prune(known, oldest) {
            // Old deletions are harmless.
            tracing::warn!("{error}");
        }
    }
}

/// Marks a file's selected rows as deleted. Returns their number.
pub(crate) fn apply(file: &SpanFile, selections: &[Selection]) -> Result<u64, StoreError> {
    if selections.is_empty() {
        return Ok(0);
    }
    let context = format!("cannot read {}", file.place());
    let rows = reader::selected(file, selections).map_err(fault::engine(context))?;
    Ok(file.remove_rows(rows))
}
