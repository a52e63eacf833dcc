//! What messages say that senders repeat in every request.

use std::borrow::Cow;
use std::sync::Arc;

use ahash::AHashMap;

use crate::protobuf::{ReadError, submessages};

/// Messages that are kept, their bytes together, and of one.
const MOST: usize = 1024;
const MOST_BYTES: usize = 1 << 20;
const LONGEST: usize = 16 << 10;

/// What was read, by the bytes that it was read from.
pub(super) struct Kept<T> {
    known: AHashMap<Box<[u8]>, Arc<T>>,
    bytes: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { known: AHashMap::new(), bytes: 0 }
    }
}

impl<T> Kept<T> {
    /// What the message says, which is read where it is not known.
    pub(super) fn get<E>(
        &mut self,
        message: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(known) = self.known.get(message) {
            return Ok(Arc::clone(known));
        }
        let said = Arc::new(read(message)?);
        if message.len() <= LONGEST {
            if self.known.len() >= MOST || self.bytes > MOST_BYTES {
                *self = Self::default();
            }
            self.bytes += message.len();
            self.known.insert(message.into(), Arc::clone(&said));
        }
        Ok(said)
    }
}

/// The bytes of a message in a message. Those of its pieces one after the other are
/// those of the message that they are pieces of (protobuf "Encoding", "Last One Wins").
pub(super) fn whole(message: &[u8], number: u32) -> Result<Cow<'_, [u8]>, ReadError> {
    let mut whole: Cow<'_, [u8]> = Cow::default();
    for piece in submessages(message, number) {
        let piece = piece?;
        if whole.is_empty() {
            whole = Cow::Borrowed(piece);
        } else {
            whole.to_mut().extend_from_slice(piece);
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_read_again_and_does_not_pile_up() {
        let mut kept = Kept::default();
        let mut reads = 0;
        for round in 0..3 {
            for message in 0..MOST as u32 {
                let said = kept.get(&message.to_le_bytes(), |bytes| {
                    reads += 1;
                    Ok::<_, ()>(bytes.to_vec())
                });
                assert_eq!(*said.unwrap(), message.to_le_bytes());
            }
            assert_eq!(reads, MOST, "round {round}");
        }
        assert!(kept.get(b"wrong", |_| Err(())).is_err());
        let long = vec![0; LONGEST + 1];
        assert!(kept.get(&long, |bytes| Ok::<_, ()>(bytes.to_vec())).is_ok());
        assert_eq!(kept.known.len(), MOST);
        assert!(kept.get(b"one more", |bytes| Ok::<_, ()>(bytes.to_vec())).is_ok());
        assert_eq!((kept.known.len(), kept.bytes), (1, 8));
    }

    #[test]
    fn pieces_are_put_together() {
        let message = [0x0a, 1, 7, 0x12, 1, 9, 0x0a, 2, 8, 8];
        assert_eq!(*whole(&message, 1).unwrap(), [7, 8, 8]);
        assert_eq!(*whole(&message, 2).unwrap(), [9]);
        assert!(whole(&message, 3).unwrap().is_empty());
        assert!(whole(&[0x0a, 9], 1).is_err());
    }
}
