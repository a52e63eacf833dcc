//! Names of topics by their ids. An id is unique in the world, and a client asks
//! for it on another connection than the one on which it uses it, so what one
//! connection tells is kept for all.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::AHashMap;

/// Topics remembered at once; the oldest are forgotten.
const MAX_TOPICS: usize = 4096;
/// Longest name that Kafka allows.
const MAX_NAME_BYTES: usize = 249;

/// The topics that were heard of.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    names: AHashMap<[u8; 16], Arc<str>>,
    order: VecDeque<[u8; 16]>,
}

impl Topics {
    /// Takes note of a topic's id.
    pub(super) fn learn(&mut self, id: [u8; 16], name: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if id == [0; 16] || name.is_empty() || name.len() > MAX_NAME_BYTES {
            return;
        }
        if self.names.insert(id, name.into()).is_none() {
            self.order.push_back(id);
            if self.order.len() > MAX_TOPICS
                && let Some(oldest) = self.order.pop_front()
            {
                self.names.remove(&oldest);
            }
        }
    }

    /// The name of the topic with this id.
    pub(super) fn name(&self, id: [u8; 16]) -> Option<&str> {
        self.names.get(&id).map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_bounded_and_the_oldest_goes() {
        let mut topics = Topics::default();
        let id = |number: usize| (number as u128 + 1).to_be_bytes();
        for number in 0..=MAX_TOPICS {
            topics.learn(id(number), format!("t{number}").as_bytes());
        }
        topics.learn([0; 16], b"none");
        assert_eq!(topics.name(id(0)), None);
        assert_eq!(topics.name(id(1)), Some("t1"));
        assert_eq!(topics.names.len(), MAX_TOPICS);
        assert_eq!(topics.name([0; 16]), None);
    }
}
