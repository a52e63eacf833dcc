//! Event streams as text: one JSON object a line, to be kept, read by people
//! and fed to a [`crate::tracer::Tracer`] again.
//!
//! Payload is a text in which each character stands for the byte of the same
//! number (ISO 8859-1), so that text protocols stay readable and nothing is
//! lost.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::event::{
    Closed, Command, Data, Datagram, Direction, Endpoint, Event, LeftOut, Opened, Plaintext,
    ProcessEvent, Records, StreamName, Task, Thread, Unread, is_zero,
};

/// A recording that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file failed.
    #[error("recording: {0}")]
    Io(#[from] std::io::Error),
    /// A line is no event.
    #[error("recording, line {line}: {reason}; expected one event as JSON, see recording.rs")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// An [`Event`] that owns its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RecordedEvent {
    /// See [`Event::Opened`].
    Opened(Opened),
    /// See [`Event::Data`].
    Data(RecordedData),
    /// See [`Event::Records`].
    Records(Records),
    /// See [`Event::Datagram`].
    Datagram(RecordedDatagram),
    /// See [`Event::Closed`].
    Closed(Closed),
    /// See [`Event::LeftOut`].
    LeftOut(LeftOut),
    /// See [`Event::Task`].
    Task(Task),
    /// See [`Event::StreamName`].
    StreamName(RecordedStreamName),
    /// See [`Event::Thread`].
    Thread(Thread),
    /// See [`Event::Exec`].
    Exec(ProcessEvent),
    /// See [`Event::Exit`].
    Exit(ProcessEvent),
}

/// A [`StreamName`] that owns its texts. Field by field the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented field by field in StreamName")]
pub struct RecordedStreamName {
    pub time_nano: u64,
    pub connection: u64,
    pub stream: u64,
    pub method: String,
    pub path: String,
}

/// A [`Data`] that owns its payload. Field by field the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented field by field in Data")]
pub struct RecordedData {
    pub time_nano: u64,
    pub connection: u64,
    pub process: u32,
    pub thread: u32,
    pub direction: Direction,
    pub seq: u32,
    pub length: u32,
    #[serde(default)]
    pub srtt_micros: u32,
    #[serde(default)]
    pub retransmits: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plaintext: Option<Plaintext>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub task: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parent_task: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_span: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sleeps: u32,
    #[serde(with = "latin1")]
    pub bytes: Vec<u8>,
}

/// A [`Datagram`] that owns its payload. Field by field the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented field by field in Datagram")]
pub struct RecordedDatagram {
    pub time_nano: u64,
    pub process: u32,
    pub thread: u32,
    pub direction: Direction,
    pub local: Endpoint,
    pub remote: Option<Endpoint>,
    pub network_namespace: u32,
    #[serde(default)]
    pub command: Command,
    pub length: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub task: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parent_task: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_span: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sleeps: u32,
    #[serde(with = "latin1")]
    pub bytes: Vec<u8>,
}

mod latin1 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        text.chars()
            .map(|c| {
                u8::try_from(u32::from(c)).map_err(|_| {
                    de::Error::custom(format!("`{c}` stands for no byte: payload is ISO 8859-1"))
                })
            })
            .collect()
    }
}

impl RecordedEvent {
    /// The event, its payload borrowed.
    pub fn event(&self) -> Event<'_> {
        match self {
            Self::Opened(opened) => Event::Opened(*opened),
            Self::Data(data) => Event::Data(Data {
                time_nano: data.time_nano,
                connection: data.connection,
                process: data.process,
                thread: data.thread,
                direction: data.direction,
                seq: data.seq,
                length: data.length,
                bytes: &data.bytes,
                srtt_micros: data.srtt_micros,
                retransmits: data.retransmits,
                plaintext: data.plaintext,
                unread: data.unread,
                task: data.task,
                parent_task: data.parent_task,
                current_span: data.current_span,
                sleeps: data.sleeps,
            }),
            Self::Records(records) => Event::Records(*records),
            Self::Datagram(datagram) => Event::Datagram(Datagram {
                time_nano: datagram.time_nano,
                process: datagram.process,
                thread: datagram.thread,
                direction: datagram.direction,
                local: datagram.local,
                remote: datagram.remote,
                network_namespace: datagram.network_namespace,
                command: datagram.command,
                length: datagram.length,
                bytes: &datagram.bytes,
                task: datagram.task,
                parent_task: datagram.parent_task,
                current_span: datagram.current_span,
                sleeps: datagram.sleeps,
            }),
            Self::Closed(closed) => Event::Closed(*closed),
            Self::LeftOut(left_out) => Event::LeftOut(*left_out),
            Self::Task(task) => Event::Task(*task),
            Self::StreamName(name) => Event::StreamName(StreamName {
                time_nano: name.time_nano,
                connection: name.connection,
                stream: name.stream,
                method: name.method.as_bytes(),
                path: name.path.as_bytes(),
            }),
            Self::Thread(thread) => Event::Thread(*thread),
            Self::Exec(process) => Event::Exec(*process),
            Self::Exit(process) => Event::Exit(*process),
        }
    }
}

