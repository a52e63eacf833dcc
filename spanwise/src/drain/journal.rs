//! The checkpoint beside the rings, and the batch that is on its way.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use spanwise_wire::flight::Origin;

use super::ROWS;
use crate::otlp::Signal;

const CHECKPOINT: &str = "drain.checkpoint";
const BATCH: &str = "drain.batch";
const CHECKPOINT_MAGIC: &[u8; 8] = b"SPWNCKP1";
const BATCH_MAGIC: &[u8; 8] = b"SPWNBAT1";
/// A file that is larger is none of ours.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// A message in OTLP's protobuf.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) signal: Signal,
    pub(super) items: u64,
    /// Empty if there is no endpoint for it.
    pub(super) bytes: Vec<u8>,
}

/// Messages with their number, and how far rings are read with them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) source: [u8; 16],
    /// Of its first part.
    pub(super) sequence: u64,
    /// The next batch's.
    next: u64,
    checkpoint: Vec<u8>,
    pub(super) messages: Vec<Message>,
}

/// Writes both files.
pub(super) struct Journal {
    dir: PathBuf,
    source: [u8; 16],
    sequence: u64,
}

impl Journal {
    /// Reads what an earlier agent left: its checkpoint, and a batch that it may not have sent.
    pub(super) fn open(dir: &Path) -> anyhow::Result<(Self, Option<Vec<u8>>, Option<Batch>)> {
        let mut journal =
            Self { dir: dir.to_owned(), source: Origin::growing_source(random()?), sequence: 1 };
        let mut checkpoint = None;
        if let Some(bytes) = journal.read(CHECKPOINT)? {
            let (source, sequence, state) = parse_checkpoint(&bytes).with_context(|| {
                format!(
                    "{} is damaged; if it is removed, spans that are still in the directory are \
                     sent again",
                    journal.checkpoint_path().display()
                )
            })?;
            (journal.source, journal.sequence) = (source, sequence);
            checkpoint = Some(state);
        }
        let waiting = match journal.read(BATCH)? {
            Some(bytes) => {
                let batch = parse_batch(&bytes).with_context(|| {
                    format!(
                        "{} is damaged; if it is removed, its spans are read again, and those \
                         that the server has may come twice",
                        dir.join(BATCH).display()
                    )
                })?;
                let is_next = checkpoint.is_none()
                    || (batch.source == journal.source && batch.sequence == journal.sequence);
                is_next.then_some(batch)
            }
            None => None,
        };
        Ok((journal, checkpoint, waiting))
    }

    pub(super) fn checkpoint_path(&self) -> PathBuf {
        self.dir.join(CHECKPOINT)
    }

    /// Writes a batch before it is sent.
    pub(super) fn write(&self, messages: Vec<Message>, checkpoint: &[u8]) -> anyhow::Result<Batch> {
        let spans: u64 = (messages.iter())
            .filter(|message| message.signal == Signal::Traces)
            .map(|message| message.items)
            .sum();
        let batch = Batch {
            source: self.source,
            sequence: self.sequence,
            next: self.sequence + spans.div_ceil(ROWS as u64),
            checkpoint: checkpoint.to_vec(),
            messages,
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(BATCH_MAGIC);
        bytes.extend_from_slice(&batch.source);
        for number in [batch.sequence, batch.next, checkpoint.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(checkpoint);
        for message in &batch.messages {
            let length = message.bytes.len() as u64;
            for number in [message.signal as u64, message.items, length] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&message.bytes);
        }
        self.put(BATCH, &bytes)?;
        Ok(batch)
    }

    /// A batch has been sent. Returns how far rings are read.
    pub(super) fn take(&mut self, batch: Batch) -> anyhow::Result<Vec<u8>> {
        (self.source, self.sequence) = (batch.source, batch.next);
        let mut bytes = CHECKPOINT_MAGIC.to_vec();
        bytes.extend_from_slice(&self.source);
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&batch.checkpoint);
        self.put(CHECKPOINT, &bytes)?;
        // If it stays, its number says that it has been sent.
        let _ = std::fs::remove_file(self.dir.join(BATCH));
        Ok(batch.checkpoint)
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.dir.join(name);
        let shown = || path.display().to_string();
        match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => {
                anyhow::ensure!(found.with_context(shown)?.is_file(), "{}: is no file", shown())
            }
        }
        let mut bytes = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut bytes))
            .with_context(shown)?;
        Ok(Some(bytes))
    }

    /// Whole or not at all. Never through a link that somebody else put there.
    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let new = self.dir.join(format!("{name}.new"));
        let _ = std::fs::remove_file(&new);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| std::fs::rename(&new, self.dir.join(name)))
            .with_context(|| {
                format!("{}: cannot be written, so nothing is sent from there", new.display())
            })
    }
}

