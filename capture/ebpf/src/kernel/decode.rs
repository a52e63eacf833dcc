//! Decodes ring buffer records to events, according to `bpf/spanwise.h`.

use std::net::{IpAddr, Ipv6Addr};

use spanwise_capture_tracer::event::{
    Closed, Command, Data, Datagram, Direction, Endpoint, Event, LeftOut, Opened, Plaintext,
    ProcessEvent, Record, Records, Role, StreamName, Task, Thread, UNIX_PATH_BYTES, UnixPath,
    Unread,
};

use super::layout::{
    self, datagram, event, opened, opened_unix, stream_name, tls_record, tls_records,
};

/// A record that does not follow `bpf/spanwise.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record is shorter than its kind requires.
    #[error("a record of {length} bytes is too short for its kind")]
    Short {
        /// Bytes in the record.
        length: usize,
    },
    /// The kind is unknown.
    #[error("record kind {kind} is unknown")]
    Kind {
        /// The kind's number.
        kind: u8,
    },
}

const _: () = assert!(
    layout::opened_unix::PAD - layout::opened_unix::PATH == UNIX_PATH_BYTES,
    "a path is as long as the kernel has it"
);

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    // The length was checked before, so every read is within the record.
    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn address(&self, at: usize) -> IpAddr {
        let address = Ipv6Addr::from(self.array::<16>(at));
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    }
}

/// `TOLD_SPAN` in `bpf/task_told.h`.
const IN_SPAN: u64 = 1 << 59;

