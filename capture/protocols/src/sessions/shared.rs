//! Content that repeats across exchanges.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use spanwise_model::{RowWriter, Written};

use super::attributes::Attributes;

/// A value that several exchanges may share. It is stored once until one exchange changes it.
pub struct Shared<T>(Arc<Kept<T>>);

struct Kept<T> {
    value: T,
    /// Where the attributes were written to a span.
    written: Written,
}

/// A value with span attributes.
pub trait Tells {
    /// Span attributes.
    fn attributes(&self) -> &Attributes;
}

impl<T: Tells> Shared<T> {
    /// Writes the attributes to a span.
    pub fn tell(&self, row: &mut RowWriter<'_>) {
        let attributes = self.attributes();
        if !attributes.is_empty() {
            let attributes = attributes.iter().map(|(key, value)| (*key, value.as_ref()));
            row.repeated(&self.0.written, attributes);
        }
    }
}

impl<T> From<T> for Kept<T> {
    fn from(value: T) -> Self {
        Self { value, written: Written::default() }
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value.into()))
    }
}

impl<T: Clone> Clone for Kept<T> {
    fn clone(&self) -> Self {
        self.value.clone().into()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let kept = Arc::make_mut(&mut self.0);
        kept.written = Written::default();
        &mut kept.value
    }
}
