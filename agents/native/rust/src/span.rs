//! Spans and what is in them.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, Ordering};

use crate::context::Context;
use crate::sys;

/// What a span is to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Work inside of a program.
    Internal = 1,
    /// Answers a request.
    Server = 2,
    /// Sends one.
    Client = 3,
    /// Sends a message.
    Producer = 4,
    /// Works on one.
    Consumer = 5,
}

/// Level of a call site, and severity of a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// Finest.
    Trace = 1,
    /// For developers.
    Debug = 5,
    /// Of interest.
    Info = 9,
    /// May become an error.
    Warn = 13,
    /// Something failed.
    Error = 17,
    /// The program cannot go on.
    Fatal = 21,
}

/// How a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Nothing was said.
    Unset = 0,
    /// Well.
    Ok = 1,
    /// It failed.
    Error = 2,
}

/// A call site; [`crate::site!`] makes it.
pub struct Site(sys::Site);

// SAFETY: The library changes only atomic fields; the pointers are to constants.
unsafe impl Sync for Site {}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("line", &self.0.line).finish_non_exhaustive()
    }
}

impl Site {
    /// Use [`crate::site!`].
    #[doc(hidden)]
    pub const fn new(
        name: &'static CStr,
        file: &'static CStr,
        line: u32,
        kind: Kind,
        level: Level,
    ) -> Self {
        Self(sys::Site {
            enabled: AtomicPtr::new((&raw const sys::sw_unregistered).cast_mut()),
            name: name.as_ptr(),
            file: file.as_ptr(),
            line,
            id: AtomicU16::new(0),
            kind: kind as u8,
            level: level as u8,
        })
    }

    /// Whether it records at the moment: two loads.
    pub fn enabled(&'static self) -> bool {
        let enabled = self.0.enabled.load(Ordering::Relaxed);
        // SAFETY: It points to a byte that is never unmapped, and that others change.
        unsafe { AtomicU8::from_ptr(enabled) }.load(Ordering::Relaxed) != 0
    }

    /// Begins a span below this thread's innermost open span.
    #[inline]
    pub fn begin(&'static self) -> Span {
        let id = if self.enabled() {
            // SAFETY: A site lives for ever.
            unsafe { sys::sw_begin_slow(&raw const self.0) }
        } else {
            0
        };
        Span { id, _of_thread: PhantomData }
    }

    /// Begins a span whose parent is in another process or thread.
    pub fn begin_remote(&'static self, parent: Context) -> Span {
        let parent = sys::Context::from(parent);
        let id = if self.enabled() {
            // SAFETY: A site lives for ever, the parent during the call.
            unsafe { sys::sw_begin_remote_slow(&raw const self.0, &raw const parent) }
        } else {
            0
        };
        Span { id, _of_thread: PhantomData }
    }

    /// Begins a span that any thread may end.
    pub fn begin_detached(&'static self, parent: Option<Context>) -> DetachedSpan {
        let parent = parent.map(sys::Context::from);
        let mut span = sys::Detached::default();
        let parent = parent.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: A site lives for ever, the others during the call.
        unsafe { sys::sw_detached_begin(&raw mut span, &raw const self.0, parent) };
        DetachedSpan(span)
    }
}

/// The key of an attribute; [`crate::key!`] makes it.
pub struct Key(sys::Key);

// SAFETY: As for sites.
unsafe impl Sync for Key {}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    /// Use [`crate::key!`].
    #[doc(hidden)]
    pub const fn new(name: &'static CStr) -> Self {
        Self(sys::Key { name: name.as_ptr(), id: AtomicU16::new(0) })
    }
}

/// A value of an attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A text; beyond 4,096 bytes it is cut, and marked.
    Text(&'a str),
    /// Bytes, likewise.
    Bytes(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}
impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}
impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}
impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}
impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

/// A key with its value.
#[derive(Clone, Copy)]
pub struct Attribute<'a> {
    raw: sys::Attribute,
    _value: PhantomData<&'a [u8]>,
}

impl<'a> Attribute<'a> {
    /// An attribute.
    pub fn new(key: &'static Key, value: impl Into<Value<'a>>) -> Self {
        // The library cuts at 4,096 bytes, and sees by the length that there were more.
        let bytes = |bytes: &[u8]| {
            (
                u32::try_from(bytes.len().min(4097)).unwrap_or(0),
                sys::Value { bytes: bytes.as_ptr().cast() },
            )
        };
        let (kind, (length, value)) = match value.into() {
            Value::Integer(value) => (1, (0, sys::Value { i64: value })),
            Value::Float(value) => (2, (0, sys::Value { f64: value })),
            Value::Bool(value) => (3, (0, sys::Value { i64: value.into() })),
            Value::Text(text) => (4, bytes(text.as_bytes())),
            Value::Bytes(value) => (5, bytes(value)),
        };
        let raw = sys::Attribute { key: &raw const key.0, kind, length, value };
        Self { raw, _value: PhantomData }
    }
}