fn random() -> anyhow::Result<[u8; 12]> {
    let mut bytes = [0; 12];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("/dev/urandom")?;
    Ok(bytes)
}

fn part<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(first)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(part(bytes, 8)?.try_into().ok()?))
}

fn sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(bytes)?).ok()?;
    part(bytes, length)
}

fn parse_checkpoint(mut bytes: &[u8]) -> Option<([u8; 16], u64, Vec<u8>)> {
    if part(&mut bytes, 8)? != CHECKPOINT_MAGIC {
        return None;
    }
    let source = part(&mut bytes, 16)?.try_into().ok()?;
    Some((source, number(&mut bytes)?, bytes.to_vec()))
}

fn parse_batch(mut bytes: &[u8]) -> Option<Batch> {
    if part(&mut bytes, 8)? != BATCH_MAGIC {
        return None;
    }
    let source = part(&mut bytes, 16)?.try_into().ok()?;
    let (sequence, next) = (number(&mut bytes)?, number(&mut bytes)?);
    let checkpoint = sized(&mut bytes)?.to_vec();
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let signal = match number(&mut bytes)? {
            0 => Signal::Traces,
            1 => Signal::Logs,
            2 => Signal::Metrics,
            _ => return None,
        };
        let items = number(&mut bytes)?;
        messages.push(Message { signal, items, bytes: sized(&mut bytes)?.to_vec() });
    }
    Some(Batch { source, sequence, next, checkpoint, messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(items: u64) -> Message {
        Message { signal: Signal::Traces, items, bytes: vec![1; 5] }
    }

    #[test]
    fn a_batch_that_was_not_taken_is_there_again_and_one_that_was_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut journal, checkpoint, waiting) = Journal::open(dir.path()).expect("opened");
        assert_eq!((checkpoint, waiting), (None, None));
        journal.write(vec![message(ROWS as u64 + 1)], b"one").expect("written");
        // Killed before it was sent, or before that was noted.
        let (_, checkpoint, waiting) = Journal::open(dir.path()).expect("opened");
        let waiting = waiting.expect("a batch");
        assert_eq!((checkpoint, waiting.sequence, waiting.next), (None, 1, 3));
        assert_eq!(waiting.messages, [message(ROWS as u64 + 1)]);
        let kept = std::fs::read(dir.path().join(BATCH)).expect("read");
        assert_eq!(journal.take(waiting).expect("taken"), b"one");
        // Killed before it was removed.
        std::fs::write(dir.path().join(BATCH), kept).expect("written");
        let (again, checkpoint, waiting) = Journal::open(dir.path()).expect("opened");
        assert_eq!((checkpoint.as_deref(), waiting), (Some(&b"one"[..]), None));
        assert_eq!((again.source, again.sequence), (journal.source, 3));
    }

    #[test]
    fn damaged_files_are_named() {
        for (name, bytes) in
            [(CHECKPOINT, &b"SPWNCKP1 cut"[..]), (BATCH, b"SPWNBAT1"), (BATCH, b"")]
        {
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::write(dir.path().join(name), bytes).expect("written");
            let error = Journal::open(dir.path()).err().expect("an error");
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
    }
}
