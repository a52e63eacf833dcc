//! A span that waits for its trace, in one line of the processor's cache.

use spanwise_model::{Capture, Kind, SpanId};

use crate::graph::Call;
use crate::names::Name;

/// A span of a batch.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Held {
    /// 0 if the row has no id. Then it is no call.
    pub(super) span_id: u64,
    pub(super) start_unix_nano: i64,
    pub(super) duration_nano: i64,
    /// The number of its trace; 0 if it has none yet.
    pub(super) trace: u64,
    /// Its place in that trace.
    pub(super) place: u32,
    /// Where the span was counted by itself.
    pub(super) series: u32,
    pub(super) service: Name,
    pub(super) protocol: Option<Name>,
    pub(super) address: Option<Name>,
    pub(super) port: Option<u16>,
    pub(super) bucket: u8,
    pub(super) kind: Kind,
    pub(super) capture: Capture,
    /// [`ERROR`], [`NAMES_PARENT`].
    pub(super) flags: u8,
}

const _: () = assert!(size_of::<Held>() == 64);

/// The span failed.
pub(super) const ERROR: u8 = 1;
/// The span's sender named a parent, which may be absent.
pub(super) const NAMES_PARENT: u8 = 2;

impl Held {
    pub(super) const fn has_id(&self) -> bool {
        self.span_id != 0
    }

    pub(super) const fn names_parent(&self) -> bool {
        self.flags & NAMES_PARENT != 0
    }

    /// The call with this parent.
    pub(super) fn call(&self, parent: Option<SpanId>) -> Call {
        Call {
            span_id: SpanId(self.span_id.to_be_bytes()),
            parent,
            start_unix_nano: self.start_unix_nano,
            service: self.service,
            kind: self.kind,
            capture: self.capture,
            protocol: self.protocol,
            error: self.flags & ERROR != 0,
            duration_nano: self.duration_nano,
            confidence: None,
            server: self.address.map(|address| (address, self.port)),
            network: None,
        }
    }

    /// Replaces its names.
    pub(super) fn rename(&mut self, mut rename: impl FnMut(Name) -> Name) {
        self.service = rename(self.service);
        self.protocol = self.protocol.map(&mut rename);
        self.address = self.address.map(&mut rename);
    }
}
