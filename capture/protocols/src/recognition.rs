//! Which parser reads a connection: one of ours, or a plugin's.

use crate::bytes::Side;
use crate::counters::ParserCounters;
use crate::memory::Memory;
use crate::parser::{Known, Protocol};
use crate::registry::{self, Unrecognised};

#[cfg(feature = "plugins")]
use crate::plugins::{Plugins, Speech};

/// Whose protocol a connection speaks.
#[derive(Debug)]
pub enum Speaker {
    /// One of ours.
    Known(&'static Known),
    /// That of the plugin of this number.
    #[cfg(feature = "plugins")]
    Plugin(usize),
}

impl Speaker {
    /// A parser for a connection; `serving` where the traced process answers.
    pub fn parser(&self, serving: bool, memory: &mut Memory) -> Box<dyn Protocol> {
        #[cfg(not(feature = "plugins"))]
        let _ = memory;
        match self {
            Self::Known(known) => (known.parser)(serving),
            #[cfg(feature = "plugins")]
            Self::Plugin(index) => Box::new(Speech::new(*index, memory.of::<Plugins>())),
        }
    }
}

/// As [`registry::infer`]; plugins are asked for what is none of ours.
///
/// # Errors
/// Where the bytes are no known protocol's, and no plugin's.
pub fn infer(
    bytes: &[u8],
    sides: &[Side],
    whole: bool,
    first: bool,
    now_nano: u64,
    memory: &mut Memory,
    counters: &mut ParserCounters,
) -> Result<Option<(Speaker, Side)>, Unrecognised> {
    let ours = registry::infer(bytes, sides, whole, first);
    if let Ok(Some((known, side))) = ours {
        return Ok(Some((Speaker::Known(known), side)));
    }
    #[cfg(feature = "plugins")]
    match memory.of::<Plugins>().infer(bytes, sides, now_nano, counters) {
        Some(Some((index, side))) => return Ok(Some((Speaker::Plugin(index), side))),
        Some(None) if whole => return Ok(None),
        _ => {}
    }
    #[cfg(not(feature = "plugins"))]
    let _ = (now_nano, memory, counters);
    ours.map(|_| None)
}
