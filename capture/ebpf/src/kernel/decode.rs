//! Ring buffer records to events: the reader of `bpf/spanwise.h`.

use std::net::{IpAddr, Ipv6Addr};

use spanwise_capture_tracer::event::{
    Closed, Command, Data, Datagram, Direction, Endpoint, Event, LeftOut, Opened, Plaintext,
    ProcessEvent, Record, Records, Role, Task, Thread, UNIX_PATH_BYTES, UnixPath, Unread,
};

/// A record that is not of the form that `bpf/spanwise.h` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than its kind has.
    #[error("a record of {length} bytes is too short for its kind")]
    Short {
        /// Bytes in the record.
        length: usize,
    },
    /// A kind that is not known.
    #[error("record kind {kind} is unknown")]
    Kind {
        /// The number found.
        kind: u8,
    },
}

const EVENT_BYTES: usize = 72;
const OPENED_BYTES: usize = EVENT_BYTES + 72;
const OPENED_UNIX_BYTES: usize = OPENED_BYTES + UNIX_PATH_BYTES + 4;
const RECORDS_BYTES: usize = EVENT_BYTES + 64;
const DATAGRAM_BYTES: usize = EVENT_BYTES + 56;

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    // The length was checked before, so every read is inside the record.
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

/// The event in a record; its payload stays in place.
///
/// # Errors
/// Where the record is too short or of a kind unknown here.
pub fn decode(record: &[u8]) -> Result<Event<'_>, DecodeError> {
    if record.len() < EVENT_BYTES {
        return Err(DecodeError::Short { length: record.len() });
    }
    let fields = Fields(record);
    let endpoint = |address: usize, port: usize| Endpoint {
        address: fields.address(address),
        port: fields.u16(port),
    };
    let kind = record[0];
    let process = fields.u32(4);
    let thread = fields.u32(8);
    let time_nano = fields.u64(16);
    let connection = fields.u64(24);
    match kind {
        1 | 10 => {
            let needed = if kind == 1 { OPENED_BYTES } else { OPENED_UNIX_BYTES };
            if record.len() < needed {
                return Err(DecodeError::Short { length: record.len() });
            }
            let connect_nano = fields.u64(EVENT_BYTES + 40);
            Ok(Event::Opened(Opened {
                time_nano,
                connection,
                process,
                thread,
                sleeps: fields.u32(64),
                role: match fields.u32(EVENT_BYTES + 48) {
                    1 => Role::Client,
                    2 => Role::Server,
                    _ => Role::Unknown,
                },
                local: endpoint(EVENT_BYTES, EVENT_BYTES + 32),
                remote: endpoint(EVENT_BYTES + 16, EVENT_BYTES + 34),
                network_namespace: fields.u32(EVENT_BYTES + 36),
                connect_nano: (connect_nano > 0).then_some(connect_nano),
                command: Command(fields.array(EVENT_BYTES + 56)),
                unix: (kind == 10).then(|| {
                    let mut path = fields.array(OPENED_BYTES);
                    let length = usize::from(fields.u16(2)).min(UNIX_PATH_BYTES);
                    path[length..].fill(0);
                    UnixPath(path)
                }),
                first_seqs: (fields.u32(EVENT_BYTES + 52) != 0)
                    .then(|| [fields.u32(12), fields.u32(44)]),
            }))
        }
        2 | 6 | 7 => {
            let captured = usize::from(fields.u16(2));
            let Some(bytes) = record.get(EVENT_BYTES..EVENT_BYTES + captured) else {
                return Err(DecodeError::Short { length: record.len() });
            };
            Ok(Event::Data(Data {
                time_nano,
                connection,
                process,
                thread,
                direction: if record[1] == 1 { Direction::Sent } else { Direction::Received },
                seq: fields.u32(12),
                length: fields.u32(32),
                bytes,
                srtt_micros: fields.u32(36) / 8,
                retransmits: fields.u32(40),
                plaintext: (kind != 2)
                    .then(|| Plaintext { offset: fields.u32(44), placed: kind == 6 }),
                unread: match (kind, fields.u32(44)) {
                    (2, 1) => Some(Unread::File),
                    (2, 2) => Some(Unread::IoUring),
                    (2, 3..) => Some(Unread::Other),
                    _ => None,
                },
                task: fields.u64(48),
                parent_task: fields.u64(56),
                sleeps: fields.u32(64),
            }))
        }
        8 => {
            if record.len() < RECORDS_BYTES {
                return Err(DecodeError::Short { length: record.len() });
            }
            let records = std::array::from_fn(|index| {
                let at = EVENT_BYTES + index * 8;
                Record { seq: fields.u32(at), length: fields.u32(at + 4) }
            });
            Ok(Event::Records(Records { time_nano, connection, records }))
        }
        3 => Ok(Event::Closed(Closed {
            time_nano,
            connection,
            reset: fields.u32(44) != 0,
            retransmits: fields.u32(40),
            received_up_to: (fields.u32(32) == 0).then(|| fields.u32(12)),
        })),
        4 => Ok(Event::Exec(ProcessEvent { time_nano, process })),
        5 => Ok(Event::Exit(ProcessEvent { time_nano, process })),
        9 => {
            if record.len() < DATAGRAM_BYTES {
                return Err(DecodeError::Short { length: record.len() });
            }
            let captured = usize::from(fields.u16(2));
            let Some(bytes) = record.get(DATAGRAM_BYTES..DATAGRAM_BYTES + captured) else {
                return Err(DecodeError::Short { length: record.len() });
            };
            let remote = endpoint(EVENT_BYTES + 16, EVENT_BYTES + 34);
            Ok(Event::Datagram(Datagram {
                time_nano,
                process,
                thread,
                direction: if record[1] == 1 { Direction::Sent } else { Direction::Received },
                local: endpoint(EVENT_BYTES, EVENT_BYTES + 32),
                remote: (remote.port > 0).then_some(remote),
                network_namespace: fields.u32(EVENT_BYTES + 36),
                command: Command(fields.array(EVENT_BYTES + 40)),
                length: fields.u32(32),
                bytes,
            }))
        }
        11 => Ok(Event::LeftOut(LeftOut { time_nano, connection })),
        12 => Ok(Event::Task(Task {
            time_nano,
            process,
            task: fields.u64(48),
            parent_task: fields.u64(56),
            connection,
            stream: u64::from(fields.u32(32)),
            new: record[1] == 1,
            lasting: fields.u32(44) != 0,
            teller: if record[1] == 2 { thread } else { 0 },
        })),
        13 => {
            let ends = record[1] == 1;
            let (thread, maker) = if ends { (thread, 0) } else { (fields.u32(44), thread) };
            let maker_task = fields.u64(48);
            Ok(Event::Thread(Thread { time_nano, process, thread, maker, maker_task }))
        }
        _ => Err(DecodeError::Kind { kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_cut_anywhere_is_refused_and_never_panics() {
        let mut record = vec![0u8; EVENT_BYTES + 8];
        record[0] = 2;
        record[2] = 8;
        assert!(matches!(decode(&record), Ok(Event::Data(data)) if data.bytes.len() == 8));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), Err(DecodeError::Short { length }));
        }
        record.resize(DATAGRAM_BYTES + 8, 0);
        record[0] = 9;
        assert!(matches!(decode(&record), Ok(Event::Datagram(data)) if data.bytes.len() == 8));
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), Err(DecodeError::Short { length }));
        }
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let mut record = vec![0u8; OPENED_BYTES];
        record[0] = 1;
        record[EVENT_BYTES + 10..EVENT_BYTES + 16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        record[EVENT_BYTES + 16 + 15] = 1;
        let Ok(Event::Opened(opened)) = decode(&record) else { panic!("an opening") };
        assert_eq!(opened.local.address.to_string(), "10.0.0.1");
        assert_eq!(opened.remote.address.to_string(), "::1");
    }

    #[test]
    fn threads_are_made_and_end() {
        let mut record = vec![0u8; EVENT_BYTES];
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
        assert_eq!(decode(&[99; EVENT_BYTES]), Err(DecodeError::Kind { kind: 99 }));
    }
}
