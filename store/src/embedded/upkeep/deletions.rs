//! Requested deletions.
//!
//! A deletion is one line in a file. It is durable before it is acknowledged. It applies to the
//! rows of all generations up to the one that was open when it was requested. Files that are
//! written later record that they exclude those rows. A deletion is removed when it affects nothing
//! any more.
//!
//! ```text
//! {"number":3,"through_generation":17,"service":"cart"}
//! {"number":4,"through_generation":18,"trace":"0af7…","rows":[[91,0,12]]}
//! ```

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use serde::{Deserialize, Serialize};
use spanwise_model::TraceId;
use spanwise_model::schema::column;

use crate::contract::{Selection, StoreError};
use crate::embedded::{fault, private};

/// One deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    /// Ascending. A file records the last one that is applied in it.
    pub(crate) number: u64,
    /// The last generation that it affects.
    pub(crate) through_generation: u64,
    #[serde(flatten)]
    pub(crate) what: StoredSelection,
    /// Rows in the log that belonged to the trace: batch, first row, number of rows. The log itself
    /// does not say to which trace a row was assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rows: Vec<(u64, u32, u32)>,
}

/// The selection in the file's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredSelection {
    /// A trace id in hexadecimal digits.
    Trace(String),
    /// A service's name.
    Service(String),
}

impl Deletion {
    /// The selection; `None` if the trace id is invalid.
    pub(crate) fn selection(&self) -> Option<Selection> {
        match &self.what {
            StoredSelection::Trace(id) => id.parse().ok().map(Selection::Trace),
            StoredSelection::Service(name) => Some(Selection::Service(name.clone())),
        }
    }
}

impl From<&Selection> for StoredSelection {
    fn from(selection: &Selection) -> Self {
        match selection {
            Selection::Trace(id) => Self::Trace(id.to_string()),
            Selection::Service(name) => Self::Service(name.clone()),
        }
    }
}

/// The columns that decide whether a row is selected.
pub(crate) const DECISIVE: [&str; 3] =
    [column::TRACE_ID, column::ASSEMBLED_TRACE_ID, column::SERVICE];

/// Calls a function for each selected row of a batch, which must have the deciding columns.
pub(crate) fn each_selected(
    batch: &RecordBatch,
    selections: &[Selection],
    mut tell: impl FnMut(usize),
) {
    let ids = |name| batch.column_by_name(name)?.as_fixed_size_binary_opt();
    let (headers, assembled) = (ids(column::TRACE_ID), ids(column::ASSEMBLED_TRACE_ID));
    let services = Services::of(batch, selections);
    let traces: Vec<TraceId> = selections
        .iter()
        .filter_map(|selection| match selection {
            Selection::Trace(id) => Some(*id),
            Selection::Service(_) => None,
        })
        .collect();
    let is = |ids: Option<&FixedSizeBinaryArray>, row| {
        ids.filter(|ids| ids.is_valid(row))
            .is_some_and(|ids| traces.iter().any(|trace| trace.0 == ids.value(row)))
    };
    for row in 0..batch.num_rows() {
        let of_trace = !traces.is_empty() && (is(headers, row) || is(assembled, row));
        if of_trace || services.as_ref().is_some_and(|services| services.has(row)) {
            tell(row);
        }
    }
}

/// The selected entries of a batch's service dictionary.
struct Services<'a> {
    keys: &'a [i32],
    selected: Vec<bool>,
}

impl<'a> Services<'a> {
    fn of(batch: &'a RecordBatch, selections: &[Selection]) -> Option<Self> {
        let services = batch.column_by_name(column::SERVICE)?.as_dictionary_opt::<Int32Type>()?;
        let names: &StringArray = services.values().as_string_opt()?;
        let wanted = |name: Option<&str>| {
            selections.iter().any(
                |selection| matches!(selection, Selection::Service(own) if Some(own.as_str()) == name),
            )
        };
        let selected: Vec<bool> = names.iter().map(wanted).collect();
        let any = selected.contains(&true);
        any.then(|| Self { keys: services.keys().values(), selected })
    }

    fn has(&self, row: usize) -> bool {
        let key = self.keys.get(row).and_then(|key| usize::try_from(*key).ok());
        key.and_then(|key| self.selected.get(key)).copied().unwrap_or(false)
    }
}

/// All deletions that still affect something.
#[derive(Debug)]
pub(crate) struct Deletions {
    path: PathBuf,
    list: Vec<Arc<Deletion>>,
    next_number: u64,
}

