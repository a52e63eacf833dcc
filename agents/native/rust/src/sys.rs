//! `spanwise.h`. Fields that the library changes are atomic.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU16, AtomicU64};

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resource {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

#[repr(C)]
pub(crate) struct Options {
    pub(crate) size: usize,
    pub(crate) dir: *const c_char,
    pub(crate) service_name: *const c_char,
    pub(crate) policy: c_int,
    pub(crate) ring_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) resource: *const Resource,
    pub(crate) resource_count: usize,
    pub(crate) metrics_interval_ms: c_uint,
}

#[repr(C)]
pub(crate) struct Site {
    pub(crate) enabled: AtomicPtr<u8>,
    pub(crate) name: *const c_char,
    pub(crate) file: *const c_char,
    pub(crate) line: u32,
    pub(crate) id: AtomicU16,
    pub(crate) kind: u8,
    pub(crate) level: u8,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context {
    pub(crate) trace_hi: u64,
    pub(crate) trace_lo: u64,
    pub(crate) span_id: u64,
    pub(crate) flags: u8,
}

#[repr(C)]
pub(crate) struct Key {
    pub(crate) name: *const c_char,
    pub(crate) id: AtomicU16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Value {
    pub(crate) i64: i64,
    pub(crate) f64: f64,
    pub(crate) bytes: *const c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attribute {
    pub(crate) key: *const Key,
    pub(crate) kind: c_int,
    pub(crate) length: u32,
    pub(crate) value: Value,
}

#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Detached {
    pub(crate) context: Context,
    pub(crate) parent_id: u64,
    pub(crate) start: u64,
    pub(crate) site: u16,
    pub(crate) status: u8,
    pub(crate) live: u8,
}

#[repr(C)]
pub(crate) struct Shard {
    pub(crate) value: AtomicI64,
    pub(crate) unused: [u64; 7],
}

#[repr(C)]
pub(crate) struct Histogram {
    pub(crate) count: AtomicU64,
    pub(crate) zero: AtomicU64,
    pub(crate) buckets: [AtomicU64; 512],
    pub(crate) sum: AtomicU64,
    pub(crate) min: AtomicU64,
    pub(crate) max: AtomicU64,
}

#[repr(C)]
pub(crate) struct Metric {
    pub(crate) name: *const c_char,
    pub(crate) unit: *const c_char,
    pub(crate) description: *const c_char,
    pub(crate) kind: c_int,
    pub(crate) callback: Option<unsafe extern "C" fn(*mut c_void) -> i64>,
    pub(crate) argument: *mut c_void,
    pub(crate) histogram: AtomicPtr<Histogram>,
    pub(crate) attributes: *const Resource,
    pub(crate) attribute_count: c_uint,
    pub(crate) id: c_uint,
    pub(crate) shards: [Shard; 8],
}

unsafe extern "C" {
    pub(crate) static sw_unregistered: u8;
    pub(crate) fn sw_start(options: *const Options) -> c_int;
    pub(crate) fn sw_stop() -> c_int;
    pub(crate) fn sw_begin_slow(site: *const Site) -> u64;
    pub(crate) fn sw_begin_remote_slow(site: *const Site, parent: *const Context) -> u64;
    pub(crate) fn sw_end(span: u64);
    pub(crate) fn sw_set_status(span: u64, status: c_int);
    pub(crate) fn sw_set_kind(span: u64, kind: c_int);
    pub(crate) fn sw_attrs(span: u64, attributes: *const Attribute, count: usize) -> c_int;
    pub(crate) fn sw_event(
        span: u64,
        name: *const Key,
        attributes: *const Attribute,
        count: usize,
    ) -> c_int;
    pub(crate) fn sw_link(
        span: u64,
        to: *const Context,
        attributes: *const Attribute,
        count: usize,
    ) -> c_int;
    pub(crate) fn sw_set_tracestate(span: u64, value: *const c_char) -> c_int;
    pub(crate) fn sw_set_status_message(span: u64, message: *const c_char) -> c_int;
    pub(crate) fn sw_log(
        level: c_int,
        body: *const c_char,
        attributes: *const Attribute,
        count: usize,
    ) -> c_int;
    pub(crate) fn sw_detached_begin(span: *mut Detached, site: *const Site, parent: *const Context);
    pub(crate) fn sw_detached_end(span: *mut Detached);
    pub(crate) fn sw_detached_attrs(
        span: *mut Detached,
        attributes: *const Attribute,
        count: usize,
    ) -> c_int;
    pub(crate) fn sw_context_of(span: u64, context: *mut Context) -> c_int;
    pub(crate) fn sw_current(context: *mut Context) -> c_int;
    pub(crate) fn sw_format(context: *const Context, text: *mut c_char);
    pub(crate) fn sw_parse(text: *const c_char, length: usize, context: *mut Context) -> c_int;
    pub(crate) fn sw_pack(context: *const Context, bytes: *mut u8);
    pub(crate) fn sw_unpack(bytes: *const u8, length: usize, context: *mut Context) -> c_int;
    pub(crate) fn sw_metric_register(metric: *const Metric) -> c_int;
    pub(crate) fn sw_add(metric: *const Metric, value: i64);
    pub(crate) fn sw_set(metric: *const Metric, value: i64);
    pub(crate) fn sw_observe(metric: *const Metric, value: f64);
}
