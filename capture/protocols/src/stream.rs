//! One direction of a connection as a stream of bytes: finds gaps and repeats
//! from TCP sequence numbers (RFC 9293, section 3.4: 32 bits, wrapping).

/// Beyond this distance a sequence number is taken as a new beginning rather
/// than as a gap or a repeat.
const MAX_DISTANCE: i32 = 1 << 30;

/// Where the next bytes of a direction belong.
#[derive(Debug, Default)]
pub struct Stream {
    next_seq: Option<u32>,
    offset: u64,
}

/// The place of an event's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Bytes that were missed right before.
    pub gap: u64,
    /// Bytes at the event's beginning that were seen already.
    pub repeated: u32,
    /// Position, from the first byte ever seen, of the first byte that is new.
    pub offset: u64,
}

impl Stream {
    /// Begins with this sequence number.
    pub const fn from(first_seq: u32) -> Self {
        Self { next_seq: Some(first_seq), offset: 0 }
    }

    /// Where the next bytes should begin, once any were seen.
    pub const fn next_seq(&self) -> Option<u32> {
        self.next_seq
    }

    /// Takes note of `length` bytes from `seq` on; `None` where none is new.
    pub fn place(&mut self, seq: u32, length: u32) -> Option<Place> {
        let distance = self.next_seq.map_or(0, |next| seq.wrapping_sub(next).cast_signed());
        let (gap, repeated) = match distance {
            0 => (0, 0),
            ahead if ahead > 0 => (ahead.unsigned_abs(), 0),
            behind if behind > -MAX_DISTANCE => (0, behind.unsigned_abs()),
            // So far behind that it can be no repeat: how much is missing
            // nobody knows, but something is.
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
