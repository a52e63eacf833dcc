//! What crosses processes.

use std::fmt;
use std::str::FromStr;

use crate::sys;

/// A span's identity, as in W3C's `traceparent`. `Display` writes that, `parse` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Trace id.
    pub trace_id: u128,
    /// Span id.
    pub span_id: u64,
    /// W3C's trace flags; 1: sampled.
    pub flags: u8,
}

/// A text or bytes are no context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidContext;

impl fmt::Display for InvalidContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no traceparent of W3C's Trace Context")
    }
}

impl std::error::Error for InvalidContext {}

impl Context {
    /// That of this thread's innermost open span.
    pub fn current() -> Option<Self> {
        let mut context = sys::Context::default();
        // SAFETY: The library writes the structure.
        let found = unsafe { sys::sw_current(&raw mut context) };
        (found == 0).then(|| context.into())
    }

    pub(crate) fn of(span: u64) -> Option<Self> {
        let mut context = sys::Context::default();
        // SAFETY: As above. It knows spans of this thread only.
        let found = unsafe { sys::sw_context_of(span, &raw mut context) };
        (found == 0).then(|| context.into())
    }

    /// 32 bytes for any carrier.
    pub fn to_bytes(self) -> [u8; 32] {
        let (context, mut bytes) = (sys::Context::from(self), [0; 32]);
        // SAFETY: It writes 32 bytes.
        unsafe { sys::sw_pack(&raw const context, bytes.as_mut_ptr()) };
        bytes
    }

    /// Reads [`Self::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidContext> {
        let mut context = sys::Context::default();
        // SAFETY: It reads no more than that length.
        let read = unsafe { sys::sw_unpack(bytes.as_ptr(), bytes.len(), &raw mut context) };
        if read == 0 { Ok(context.into()) } else { Err(InvalidContext) }
    }
}

impl From<sys::Context> for Context {
    fn from(context: sys::Context) -> Self {
        Self {
            trace_id: u128::from(context.trace_hi) << 64 | u128::from(context.trace_lo),
            span_id: context.span_id,
            flags: context.flags,
        }
    }
}

impl From<Context> for sys::Context {
    fn from(context: Context) -> Self {
        Self {
            trace_hi: (context.trace_id >> 64) as u64,
            trace_lo: context.trace_id as u64,
            span_id: context.span_id,
            flags: context.flags,
        }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (context, mut text) = (sys::Context::from(*self), [0_u8; 56]);
        // SAFETY: It writes 55 characters and a NUL.
        unsafe { sys::sw_format(&raw const context, text.as_mut_ptr().cast()) };
        f.write_str(std::str::from_utf8(&text[..55]).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Context {
    type Err = InvalidContext;

    fn from_str(text: &str) -> Result<Self, InvalidContext> {
        let mut context = sys::Context::default();
        // SAFETY: It reads no more than that length.
        let read = unsafe { sys::sw_parse(text.as_ptr().cast(), text.len(), &raw mut context) };
        if read == 0 { Ok(context.into()) } else { Err(InvalidContext) }
    }
}
