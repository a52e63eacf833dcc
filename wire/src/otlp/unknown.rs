//! Finds spans in unknown fields. An exporter that writes them must not be told that they are
//! stored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::protobuf::{Payload, Reader};

/// Maximum depth of nested messages that are searched.
const DEPTH: u32 = 6;

/// Number of messages in these bytes that look like spans: their first two or three fields are ids.
pub(crate) fn spans_in_protobuf(bytes: &[u8]) -> u64 {
    count(bytes, DEPTH)
}

fn count(bytes: &[u8], depth: u32) -> u64 {
    let (mut has_trace, mut has_id, mut inside) = (false, false, 0);
    let mut reader = Reader::new(bytes);
    loop {
        match reader.next() {
            Ok(Some(field)) => {
                let Payload::Bytes(bytes) = field.payload else { continue };
                has_trace |= field.number == 1 && matches!(bytes.len(), 8 | 16);
                has_id |= matches!(field.number, 2 | 3) && bytes.len() == 8;
                if depth > 0 {
                    inside += count(bytes, depth - 1);
                }
            }
            Ok(None) => break,
            // Not a message.
            Err(_) => return 0,
        }
    }
    if has_trace && has_id { 1 } else { inside }
}

/// Number of objects in this JSON that look like spans.
pub(crate) fn spans_in_json(text: &str) -> u64 {
    serde_json::from_str::<SpansIn>(text).map_or(0, |found| found.0)
}

/// A normalised name: senders write `resource_spans` or `ResourceSpans`.
pub(crate) fn plain_name(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

struct SpansIn(u64);

impl<'de> Deserialize<'de> for SpansIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;
        impl<'de> Visitor<'de> for Counting {
            type Value = SpansIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SpansIn, A::Error> {
                let (mut has_trace, mut has_id, mut inside) = (false, false, 0);
                while let Some((name, found)) = map.next_entry::<String, SpansIn>()? {
                    let name = plain_name(&name);
                    has_trace |= name == "traceid";
                    has_id |= name == "spanid" || name == "id";
                    inside += found.0;
                }
                Ok(SpansIn(if has_trace && has_id { 1 } else { inside }))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SpansIn, A::Error> {
                let mut count = 0;
                while let Some(found) = list.next_element::<SpansIn>()? {
                    count += found.0;
                }
                Ok(SpansIn(count))
            }

            fn visit_str<E>(self, _: &str) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }

            fn visit_bool<E>(self, _: bool) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }

            fn visit_i64<E>(self, _: i64) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }

            fn visit_u64<E>(self, _: u64) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }

            fn visit_f64<E>(self, _: f64) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }

            fn visit_unit<E>(self) -> Result<SpansIn, E> {
                Ok(SpansIn(0))
            }
        }
        deserializer.deserialize_any(Counting)
    }
}
