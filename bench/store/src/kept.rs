//! Data that is kept between runs, so that queries can be measured again without sending the load
//! again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// A directory with the data of a load, and a note that identifies the load. Loads of one size and
/// end time are equal.
pub(crate) struct KeptData {
    note: PathBuf,
    load: String,
    end_unix_nano: Option<i64>,
}

impl KeptData {
    /// The data in this directory for the load that these flags request.
    pub(crate) fn open(directory: &Path, load: String) -> anyhow::Result<Self> {
        let context = || format!("cannot use the directory {}", directory.display());
        std::fs::create_dir_all(directory).with_context(context)?;
        let note = directory.join("load");
        let mut kept = Self { note, load, end_unix_nano: None };
        if kept.note.exists() {
            let text = std::fs::read_to_string(&kept.note).with_context(context)?;
            let (load, end) = text.trim().rsplit_once(' ').with_context(context)?;
            ensure!(
                load == kept.load,
                "{} holds another load, `{load}`; give its flags, or another directory",
                directory.display()
            );
            kept.end_unix_nano = Some(end.parse().with_context(context)?);
        }
        Ok(kept)
    }

    /// End of the stored load; `None` if there is none yet.
    pub(crate) const fn end_unix_nano(&self) -> Option<i64> {
        self.end_unix_nano
    }

    /// Records that the load with this end is stored.
    pub(crate) fn note(&self, end_unix_nano: i64) -> anyhow::Result<()> {
        let text = format!("{} {end_unix_nano}\n", self.load);
        std::fs::write(&self.note, text)
            .with_context(|| format!("cannot write {}", self.note.display()))
    }
}
