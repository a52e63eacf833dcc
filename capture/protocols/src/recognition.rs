//! Selects the parser for a connection: built-in or plugin.

use crate::bytes::Side;
use crate::counters::ParserCounters;
use crate::memory::Memory;
use crate::parser::{Known, Protocol};
use crate::registry::{self, Unrecognised};

#[cfg(feature = "plugins")]
use crate::plugins::{Plugins, Speech};

/// The protocol of a connection.
#[derive(Debug)]
pub enum Speaker {
    /// A built-in protocol.
    Known(&'static Known),
    /// The protocol of the plugin with this index.
    #[cfg(feature = "plugins")]
    Plugin(usize),
}

impl Speaker {
    /// Creates a parser for a connection. `serving` is true if the traced process is the server.
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

/// Like [`registry::infer`], but asks the plugins if no built-in protocol matches.
///
/// # Errors
/// If the bytes match no built-in protocol and no plugin.
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
