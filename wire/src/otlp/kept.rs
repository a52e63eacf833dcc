//! A cache of decoded messages that senders repeat in every request.

use std::sync::Arc;

use ahash::AHashMap;

/// Maximum number of cached messages, their total bytes, and the bytes of one.
const MOST: usize = 1024;
const MOST_BYTES: usize = 1 << 20;
const LONGEST: usize = 16 << 10;

/// Decoded messages by their encoded bytes.
pub(super) struct MessageCache<T> {
    known: AHashMap<Box<[u8]>, Arc<T>>,
    bytes: usize,
}

impl<T> Default for MessageCache<T> {
    fn default() -> Self {
        Self { known: AHashMap::new(), bytes: 0 }
    }
}

impl<T> MessageCache<T> {
    /// The decoded message, from the cache or newly decoded. A message in several pieces, which is
    /// rare, is always decoded: concatenating the pieces would be ambiguous if one of them is
    /// truncated.
    pub(super) fn get<E>(
        &mut self,
        pieces: &[&[u8]],
        read: impl FnOnce(&[&[u8]]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let message = match pieces {
            [] => &[],
            [message] => *message,
            _ => return read(pieces).map(Arc::new),
        };
        if let Some(known) = self.known.get(message) {
            return Ok(Arc::clone(known));
        }
        let said = Arc::new(read(pieces)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_read_again_and_does_not_pile_up() {
        let mut kept = MessageCache::default();
        let mut reads = 0;
        for round in 0..3 {
            for message in 0..MOST as u32 {
                let said = kept.get(&[&message.to_le_bytes()], |pieces| {
                    reads += 1;
                    Ok::<_, ()>(pieces.concat())
                });
                assert_eq!(*said.unwrap(), message.to_le_bytes());
            }
            assert_eq!(reads, MOST, "round {round}");
        }
        let read = |pieces: &[&[u8]]| Ok::<_, ()>(pieces.concat());
        assert!(kept.get(&[b"wrong"], |_| Err(())).is_err());
        assert!(kept.get(&[&vec![0; LONGEST + 1]], read).is_ok());
        assert_eq!(*kept.get(&[b"one", b"piece"], read).unwrap(), b"onepiece");
        assert_eq!(kept.known.len(), MOST);
        assert!(kept.get(&[b"one more"], read).is_ok());
        assert!(kept.get(&[], read).unwrap().is_empty());
        assert_eq!((kept.known.len(), kept.bytes), (2, 8));
    }

    #[test]
    fn pieces_are_not_taken_for_their_bytes_together() {
        let mut kept = MessageCache::default();
        kept.get(&[b"onepiece"], |_| Ok::<_, ()>(())).unwrap();
        assert!(kept.get(&[b"one", b"piece"], |_| Err(())).is_err());
    }
}
