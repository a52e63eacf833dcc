//! One direction of a connection as a byte stream. Finds gaps and repeats from TCP sequence numbers
//! (RFC 9293, section 3.4: 32 bits, wrapping).

/// A sequence number further behind than this is a new start, not a repeat.
const MAX_DISTANCE: i32 = 1 << 30;

/// Tracks the next expected sequence number of a direction.
#[derive(Debug, Default)]
pub struct Stream {
    next_seq: Option<u32>,
    offset: u64,
}

/// Position of an event's bytes in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of bytes missed directly before.
    pub gap: u64,
    /// Number of bytes at the start of the event that were seen already.
    pub repeated: u32,
    /// Offset of the first new byte, counted from the first byte seen.
    pub offset: u64,
}

impl Stream {
    /// Starts a stream at this sequence number.
    pub const fn from(first_seq: u32) -> Self {
        Self { next_seq: Some(first_seq), offset: 0 }
    }

    /// The next expected sequence number, once any bytes were seen.
    pub const fn next_seq(&self) -> Option<u32> {
        self.next_seq
    }

    /// Records `length` bytes from `seq` on. Returns `None` if no byte is new.
    pub fn place(&mut self, seq: u32, length: u32) -> Option<Place> {
        let distance = self.next_seq.map_or(0, |next| seq.wrapping_sub(next).cast_signed());
        let (gap, repeated) = match distance {
            0 => (0, 0),
            ahead if ahead > 0 => (ahead.unsigned_abs(), 0),
            behind if behind > -MAX_DISTANCE => (0, behind.unsigned_abs()),
            // Too far behind to be a repeat. Bytes are missing, but the number is unknown; count
            // one.
            _ => (1, 0),
        };
        if repeated >= length {
            return None;
        }
        self.offset += u64::from(gap);
        let offset = self.offset;
        self.offset += u64::from(length - repeated);
        self.next_seq = Some(seq.wrapping_add(length));
        Some(Place { gap: u64::from(gap), repeated, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(gap: u64, repeated: u32, offset: u64) -> Option<Place> {
        Some(Place { gap, repeated, offset })
    }

    #[test]
    fn bytes_in_order_follow_each_other_across_the_wrap() {
        let mut stream = Stream::default();
        assert_eq!(stream.place(u32::MAX - 9, 20), place(0, 0, 0));
        assert_eq!(stream.place(10, 5), place(0, 0, 20));
    }

    #[test]
    fn a_gap_is_measured_also_across_the_wrap() {
        let mut stream = Stream::default();
        stream.place(u32::MAX - 9, 5);
        assert_eq!(stream.place(5, 5), place(10, 0, 15));
    }

    #[test]
    fn what_repeats_is_cut_off_and_what_only_repeats_is_dropped() {
        let mut stream = Stream::default();
        stream.place(100, 50);
        assert_eq!(stream.place(100, 50), None);
        assert_eq!(stream.place(140, 20), place(0, 10, 50));
    }

    #[test]
    fn a_jump_far_back_is_a_new_beginning() {
        let mut stream = Stream::default();
        stream.place(2_000_000_000, 10);
        assert_eq!(stream.place(5, 10), place(1, 0, 11));
        assert_eq!(stream.place(15, 10), place(0, 0, 21));
    }
}
