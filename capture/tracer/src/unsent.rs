//! Plaintext that was encrypted and has not gone out: a program that moves bytes
//! between TLS library and socket itself hands it over a moment later, perhaps
//! after a handshake's last message. Only then it is known where among the
//! socket's bytes it stands.

use std::collections::VecDeque;

use crate::event::Record;
use spanwise_capture_protocols::bytes::{Input, Mark};

/// Pieces that wait, and bytes in them; those beyond do not wait.
const MAX_PIECES: usize = 64;
const MAX_BYTES: usize = 64 * 1024;
/// Most plaintext in a record (RFC 8446, section 5.1).
const MAX_RECORD_BYTES: u64 = 16_384;
/// Least length of a record that holds a part of a longer piece.
const LEAST_PART_BYTES: u64 = 1000;
/// Bytes that encryption adds to a record: see `bpf/tls_records.h`.
const ADDED_BYTES: [u64; 3] = [16, 17, 24];
const ADDED_WITH_BLOCKS_BYTES: std::ops::RangeInclusive<u64> = 37..=80;

/// An [`Input`] that owns its bytes.
pub(crate) struct Piece {
    bytes: Vec<u8>,
    unseen: u64,
    missed: bool,
    pub(crate) mark: Mark,
}

impl Piece {
    pub(crate) fn new(input: Input<'_>) -> Self {
        let Input { bytes, unseen, missed, mark } = input;
        Self { bytes: bytes.to_vec(), unseen, missed, mark }
    }

    pub(crate) fn input(&self) -> Input<'_> {
        Input { bytes: &self.bytes, unseen: self.unseen, missed: self.missed, mark: self.mark }
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64 + self.unseen
    }
}

/// The pieces of one connection that wait.
#[derive(Default)]
pub(crate) struct Unsent {
    pieces: VecDeque<Piece>,
    held_bytes: usize,
    /// What is to come of the piece whose first record has gone out.
    rest: u64,
}

impl Unsent {
    /// Keeps a piece whose place is not known; `false` where it need not or
    /// cannot wait.
    pub(crate) fn waits(&mut self, input: Input<'_>) -> bool {
        if input.mark.seq.is_some()
            || self.pieces.len() >= MAX_PIECES
            || self.held_bytes + input.bytes.len() > MAX_BYTES
        {
            return false;
        }
        if self.pieces.is_empty() {
            self.rest = 0;
        }
        self.held_bytes += input.bytes.len();
        self.pieces.push_back(Piece::new(input));
        true
    }

    /// A record went out: the piece that it is the first of, with its place.
    pub(crate) fn record(&mut self, record: Record, time_nano: u64) -> Option<Piece> {
        let length = u64::from(record.length);
        if self.rest > 0 {
            self.rest = self.rest.saturating_sub(length);
            return None;
        }
        let next = self.pieces.front()?.length();
        // Go begins with records as small as a segment.
        let held = match next.min(MAX_RECORD_BYTES) {
            whole if holds(length, whole) => whole,
            more if more > length && length >= LEAST_PART_BYTES => length - ADDED_BYTES[0],
            _ => return None,
        };
        self.rest = next - held;
        let mut piece = self.next()?;
        piece.mark.seq = Some(record.seq);
        piece.mark.time_nano = time_nano;
        Some(piece)
    }

    /// The first piece, which waits no longer.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.held_bytes -= piece.bytes.len();
        Some(piece)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.pieces.capacity() * size_of::<Piece>()
    }
}

/// Whether a record of this length may hold this much plaintext.
fn holds(length: u64, plaintext: u64) -> bool {
    length.checked_sub(plaintext).is_some_and(|added| {
        ADDED_BYTES.contains(&added) || ADDED_WITH_BLOCKS_BYTES.contains(&added)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &[u8], unseen: u64) -> Input<'_> {
        let mark = Mark {
            offset: 0,
            seq: None,
            time_nano: 1,
            process: 1,
            thread: 1,
            retransmits: 0,
            srtt_micros: 0,
            missed: false,
            ..Mark::NOWHERE
        };
        Input { bytes, unseen, missed: false, mark }
    }

    fn placed(unsent: &mut Unsent, seq: u32, length: u32) -> Option<(u64, Option<u32>)> {
        let piece = unsent.record(Record { seq, length }, 5)?;
        Some((piece.length(), piece.mark.seq))
    }

    #[test]
    fn pieces_get_the_places_of_the_records_that_fit() {
        let mut unsent = Unsent::default();
        assert!(unsent.waits(input(b"GET / HTTP/1.1", 0)));
        assert!(unsent.waits(input(b"body", 20_000)));
        assert_eq!(placed(&mut unsent, 100, 500), None, "a handshake's message");
        assert_eq!(placed(&mut unsent, 700, 14 + 17), Some((14, Some(700))));
        assert_eq!(placed(&mut unsent, 800, 16_384 + 17), Some((20_004, Some(800))));
        assert_eq!(placed(&mut unsent, 17_000, 3620 + 17), None, "the rest of the same");
        assert!(unsent.is_empty());
        assert_eq!(placed(&mut unsent, 20_000, 100), None);
    }

    #[test]
    fn what_has_its_place_does_not_wait_and_what_waits_is_bounded() {
        let mut unsent = Unsent::default();
        let known = Input { mark: Mark { seq: Some(1), ..input(b"", 0).mark }, ..input(b"x", 0) };
        assert!(!unsent.waits(known));
        let kept = (0..1000).filter(|_| unsent.waits(input(&[0; 1024], 0))).count();
        assert_eq!(kept, MAX_PIECES.min(MAX_BYTES / 1024));
        assert!(unsent.held_bytes() < 2 * MAX_BYTES);
    }
}