impl From<&Event<'_>> for RecordedEvent {
    fn from(event: &Event<'_>) -> Self {
        match event {
            Event::Opened(opened) => Self::Opened(*opened),
            Event::Data(data) => Self::Data(RecordedData {
                time_nano: data.time_nano,
                connection: data.connection,
                process: data.process,
                thread: data.thread,
                direction: data.direction,
                seq: data.seq,
                length: data.length,
                srtt_micros: data.srtt_micros,
                retransmits: data.retransmits,
                plaintext: data.plaintext,
                unread: data.unread,
                task: data.task,
                parent_task: data.parent_task,
                current_span: data.current_span,
                sleeps: data.sleeps,
                bytes: data.bytes.to_vec(),
            }),
            Event::Records(records) => Self::Records(*records),
            Event::Datagram(datagram) => Self::Datagram(RecordedDatagram {
                time_nano: datagram.time_nano,
                process: datagram.process,
                thread: datagram.thread,
                direction: datagram.direction,
                local: datagram.local,
                remote: datagram.remote,
                network_namespace: datagram.network_namespace,
                command: datagram.command,
                length: datagram.length,
                bytes: datagram.bytes.to_vec(),
                task: datagram.task,
                parent_task: datagram.parent_task,
                current_span: datagram.current_span,
                sleeps: datagram.sleeps,
            }),
            Event::Closed(closed) => Self::Closed(*closed),
            Event::LeftOut(left_out) => Self::LeftOut(*left_out),
            Event::Task(task) => Self::Task(*task),
            Event::StreamName(name) => Self::StreamName(RecordedStreamName {
                time_nano: name.time_nano,
                connection: name.connection,
                stream: name.stream,
                method: String::from_utf8_lossy(name.method).into_owned(),
                path: String::from_utf8_lossy(name.path).into_owned(),
            }),
            Event::Thread(thread) => Self::Thread(*thread),
            Event::Exec(process) => Self::Exec(*process),
            Event::Exit(process) => Self::Exit(*process),
        }
    }
}

/// Reads a recording. Empty lines, and lines that begin with `#`, are passed
/// over.
///
/// # Errors
/// Where reading fails, or a line is no event.
pub fn read(from: impl BufRead) -> Result<Vec<RecordedEvent>, RecordingError> {
    let mut events = Vec::new();
    for (index, line) in from.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        events.push(serde_json::from_str(&line).map_err(|error| RecordingError::Line {
            line: index + 1,
            reason: error.to_string(),
        })?);
    }
    Ok(events)
}

/// Writes an event as the next line.
///
/// # Errors
/// Where writing fails.
pub fn write(to: &mut impl Write, event: &Event<'_>) -> Result<(), RecordingError> {
    let mut line = serde_json::to_string(&RecordedEvent::from(event))
        .map_err(|error| RecordingError::Io(std::io::Error::other(error)))?;
    line.push('\n');
    Ok(to.write_all(line.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives() {
        let bytes: Vec<u8> = (0..=255).collect();
        let event = Event::Data(Data {
            time_nano: 1,
            connection: 2,
            process: 3,
            thread: 4,
            direction: Direction::Sent,
            seq: u32::MAX,
            length: 256,
            bytes: &bytes,
            srtt_micros: 5,
            retransmits: 6,
            plaintext: Some(Plaintext { offset: 7, placed: true }),
            unread: Some(Unread::IoUring),
            task: u64::MAX,
            parent_task: 8,
            current_span: 9,
            sleeps: 9,
        });
        let mut text = Vec::new();
        write(&mut text, &event).unwrap();
        assert_eq!(read(text.as_slice()).unwrap()[0].event(), event);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let text =
            "# comment\n\n{\"event\":\"exit\",\"time_nano\":1,\"process\":2}\n{\"event\":\"?\"}\n";
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("recording, line 4: unknown variant `?`"), "{error}");
    }
}
