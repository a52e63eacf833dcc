//! A cache of a request's attribute keys. There are few, and each is validated once.

use std::str::Utf8Error;

use spanwise_model::key_slot;

use super::known::{Note, note};

/// More than the keys of an application. If keys collide, they are validated again.
const SLOTS: usize = 128;

/// Known keys, each in the one slot that its first and last bytes select.
#[derive(Clone, Default)]
pub(crate) struct Keys<'a> {
    /// Empty before the first key.
    slots: Vec<(&'a str, Option<Note>)>,
}

impl std::fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl<'a> Keys<'a> {
    /// The key as text, and the function for its values.
    #[inline]
    pub(super) fn look_up(&mut self, key: &'a [u8]) -> Result<(&'a str, Option<Note>), Utf8Error> {
        if self.slots.is_empty() {
            // The empty key is always known. It has no column.
            self.slots.resize(SLOTS, ("", None));
        }
        let slot = &mut self.slots[key_slot::<SLOTS>(key)];
        if slot.0.as_bytes() != key {
            let text = std::str::from_utf8(key)?;
            *slot = (text, note(text));
        }
        Ok(*slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_taken_is_taken_over() {
        let texts: Vec<String> = (0..1_000).map(|number| format!("app.key.{number}")).collect();
        let mut keys = Keys::default();
        for _ in 0..2 {
            for text in &texts {
                let (found, note) = keys.look_up(text.as_bytes()).unwrap();
                assert_eq!((found, note.is_none()), (text.as_str(), true));
            }
            assert!(keys.look_up(b"http.method").unwrap().1.is_some());
            assert_eq!(keys.look_up(b"").unwrap().0, "");
        }
        assert!(keys.look_up(&[0xff; 9]).is_err());
    }
}
