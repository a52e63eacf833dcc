//! Iterates over the records of a file.

use std::io::{self, BufRead, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::IgnoredAny;

use super::kind::{self, Kind};
use super::open::ZSTD;
use super::{FileError, FileLimits};
use crate::compression::{Encoding, decompress};
use crate::otlp::Decoded;

/// How a file is divided into records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// JSON: one document on each line, or one document of several lines.
    Text,
    /// Each record follows its length: 4 bytes, big-endian.
    Prefixed,
    /// The whole file is one protobuf message.
    Message,
}

/// One record of a file.
#[derive(Debug)]
pub struct Record {
    /// Its position, for display.
    pub place: String,
    /// Its format.
    pub kind: Kind,
    /// Its rows and the rejected spans. `None` for telemetry other than spans.
    pub decoded: Option<Decoded>,
    /// Its bytes in the decompressed file.
    pub bytes: Vec<u8>,
}

/// Iterates over a file's records. It ends after an error that does not [allow to
/// continue](FileError::goes_on).
pub struct Records {
    input: Box<dyn BufRead + Send>,
    shape: Shape,
    limits: FileLimits,
    /// Number of lines or records read.
    number: u64,
    ended: bool,
}

impl Records {
    pub(super) const fn new(
        input: Box<dyn BufRead + Send>,
        shape: Shape,
        limits: FileLimits,
    ) -> Self {
        Self { input, shape, limits, number: 0, ended: false }
    }

    fn place(&self) -> String {
        match self.shape {
            Shape::Text => format!("line {}", self.number),
            Shape::Prefixed => format!("message {}", self.number),
            Shape::Message => "the message".to_owned(),
        }
    }

    fn io(&self) -> impl Fn(io::Error) -> FileError + use<> {
        let place = format!("after {}", self.place());
        move |source| match source.kind() {
            // The decompressor's error for an unfinished file.
            io::ErrorKind::UnexpectedEof => {
                FileError::CutOff { place: format!("the compressed file, {place},") }
            }
            _ => FileError::Io { place: place.clone(), source },
        }
    }

    /// Reads to the end of the line, or to the end of the file if `whole`.
    fn append(&mut self, bytes: &mut Vec<u8>, whole: bool) -> Result<(), FileError> {
        let limit_bytes = self.limits.record_bytes;
        let room = (limit_bytes + 1).saturating_sub(bytes.len()) as u64;
        let io = self.io();
        let mut rest = (&mut self.input).take(room);
        let read = if whole { rest.read_to_end(bytes) } else { rest.read_until(b'\n', bytes) };
        read.map_err(io)?;
        if bytes.len() > limit_bytes {
            return Err(FileError::TooLarge { place: self.place(), limit_bytes });
        }
        Ok(())
    }

    /// The next document and its position.
    fn text(&mut self) -> Result<Option<(String, Vec<u8>)>, FileError> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            self.number += 1;
            self.append(&mut bytes, false)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if self.number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
                bytes.drain(..3);
            }
            if !bytes.trim_ascii().is_empty() {
                break;
            }
        }
        let place = self.place();
        let error = match serde_json::from_slice::<IgnoredAny>(&bytes) {
            Ok(_) => return Ok(Some((place, bytes))),
            Err(error) => error,
        };
        let last = !bytes.ends_with(b"\n");
        match (error.is_eof(), last) {
            (true, true) => Err(FileError::CutOff { place }),
            // A document of several lines continues to the end of the file.
            (true, false) if bytes.trim_ascii().len() < PRETTY_LINE_BYTES => {
                self.append(&mut bytes, true)?;
                self.ended = true;
                match serde_json::from_slice::<IgnoredAny>(&bytes) {
                    Ok(_) => Ok(Some((place, bytes))),
                    Err(error) if error.is_eof() => {
                        Err(FileError::CutOff { place: format!("the document from {place} on") })
                    }
                    Err(error) => {
                        let line = self.number + error.line() as u64 - 1;
                        let place = format!("line {line}, column {}", error.column());
                        Err(FileError::Record { place, reason: no_json(&error) })
                    }
                }
            }
            _ => {
                let place = format!("{place}, column {}", error.column());
                Err(FileError::Record { place, reason: no_json(&error) })
            }
        }
    }

    /// The next length-prefixed record.
    fn prefixed(&mut self) -> Result<Option<(String, Vec<u8>)>, FileError> {
        let io = self.io();
        if self.input.fill_buf().map_err(io)?.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let place = self.place();
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FileError::CutOff { place: place.clone() },
            _ => FileError::Io { place: place.clone(), source: error },
        };
        let mut length = [0; 4];
        self.input.read_exact(&mut length).map_err(cut)?;
        let length = u32::from_be_bytes(length) as usize;
        let limit_bytes = self.limits.record_bytes;
        if length > limit_bytes {
            return Err(FileError::TooLarge { place, limit_bytes });
        }
        // Memory grows with the received bytes, not with the claimed length.
        let mut bytes = Vec::new();
        (&mut self.input).take(length as u64).read_to_end(&mut bytes).map_err(cut)?;
        if bytes.len() < length {
            return Err(FileError::CutOff { place });
        }
        if bytes.starts_with(&ZSTD) {
            bytes = decompress(Encoding::Zstd, &bytes, limit_bytes, |_| true).map_err(|error| {
                FileError::Record { place: place.clone(), reason: error.to_string() }
            })?;
        }
        Ok(Some((place, bytes)))
    }

    fn message(&mut self) -> Result<Option<(String, Vec<u8>)>, FileError> {
        self.ended = true;
        let mut bytes = Vec::new();
        self.append(&mut bytes, true)?;
        Ok(Some((self.place(), bytes)))
    }

    fn record(&mut self) -> Result<Option<Record>, FileError> {
        let next = match self.shape {
            Shape::Text => self.text()?,
            Shape::Prefixed => self.prefixed()?,
            Shape::Message => self.message()?,
        };
        let Some((place, bytes)) = next else { return Ok(None) };
        let read = kind::read(&bytes, &self.limits.spans, now_unix_nano());
        match read {
            Ok((kind, decoded)) => Ok(Some(Record { place, kind, decoded, bytes })),
            // The first record determines the file's format.
            Err(kind::RecordError::Unknown(reason)) if self.number <= 1 => {
                Err(FileError::Unknown { reason: format!("{place} {reason}") })
            }
            Err(kind::RecordError::Unknown(reason) | kind::RecordError::Wrong(reason)) => {
                Err(FileError::Record { place, reason })
            }
        }
    }
}

fn now_unix_nano() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The first line of a document that is formatted over several lines is short.
const PRETTY_LINE_BYTES: usize = 4096;

fn no_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The message contains the position within the record. Only the position in the file is
    // reported.
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("this is no JSON: {what}; mend or delete it")
}

impl Iterator for Records {
    type Item = Result<Record, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.record();
        self.ended |= match &record {
            Ok(None) => true,
            Ok(Some(_)) => false,
            Err(error) => !error.goes_on(),
        };
        record.transpose()
    }
}
