//! Metrics: `static` values that are registered once a tracer runs.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering};

use crate::{Tracer, sys};

const fn metric(name: &'static CStr, unit: &'static CStr, kind: c_int) -> sys::Metric {
    sys::Metric {
        name: name.as_ptr(),
        unit: unit.as_ptr(),
        description: ptr::null(),
        kind,
        callback: None,
        argument: ptr::null_mut(),
        histogram: AtomicPtr::new(ptr::null_mut()),
        attributes: ptr::null(),
        attribute_count: 0,
        id: 0,
        shards: [const { sys::Shard { value: AtomicI64::new(0), unused: [0; 7] } }; 8],
    }
}

macro_rules! plain {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $call:ident, $method:ident, $what:literal) => {
        $(#[$doc])*
        pub struct $name {
            metric: std::cell::UnsafeCell<sys::Metric>,
            registered: AtomicBool,
        }

        // SAFETY: The library changes its numbers atomically, and the rest only when it is
        // registered, which is done once.
        unsafe impl Sync for $name {}

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl $name {
            /// For a `static`.
            pub const fn new(name: &'static CStr, unit: &'static CStr) -> Self {
                let metric = std::cell::UnsafeCell::new(metric(name, unit, $kind));
                Self { metric, registered: AtomicBool::new(false) }
            }

            /// Registers it, once.
            ///
            /// # Errors
            /// If there are too many.
            pub fn register(&'static self, _: &Tracer) -> std::io::Result<()> {
                register(&self.metric, &self.registered)
            }

            #[doc = $what]
            pub fn $method(&'static self, value: i64) {
                // SAFETY: It lives for ever.
                unsafe { sys::$call(self.metric.get(), value) };
            }
        }
    };
}

plain!(
    /// A sum that only grows.
    Counter, 1, sw_add, add, "Adds to it."
);
plain!(
    /// A sum that also falls.
    UpDownCounter, 2, sw_add, add, "Adds to it, or takes away."
);
plain!(
    /// A value of the moment.
    Gauge, 3, sw_set, set, "Sets it."
);

fn register(
    metric: &'static std::cell::UnsafeCell<sys::Metric>,
    registered: &AtomicBool,
) -> std::io::Result<()> {
    if registered.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // SAFETY: It lives for ever, and only the first call comes here.
    match unsafe { sys::sw_metric_register(metric.get()) } {
        0 => Ok(()),
        error => {
            registered.store(false, Ordering::Release);
            Err(std::io::Error::from_raw_os_error(-error))
        }
    }
}

/// A distribution, in buckets of 9 %.
pub struct Histogram {
    metric: std::cell::UnsafeCell<sys::Metric>,
    buckets: std::cell::UnsafeCell<sys::Histogram>,
    registered: AtomicBool,
}

// SAFETY: As for the others.
unsafe impl Sync for Histogram {}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").finish_non_exhaustive()
    }
}

impl Histogram {
    /// For a `static`.
    pub const fn new(name: &'static CStr, unit: &'static CStr) -> Self {
        Self {
            metric: std::cell::UnsafeCell::new(metric(name, unit, 4)),
            buckets: std::cell::UnsafeCell::new(sys::Histogram {
                count: AtomicU64::new(0),
                zero: AtomicU64::new(0),
                buckets: [const { AtomicU64::new(0) }; 512],
                sum: AtomicU64::new(0),
                min: AtomicU64::new(0),
                max: AtomicU64::new(0),
            }),
            registered: AtomicBool::new(false),
        }
    }

    /// Registers it, once.
    ///
    /// # Errors
    /// If there are too many.
    pub fn register(&'static self, _: &Tracer) -> std::io::Result<()> {
        // SAFETY: The field is atomic, and both live for ever.
        let histogram = unsafe { &(*self.metric.get()).histogram };
        histogram.store(self.buckets.get(), Ordering::Release);
        register(&self.metric, &self.registered)
    }

    /// Adds a value. Nothing happens before it is registered.
    pub fn observe(&'static self, value: f64) {
        if self.registered.load(Ordering::Acquire) {
            // SAFETY: It lives for ever and has its buckets.
            unsafe { sys::sw_observe(self.metric.get(), value) };
        }
    }
}