impl std::fmt::Debug for Attribute<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attribute").field("kind", &self.raw.kind).finish_non_exhaustive()
    }
}

/// The form that the library reads.
fn raw(attributes: &[Attribute<'_>]) -> Vec<sys::Attribute> {
    attributes.iter().map(|attribute| attribute.raw).collect()
}

/// A text for C; it ends before a NUL.
fn text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// An open span of this thread. It ends when it is dropped; spans below it that are still open end
/// with it.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    id: u64,
    /// The library knows it in its own thread only.
    _of_thread: PhantomData<*const ()>,
}

impl Span {
    /// Whether it is recorded.
    pub const fn is_recorded(&self) -> bool {
        self.id != 0
    }

    /// Sets an attribute.
    pub fn set<'a>(&self, key: &'static Key, value: impl Into<Value<'a>>) {
        if self.is_recorded() {
            let attribute = Attribute::new(key, value).raw;
            // SAFETY: It lives during the call.
            unsafe { sys::sw_attrs(self.id, &raw const attribute, 1) };
        }
    }

    /// Sets several attributes in one record.
    pub fn set_all(&self, attributes: &[Attribute<'_>]) {
        if self.is_recorded() {
            let list = raw(attributes);
            // SAFETY: They live during the call.
            unsafe { sys::sw_attrs(self.id, list.as_ptr(), list.len()) };
        }
    }

    /// Adds an event.
    pub fn event(&self, name: &'static Key, attributes: &[Attribute<'_>]) {
        if self.is_recorded() {
            let list = raw(attributes);
            // SAFETY: They live during the call.
            unsafe { sys::sw_event(self.id, &raw const name.0, list.as_ptr(), list.len()) };
        }
    }

    /// Adds a link to another span.
    pub fn link(&self, to: Context, attributes: &[Attribute<'_>]) {
        if self.is_recorded() {
            let (to, list) = (sys::Context::from(to), raw(attributes));
            // SAFETY: They live during the call.
            unsafe { sys::sw_link(self.id, &raw const to, list.as_ptr(), list.len()) };
        }
    }

    /// Says how it ends.
    pub fn set_status(&self, status: Status) {
        // SAFETY: It takes any span.
        unsafe { sys::sw_set_status(self.id, c_int::from(status as u8)) };
    }

    /// Says why it failed.
    pub fn set_error(&self, message: &str) {
        self.set_status(Status::Error);
        if self.is_recorded() {
            let message = text(message);
            // SAFETY: The text lives during the call.
            unsafe { sys::sw_set_status_message(self.id, message.as_ptr()) };
        }
    }

    /// Another kind than its site's.
    pub fn set_kind(&self, kind: Kind) {
        // SAFETY: It takes any span.
        unsafe { sys::sw_set_kind(self.id, c_int::from(kind as u8)) };
    }

    /// W3C's `tracestate`, of at most 512 bytes.
    pub fn set_tracestate(&self, value: &str) {
        if self.is_recorded() {
            let value = text(value);
            // SAFETY: The text lives during the call.
            unsafe { sys::sw_set_tracestate(self.id, value.as_ptr()) };
        }
    }

    /// What to give away, so that spans elsewhere have this parent. `None` if it is not recorded.
    pub fn context(&self) -> Option<Context> {
        Context::of(self.id)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: It takes any span, also one that has ended.
        unsafe { sys::sw_end(self.id) };
    }
}

/// A span that no thread's stack holds: it may be sent to another thread, and ends where it is
/// dropped.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct DetachedSpan(sys::Detached);

impl DetachedSpan {
    /// Sets an attribute.
    pub fn set<'a>(&mut self, key: &'static Key, value: impl Into<Value<'a>>) {
        let attribute = Attribute::new(key, value).raw;
        // SAFETY: Both live during the call.
        unsafe { sys::sw_detached_attrs(&raw mut self.0, &raw const attribute, 1) };
    }

    /// Says how it ends.
    pub const fn set_status(&mut self, status: Status) {
        self.0.status = status as u8;
    }

    /// What to give away. `None` if it is not recorded.
    pub fn context(&self) -> Option<Context> {
        (self.0.live != 0).then(|| self.0.context.into())
    }
}

impl Drop for DetachedSpan {
    fn drop(&mut self) {
        // SAFETY: It is the library's own structure.
        unsafe { sys::sw_detached_end(&raw mut self.0) };
    }
}

/// Writes a log record in this thread's innermost open span.
pub fn log(level: Level, body: &str, attributes: &[Attribute<'_>]) {
    let (body, list) = (text(body), raw(attributes));
    // SAFETY: They live during the call.
    unsafe { sys::sw_log(c_int::from(level as u8), body.as_ptr(), list.as_ptr(), list.len()) };
}
