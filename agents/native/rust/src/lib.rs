//! Spans, logs and metrics of Rust programs, at the cost of two clock reads a span, in
//! memory-mapped files that survive `kill -9`. `spanwise agent --native-dir DIR` sends them while
//! the program runs, `spanwise replay DIR` later.
//!
//! ```no_run
//! use spanwise_native_client::{Kind, Tracer, key, site};
//!
//! let tracer = Tracer::new("/var/tmp/trace", "shop").start()?;
//! {
//!     let span = site!("handle request", Kind::Server).begin();
//!     span.set(key!("http.response.status_code"), 200);
//! } // the span ends here
//! drop(tracer);
//! # Ok::<(), spanwise_native_client::StartError>(())
//! ```
//!
//! A call that the library cannot record is counted in its files, never an error of the program.

mod context;
mod metrics;
mod span;
mod sys;

use std::ffi::{CString, NulError, c_int};
use std::marker::PhantomData;
use std::path::Path;

pub use context::{Context, InvalidContext};
pub use metrics::{Counter, Gauge, Histogram, UpDownCounter};
pub use span::{Attribute, DetachedSpan, Key, Kind, Level, Site, Span, Status, Value, log};

/// What happens when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(i32)]
pub enum Policy {
    /// Further files; the oldest are deleted beyond a bound.
    #[default]
    Roll = 0,
    /// New spans are dropped and counted.
    Drop = 1,
    /// The oldest blocks are overwritten: a flight recorder.
    Overwrite = 2,
    /// No files: records are events of LTTng-UST.
    Lttng = 3,
}

/// Why recording did not start.
#[derive(Debug)]
pub enum StartError {
    /// A text contains a NUL.
    Text(NulError),
    /// It has been started before; it can be only once in a process.
    Already,
    /// The error of the system, such as of the directory.
    System(std::io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(error) => write!(f, "a text cannot be passed on: {error}"),
            Self::Already => f.write_str("this process has started recording before"),
            Self::System(error) => write!(f, "cannot record: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<NulError> for StartError {
    fn from(error: NulError) -> Self {
        Self::Text(error)
    }
}

/// Options of a [`Tracer`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TracerOptions {
    dir: Vec<u8>,
    service_name: String,
    policy: Policy,
    ring_bytes: u64,
    disk_bytes: u64,
    metrics_interval_ms: u32,
    resource: Vec<(String, String)>,
}

impl TracerOptions {
    /// What happens when there is no room.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// A thread's ring, or its segment with [`Policy::Roll`]: a multiple of 64 KiB, at least two.
    pub const fn ring_bytes(mut self, bytes: u64) -> Self {
        self.ring_bytes = bytes;
        self
    }

    /// The bound of all segments with [`Policy::Roll`].
    pub const fn disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = bytes;
        self
    }

    /// How often metrics are written.
    pub const fn metrics_interval_ms(mut self, ms: u32) -> Self {
        self.metrics_interval_ms = ms;
        self
    }

    /// Adds an attribute of the resource, such as `deployment.environment.name`.
    pub fn resource(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.resource.push((key.into(), value.into()));
        self
    }

    /// Starts recording, until the tracer is dropped. A process can do that once.
    ///
    /// # Errors
    /// If an option is wrong, or the directory cannot be written.
    pub fn start(self) -> Result<Tracer, StartError> {
        let dir = CString::new(self.dir)?;
        let service = CString::new(self.service_name)?;
        let texts = (self.resource.into_iter())
            .map(|(key, value)| Ok((CString::new(key)?, CString::new(value)?)))
            .collect::<Result<Vec<_>, NulError>>()?;
        let resource: Vec<sys::Resource> = (texts.iter())
            .map(|(key, value)| sys::Resource { key: key.as_ptr(), value: value.as_ptr() })
            .collect();
        let options = sys::Options {
            size: size_of::<sys::Options>(),
            dir: dir.as_ptr(),
            service_name: service.as_ptr(),
            policy: self.policy as c_int,
            ring_bytes: self.ring_bytes,
            disk_bytes: self.disk_bytes,
            resource: resource.as_ptr(),
            resource_count: resource.len(),
            metrics_interval_ms: self.metrics_interval_ms,
        };
        // SAFETY: The texts live during the call, which copies them.
        match unsafe { sys::sw_start(&raw const options) } {
            0 => Ok(Tracer { _private: PhantomData }),
            error => {
                let error = std::io::Error::from_raw_os_error(-error);
                // EALREADY has no kind of its own.
                const EALREADY: i32 = 114;
                if error.raw_os_error() == Some(EALREADY) {
                    return Err(StartError::Already);
                }
                Err(StartError::System(error))
            }
        }
    }
}

/// Records while it lives. Spans that end after it are recorded, too; none begin.
#[derive(Debug)]
pub struct Tracer {
    _private: PhantomData<()>,
}

impl Tracer {
    /// Options for recording to a directory.
    #[expect(clippy::new_ret_no_self, reason = "`start` makes it")]
    pub fn new(dir: impl AsRef<Path>, service_name: impl Into<String>) -> TracerOptions {
        TracerOptions {
            dir: dir.as_ref().as_os_str().as_encoded_bytes().to_vec(),
            service_name: service_name.into(),
            policy: Policy::default(),
            ring_bytes: 0,
            disk_bytes: 0,
            metrics_interval_ms: 0,
            resource: Vec::new(),
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // SAFETY: It has no preconditions.
        unsafe {
            sys::sw_stop();
        }
    }
}

/// A call site: `site!("name")`, `site!("name", Kind::Server)` or with a [`Level`] behind.
#[macro_export]
macro_rules! site {
    ($name:literal) => {
        $crate::site!($name, $crate::Kind::Internal)
    };
    ($name:literal, $kind:expr) => {
        $crate::site!($name, $kind, $crate::Level::Info)
    };
    ($name:literal, $kind:expr, $level:expr) => {{
        static SITE: $crate::Site = $crate::Site::new(
            match ::std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a site's name contains a NUL"),
            },
            match ::std::ffi::CStr::from_bytes_with_nul(concat!(file!(), "\0").as_bytes()) {
                Ok(file) => file,
                Err(_) => panic!("a file's name contains a NUL"),
            },
            line!(),
            $kind,
            $level,
        );
        &SITE
    }};
}

/// The key of an attribute, or the name of an event: `key!("http.route")`.
#[macro_export]
macro_rules! key {
    ($name:literal) => {{
        static KEY: $crate::Key = $crate::Key::new(
            match ::std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a key contains a NUL"),
            },
        );
        &KEY
    }};
}
