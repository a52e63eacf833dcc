//! Data that is kept from one run to the next, so that the questions can be asked
//! again without the load being sent again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// A directory with the data of a load, and a note of which load it is: loads of
/// one size that end at one time are equal.
pub(crate) struct Kept {
    note: PathBuf,
    load: String,
    end_unix_nano: Option<i64>,
}

impl Kept {
    /// What is kept in this directory, for the load that these flags ask for.
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

    /// When the load that is there ends; `None` where there is none yet.
    pub(crate) const fn end_unix_nano(&self) -> Option<i64> {
        self.end_unix_nano
    }

    /// Notes that the load, which ends at this time, is there.
    pub(crate) fn note(&self, end_unix_nano: i64) -> anyhow::Result<()> {
        let text = format!("{} {end_unix_nano}\n", self.load);
        std::fs::write(&self.note, text)
            .with_context(|| format!("cannot write {}", self.note.display()))
    }
}
