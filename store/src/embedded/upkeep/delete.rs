//! Forgets rows on request.

use std::sync::Arc;

use super::blocking;
use super::deletions::{self, Deletion, What};
use crate::contract::{Deleted, Selection, StoreError};
use crate::embedded::files::SpanFile;
use crate::embedded::files::reader;
use crate::embedded::{EmbeddedStore, fault};

impl EmbeddedStore {
    /// See [`crate::Store::delete`]. The rows stay in log and files for now,
    /// and no answer holds them; the next look of maintenance writes their
    /// files anew without them.
    pub(crate) async fn forget(&self, selection: &Selection) -> Result<Deleted, StoreError> {
        // Nothing moves from the log to a file, or from file to file, meanwhile.
        let _gate = self.moving.lock().await;
        // What was acknowledged is in an older generation than what comes.
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
            Deletion { number, through_generation, what: What::from(selection), rows }
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
                // It answers nothing until it can be reached.
                Err(_) if file.may_be_away() => {
                    let mut state = self.state.lock();
                    if state.forget(file) {
                        state.hidden.push(Arc::clone(file));
                    }
                }
                // It answers nothing any more, as all files that are damaged.
                Err(_) => drop(self.set_broken_aside(std::slice::from_ref(file)).await),
            }
        }
        // What is gone may come again.
        self.wal.look_again().await;
        let mut state = self.state.lock();
        state.count("deletions", 1);
        state.count("rows_deleted_on_request", rows);
        Ok(Deleted { rows })
    }

    /// Lets go of deletions that concern nothing any more.
    pub(crate) fn prune_deletions(&self) {
        let mut state = self.state.lock();
        // What is in object storage still, without being served, might be again.
        let is_unsure = state.has_unreadable_files
            || !state.hidden.is_empty()
            || self.remote.as_ref().is_some_and(|remote| remote.has_leaving());
        if state.deletions.list().is_empty() || is_unsure {
            return;
        }
        // A file none of whose rows are deleted has none of any deletion.
        let outdated = state.files.iter().filter(|file| file.is_outdated());
        let known = outdated.map(|file| file.deletions).min().unwrap_or(u64::MAX);
        let oldest = state.recent.oldest().map_or(u64::MAX, |(generation, _)| generation);
        if let Err(error) = state.deletions.prune(known, oldest) {
            // They do no harm where they are.
            tracing::warn!("{error}");
        }
    }
}

/// Takes the rows that the selections name out of a file's answers; how many.
pub(crate) fn apply(file: &SpanFile, selections: &[Selection]) -> Result<u64, StoreError> {
    if selections.is_empty() {
        return Ok(0);
    }
    let context = format!("cannot read {}", file.place());
    let rows = reader::selected(file, selections).map_err(fault::engine(context))?;
    Ok(file.remove_rows(rows))
}