impl Deletions {
    /// Reads the deletions of a directory. A line that a crash truncated was never acknowledged and
    /// is ignored.
    ///
    /// # Errors
    /// If the file exists but cannot be read. Deleted rows must not reappear.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("deletions");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(fault::io(format!(
                    "cannot read {}, which holds what was deleted on request",
                    path.display()
                ))(error));
            }
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut list = Vec::new();
        for line in whole.lines() {
            let deletion: Deletion = serde_json::from_str(line).map_err(|error| {
                StoreError::Invalid(format!(
                    "{} is damaged ({error}), and would let deleted spans come back; restore it \
                     from a backup, or remove it if nothing was deleted on request",
                    path.display()
                ))
            })?;
            list.push(Arc::new(deletion));
        }
        let next_number = list.iter().map(|deletion| deletion.number + 1).max().unwrap_or(1);
        let deletions = Self { path, list, next_number };
        if whole.len() + 1 < text.len() {
            deletions.rewrite()?;
        }
        Ok(deletions)
    }

    /// Makes future numbers larger than those that files know.
    pub(crate) fn continue_after(&mut self, number: u64) {
        self.next_number = self.next_number.max(number + 1);
    }

    /// The number of the next deletion.
    pub(crate) const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The number of the last deletion; 0 if there was none.
    pub(crate) const fn last_number(&self) -> u64 {
        self.next_number - 1
    }

    /// The last generation that any deletion affects.
    pub(crate) fn through_generation(&self) -> u64 {
        self.list.iter().map(|deletion| deletion.through_generation).max().unwrap_or(0)
    }

    /// The selections of all deletions after this number.
    pub(crate) fn after(&self, number: u64) -> Vec<Selection> {
        let later = self.list.iter().filter(|deletion| deletion.number > number);
        later.filter_map(|deletion| deletion.selection()).collect()
    }

    /// All deletions, oldest first.
    pub(crate) fn list(&self) -> &[Arc<Deletion>] {
        &self.list
    }

    /// Adds a deletion whose line is durable.
    pub(crate) fn add(&mut self, deletion: Arc<Deletion>) {
        self.continue_after(deletion.number);
        self.list.push(deletion);
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes deletions that affect nothing any more: neither a file (all files have applied
    /// deletions up to `known`) nor a generation from `oldest_generation` on.
    pub(crate) fn prune(&mut self, known: u64, oldest_generation: u64) -> Result<(), StoreError> {
        let concerns = |deletion: &Arc<Deletion>| {
            deletion.number > known || deletion.through_generation >= oldest_generation
        };
        if self.list.iter().all(concerns) {
            return Ok(());
        }
        self.list.retain(concerns);
        self.rewrite()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        let written = || -> io::Result<()> {
            if self.list.is_empty() {
                fs::remove_file(&self.path)?;
            } else {
                let temporary = self.path.with_extension("tmp");
                let mut file = private::create(&temporary)?;
                for deletion in &self.list {
                    file.write_all(&line(deletion)?)?;
                }
                file.sync_all()?;
                fs::rename(&temporary, &self.path)?;
            }
            sync_parent(&self.path)
        };
        written().map_err(fault::io(format!("cannot write {}", self.path.display())))
    }
}

fn line(deletion: &Deletion) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(deletion)?;
    line.push(b'\n');
    Ok(line)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Writes a deletion durably.
///
/// # Errors
/// If it cannot be written. Nothing of the line remains then.
pub(crate) fn write(path: &Path, deletion: &Deletion) -> Result<(), StoreError> {
    let written = || -> io::Result<()> {
        let mut file = private::options().create(true).append(true).open(path)?;
        let before = file.metadata()?.len();
        let done = file
            .write_all(&line(deletion)?)
            .and_then(|()| file.sync_all())
            .and_then(|()| sync_parent(path));
        if done.is_err() {
            file.set_len(before)?;
        }
        done
    };
    written().map_err(fault::io(format!(
        "cannot write {}, so nothing is deleted; free some space, or see that the directory can be \
         written",
        path.display()
    )))
}

/// Converts rows of batches to ranges: batch, first row, number of rows.
pub(crate) fn ranges(rows: &[(u64, u32)]) -> Vec<(u64, u32, u32)> {
    let mut ranges: Vec<(u64, u32, u32)> = Vec::new();
    for &(batch, row) in rows {
        match ranges.last_mut() {
            Some((last, first, count)) if *last == batch && *first + *count == row => *count += 1,
            _ => ranges.push((batch, row, 1)),
        }
    }
    ranges
}

/// The rows that a deletion names, by batch.
pub(crate) fn named_rows(deletion: &Deletion) -> HashMap<u64, Vec<(u32, u32)>> {
    let mut named: HashMap<u64, Vec<(u32, u32)>> = HashMap::new();
    for &(batch, first, count) in &deletion.rows {
        named.entry(batch).or_default().push((first, count));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deletion(number: u64, what: StoredSelection) -> Deletion {
        Deletion { number, through_generation: number * 10, what, rows: Vec::new() }
    }

    #[test]
    fn lines_come_back_but_for_one_that_was_cut() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut open = Deletions::open(directory.path()).expect("nothing yet");
        assert_eq!((open.next_number(), open.last_number()), (1, 0));
        let trace = TraceId([7; 16]);
        let rows = ranges(&[(3, 0), (3, 1), (3, 5), (4, 6)]);
        assert_eq!(rows, [(3, 0, 2), (3, 5, 1), (4, 6, 1)]);
        let first =
            Deletion { rows, ..deletion(1, StoredSelection::from(&Selection::Trace(trace))) };
        let second = deletion(2, StoredSelection::Service("a \"b\"\n".to_owned()));
        for deletion in [&first, &second] {
            write(open.path(), deletion).expect("written");
            open.add(Arc::new(deletion.clone()));
        }
        let mut file = File::options().append(true).open(open.path()).expect("opened");
        file.write_all(br#"{"number":3,"through_gen"#).expect("written");
        let mut again = Deletions::open(directory.path()).expect("read");
        assert_eq!(again.list, [Arc::new(first), Arc::new(second)]);
        assert_eq!(again.next_number(), 3);
        assert_eq!(again.after(1), [Selection::Service("a \"b\"\n".to_owned())]);
        // The first affects neither files nor the log any more.
        again.prune(1, 11).expect("pruned");
        assert_eq!(again.list.len(), 1);
        let mut again = Deletions::open(directory.path()).expect("read");
        assert_eq!((again.list.len(), again.next_number()), (1, 3));
        again.prune(2, 21).expect("pruned");
        assert!(!again.path().exists());
    }

    #[test]
    fn a_damaged_line_is_an_error_that_says_what_to_do() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("deletions"), "{\"number\":1}\n").expect("written");
        let error = Deletions::open(directory.path()).expect_err("damaged");
        assert!(error.to_string().contains("come back"), "{error}");
    }
}
