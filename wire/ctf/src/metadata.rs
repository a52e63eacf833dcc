//! Metadata of a trace: TSDL or JSON, in packets or plain.

use std::collections::BTreeMap;

use crate::host::SWITCH;
use crate::resolve::{SCOPES, resolve};
use crate::types::{DEPTH_MAX, Type};
use crate::{json, tsdl};

const PACKET_MAGIC: u32 = 0x75d1_1d57;
const PACKET_HEADER: usize = 37;

/// A clock of the trace.
#[derive(Debug, Clone)]
pub struct Clock {
    pub(crate) id: String,
    pub(crate) ticks_per_second: u64,
    pub(crate) offset_seconds: i128,
    pub(crate) offset_ticks: i128,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            id: String::new(),
            ticks_per_second: 1_000_000_000,
            offset_seconds: 0,
            offset_ticks: 0,
        }
    }
}

impl Clock {
    /// Unix time in nanoseconds; 0 before 1970.
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        let ticks = i128::from(ticks).saturating_add(self.offset_ticks);
        let per_second = i128::from(self.ticks_per_second);
        let (seconds, rest) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
        let seconds = seconds.saturating_add(self.offset_seconds);
        let ns =
            seconds.saturating_mul(1_000_000_000).saturating_add(rest * 1_000_000_000 / per_second);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Events of one kind.
#[derive(Debug, Clone, Default)]
pub struct EventClass {
    /// As the metadata has it: `provider:name` with LTTng.
    pub name: String,
    /// 0 (emergency) to 14 (debug), if it is known.
    pub log_level: Option<u8>,
    pub(crate) context: Option<Type>,
    pub(crate) fields: Option<Type>,
}

/// Streams of one kind.
#[derive(Debug, Clone, Default)]
pub struct StreamClass {
    pub(crate) packet_context: Option<Type>,
    pub(crate) event_header: Option<Type>,
    pub(crate) event_context: Option<Type>,
    /// Which of the clocks; `None`: the first, in CTF 1.8.
    pub(crate) clock: Option<usize>,
    pub(crate) events: BTreeMap<u64, EventClass>,
    /// Whether it holds what a kernel's scheduler does.
    pub(crate) has_switches: bool,
}

/// What a trace's streams hold.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Facts about the trace, such as `hostname`.
    pub environment: BTreeMap<String, String>,
    pub(crate) big_endian: bool,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) packet_header: Option<Type>,
    pub(crate) streams: BTreeMap<u64, StreamClass>,
    /// Values that lengths and tags name.
    pub(crate) slots: usize,
    /// Whether names have an underscore that is no part of them.
    pub(crate) underscores: bool,
}

/// Reads metadata in any of its forms.
///
/// # Errors
/// If it is damaged, or describes something that makes no sense.
pub fn parse_metadata(bytes: &[u8]) -> Result<Metadata, String> {
    let (text, in_packets) = text(bytes)?;
    let plain = text.trim_start_matches(['\u{feff}', '\0']).trim_start();
    let is_json = plain.starts_with('\u{1e}') || plain.starts_with('{');
    let mut found = if is_json {
        json::parse(&text)?
    } else if in_packets || plain.starts_with("/* CTF 1.") {
        tsdl::parse(&text)?
    } else {
        return Err("the metadata is neither TSDL (CTF 1.8) nor JSON (CTF 2)".to_owned());
    };
    found.underscores = !is_json;
    found.finish()?;
    Ok(found)
}

/// The text itself, and whether it was in packets.
fn text(bytes: &[u8]) -> Result<(String, bool), String> {
    let word = |bytes: &[u8], at: usize, big: bool| -> u32 {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; 4]);
        if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    let big = word(bytes, 0, true) == PACKET_MAGIC;
    let in_packets = big || word(bytes, 0, false) == PACKET_MAGIC;
    let mut joined = Vec::new();
    if !in_packets {
        joined.extend_from_slice(bytes);
    } else {
        let mut rest = bytes;
        while !rest.is_empty() {
            if rest.len() < PACKET_HEADER || word(rest, 0, big) != PACKET_MAGIC {
                return Err("a packet of the metadata is damaged".to_owned());
            }
            let content = word(rest, 24, big) as usize / 8;
            let packet = word(rest, 28, big) as usize / 8;
            if rest[32..35] != [0, 0, 0] {
                return Err("the metadata is compressed, encrypted or has checksums".to_owned());
            }
            if content < PACKET_HEADER || packet < content || rest.len() < content {
                return Err("a packet of the metadata is cut".to_owned());
            }
            joined.extend_from_slice(&rest[PACKET_HEADER..content]);
            rest = rest.get(packet..).unwrap_or_default();
        }
    }
    let text = String::from_utf8(joined).map_err(|_| "the metadata is no UTF-8 text")?;
    Ok((text, in_packets))
}

impl Metadata {
    /// Connects lengths and tags with the fields that they name.
    fn finish(&mut self) -> Result<(), String> {
        let mut slots = 0;
        let mut scopes: [Option<&Type>; SCOPES] = [None; SCOPES];
        scopes[0] = self.packet_header.as_ref();
        check(&scopes, 0, &mut slots).map_err(|problem| format!("packet header: {problem}"))?;
        for (id, stream) in &self.streams {
            scopes[1] = stream.packet_context.as_ref();
            scopes[2] = stream.event_header.as_ref();
            scopes[3] = stream.event_context.as_ref();
            scopes[4..].fill(None);
            for scope in 1..4 {
                check(&scopes, scope, &mut slots)
                    .map_err(|problem| format!("stream {id}: {problem}"))?;
            }
            for event in stream.events.values() {
                scopes[4] = event.context.as_ref();
                scopes[5] = event.fields.as_ref();
                for scope in 4..6 {
                    check(&scopes, scope, &mut slots)
                        .map_err(|problem| format!("event {:?}: {problem}", event.name))?;
                }
            }
        }
        self.slots = slots;
        for stream in self.streams.values_mut() {
            stream.has_switches = stream.events.values().any(|event| event.name == SWITCH);
        }
        Ok(())
    }

    /// The clock of a stream.
    pub(crate) fn clock_of(&self, stream: &StreamClass) -> Option<&Clock> {
        match stream.clock {
            Some(index) => self.clocks.get(index),
            None if self.underscores => self.clocks.first(),
            None => None,
        }
    }

    /// A field's name without LTTng's underscore.
    pub(crate) fn plain<'a>(&self, name: &'a str) -> &'a str {
        if self.underscores { name.strip_prefix('_').unwrap_or(name) } else { name }
    }
}

fn check(scopes: &[Option<&Type>; SCOPES], own: usize, slots: &mut usize) -> Result<(), String> {
    if let Some(value) = scopes[own] {
        if value.depth() > 2 * DEPTH_MAX {
            return Err(format!("its types nest more than {} levels", 2 * DEPTH_MAX));
        }
        if !matches!(value, Type::Structure(_)) {
            return Err("its type is no structure".to_owned());
        }
    }
    resolve(scopes, own, slots)
}