/// Decodes a record. The payload is not copied.
///
/// # Errors
/// If the record is too short or of an unknown kind.
pub fn decode(record: &[u8]) -> Result<Event<'_>, DecodeError> {
    if record.len() < event::BYTES {
        return Err(DecodeError::Short { length: record.len() });
    }
    let fields = Fields(record);
    let endpoint = |address: usize, port: usize| Endpoint {
        address: fields.address(address),
        port: fields.u16(port),
    };
    let direction = match u32::from(record[event::DIRECTION]) {
        layout::SENT => Direction::Sent,
        _ => Direction::Received,
    };
    let process = fields.u32(event::PROCESS);
    let thread = fields.u32(event::THREAD);
    let time_nano = fields.u64(event::TIME_NANO);
    let connection = fields.u64(event::CONNECTION);
    let (task, parent) = (fields.u64(event::TASK), fields.u64(event::PARENT_TASK));
    let (task, parent_task, current_span) = match task & IN_SPAN {
        0 => (task, parent, 0),
        _ => (task & !IN_SPAN, 0, parent),
    };
    let kind = record[event::KIND];
    let number = u32::from(kind);
    match number {
        layout::KIND_OPENED | layout::KIND_OPENED_UNIX => {
            let is_unix = number == layout::KIND_OPENED_UNIX;
            if record.len() < if is_unix { opened_unix::BYTES } else { opened::BYTES } {
                return Err(DecodeError::Short { length: record.len() });
            }
            let connect_nano = fields.u64(opened::CONNECT_NANO);
            Ok(Event::Opened(Opened {
                time_nano,
                connection,
                process,
                thread,
                sleeps: fields.u32(event::SLEEPS),
                role: match fields.u32(opened::ROLE) {
                    layout::CLIENT => Role::Client,
                    layout::SERVER => Role::Server,
                    _ => Role::Unknown,
                },
                local: endpoint(opened::LOCAL_ADDRESS, opened::LOCAL_PORT),
                remote: endpoint(opened::REMOTE_ADDRESS, opened::REMOTE_PORT),
                network_namespace: fields.u32(opened::NETWORK_NAMESPACE),
                connect_nano: (connect_nano > 0).then_some(connect_nano),
                command: Command(fields.array(opened::COMMAND)),
                unix: is_unix.then(|| {
                    let mut path = fields.array(opened_unix::PATH);
                    let length = usize::from(fields.u16(event::CAPTURED)).min(UNIX_PATH_BYTES);
                    path[length..].fill(0);
                    UnixPath(path)
                }),
                first_seqs: (fields.u32(opened::FIRST_KNOWN) != 0)
                    .then(|| [fields.u32(event::SEQ), fields.u32(event::EXTRA)]),
            }))
        }
        layout::KIND_DATA | layout::KIND_PLAINTEXT | layout::KIND_PLAINTEXT_UNPLACED => {
            let captured = usize::from(fields.u16(event::CAPTURED));
            let Some(bytes) = record.get(event::BYTES..event::BYTES + captured) else {
                return Err(DecodeError::Short { length: record.len() });
            };
            let is_data = number == layout::KIND_DATA;
            let extra = fields.u32(event::EXTRA);
            Ok(Event::Data(Data {
                time_nano,
                connection,
                process,
                thread,
                direction,
                seq: fields.u32(event::SEQ),
                length: fields.u32(event::LENGTH),
                bytes,
                srtt_micros: fields.u32(event::SRTT_EIGHTH_MICROS) / 8,
                retransmits: fields.u32(event::RETRANSMITS),
                plaintext: (!is_data).then_some(Plaintext {
                    offset: extra,
                    placed: number == layout::KIND_PLAINTEXT,
                }),
                unread: match extra {
                    _ if !is_data => None,
                    layout::READ => None,
                    layout::UNREAD_FILE => Some(Unread::File),
                    layout::UNREAD_IO_URING => Some(Unread::IoUring),
                    _ => Some(Unread::Other),
                },
                task,
                parent_task,
                current_span,
                sleeps: fields.u32(event::SLEEPS),
            }))
        }
        layout::KIND_TLS_RECORDS => {
            if record.len() < tls_records::BYTES {
                return Err(DecodeError::Short { length: record.len() });
            }
            let records = std::array::from_fn(|index| {
                let at = tls_records::RECORDS + index * tls_record::BYTES;
                let (seq, length) = (at + tls_record::SEQ, at + tls_record::LENGTH);
                Record { seq: fields.u32(seq), length: fields.u32(length) }
            });
            Ok(Event::Records(Records { time_nano, connection, records }))
        }
        layout::KIND_CLOSED => Ok(Event::Closed(Closed {
            time_nano,
            connection,
            reset: fields.u32(event::EXTRA) != 0,
            retransmits: fields.u32(event::RETRANSMITS),
            received_up_to: (fields.u32(event::LENGTH) == 0).then(|| fields.u32(event::SEQ)),
        })),
        layout::KIND_EXEC => Ok(Event::Exec(ProcessEvent { time_nano, process })),
        layout::KIND_EXIT => Ok(Event::Exit(ProcessEvent { time_nano, process })),
        layout::KIND_DATAGRAM => {
            let captured = usize::from(fields.u16(event::CAPTURED));
            let Some(bytes) = record.get(datagram::BYTES..datagram::BYTES + captured) else {
                return Err(DecodeError::Short { length: record.len() });
            };
            let remote = endpoint(datagram::REMOTE_ADDRESS, datagram::REMOTE_PORT);
            Ok(Event::Datagram(Datagram {
                time_nano,
                process,
                thread,
                direction,
                local: endpoint(datagram::LOCAL_ADDRESS, datagram::LOCAL_PORT),
                remote: (remote.port > 0).then_some(remote),
                network_namespace: fields.u32(datagram::NETWORK_NAMESPACE),
                command: Command(fields.array(datagram::COMMAND)),
                length: fields.u32(event::LENGTH),
                bytes,
                task,
                parent_task,
                current_span,
                sleeps: fields.u32(event::SLEEPS),
            }))
        }
        layout::KIND_LEFT_OUT => Ok(Event::LeftOut(LeftOut { time_nano, connection })),
        layout::KIND_TASK => {
            let is_gift = record[event::DIRECTION] == 3;
            Ok(Event::Task(Task {
                time_nano,
                process,
                task: fields.u64(event::TASK),
                parent_task: fields.u64(event::PARENT_TASK),
                connection: if is_gift { 0 } else { connection },
                stream: u64::from(fields.u32(event::LENGTH)),
                new: record[event::DIRECTION] == 1,
                lasting: fields.u32(event::EXTRA) != 0,
                teller: if record[event::DIRECTION] == 2 { thread } else { 0 },
                giver: if is_gift { connection } else { 0 },
            }))
        }
        layout::KIND_STREAM_NAME => {
            if record.len() < stream_name::BYTES {
                return Err(DecodeError::Short { length: record.len() });
            }
            let text = |at: usize, bytes: usize, most: usize| {
                let bytes = usize::from(fields.u16(bytes)).min(most);
                &record[at..at + bytes]
            };
            let (method, path) = (stream_name::METHOD, stream_name::PATH);
            Ok(Event::StreamName(StreamName {
                time_nano,
                connection,
                stream: u64::from(fields.u32(event::LENGTH)),
                method: text(method, stream_name::METHOD_BYTES, path - method),
                path: text(path, stream_name::PATH_BYTES, stream_name::BYTES - path),
            }))
        }
        layout::KIND_THREAD => {
            let ends = record[event::DIRECTION] == 1;
            let (thread, maker) =
                if ends { (thread, 0) } else { (fields.u32(event::EXTRA), thread) };
            let maker_task = task;
            Ok(Event::Thread(Thread { time_nano, process, thread, maker, maker_task }))
        }
        _ => Err(DecodeError::Kind { kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_says_that_the_parent_is_a_span() {
        let record = |task: u64| {
            let mut record = vec![0u8; event::BYTES];
            record[0] = 2;
            record[event::TASK..][..8].copy_from_slice(&task.to_ne_bytes());
            record[event::PARENT_TASK..][..8].copy_from_slice(&7_u64.to_ne_bytes());
            record
        };
        let read = |task: u64| match decode(&record(task)) {
            Ok(Event::Data(data)) => (data.task, data.parent_task, data.current_span),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(5), (5, 7, 0));
        assert_eq!(read(5 | IN_SPAN), (5, 0, 7));
        assert_eq!(read(IN_SPAN), (0, 0, 7));
    }

    #[test]
    fn a_record_cut_anywhere_is_refused_and_never_panics() {
        let mut record = vec![0u8; event::BYTES + 8];
        record[0] = 2;
        record[2] = 8;
        assert!(matches!(decode(&record), Ok(Event::Data(data)) if data.bytes.len() == 8));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), Err(DecodeError::Short { length }));
        }
        record.resize(datagram::BYTES + 8, 0);
        record[0] = 9;
        assert!(matches!(decode(&record), Ok(Event::Datagram(data)) if data.bytes.len() == 8));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), Err(DecodeError::Short { length }));
        }
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let mut record = vec![0u8; opened::BYTES];
        record[0] = 1;
        record[event::BYTES + 10..event::BYTES + 16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        record[event::BYTES + 16 + 15] = 1;
        let Ok(Event::Opened(opened)) = decode(&record) else { panic!("an opening") };
        assert_eq!(opened.local.address.to_string(), "10.0.0.1");
        assert_eq!(opened.remote.address.to_string(), "::1");
    }

    #[test]
    fn names_of_streams_are_no_longer_than_their_places() {
        let mut record = vec![0u8; stream_name::BYTES];
        record[0] = 14;
        record[stream_name::PATH..stream_name::PATH + 4].copy_from_slice(b"/a/b");
        record[stream_name::PATH_BYTES] = 4;
        let Ok(Event::StreamName(name)) = decode(&record) else { panic!("a name") };
        assert_eq!((name.method, name.path), (&b""[..], &b"/a/b"[..]));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), Err(DecodeError::Short { length }));
        }
        record[stream_name::METHOD_BYTES..stream_name::METHOD].fill(0xff);
        let Ok(Event::StreamName(name)) = decode(&record) else { panic!("a name") };
        assert!(name.method.len() == 16 && name.path.len() >= 256);
    }

    #[test]
    fn threads_are_made_and_end() {
        let mut record = vec![0u8; event::BYTES];
        record[0] = 13;
        record[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        record[8..12].copy_from_slice(&8_u32.to_ne_bytes());
        record[44..48].copy_from_slice(&9_u32.to_ne_bytes());
        record[48..56].copy_from_slice(&50_u64.to_ne_bytes());
        let made = Thread { time_nano: 0, process: 7, thread: 9, maker: 8, maker_task: 50 };
        assert_eq!(decode(&record), Ok(Event::Thread(made)));
        record[1] = 1;
        record[44..56].fill(0);
        let ended = Thread { thread: 8, maker: 0, maker_task: 0, ..made };
        assert_eq!(decode(&record), Ok(Event::Thread(ended)));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert_eq!(decode(&[99; event::BYTES]), Err(DecodeError::Kind { kind: 99 }));
    }
}
