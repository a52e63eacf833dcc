//! Decodes datagrams of Jaeger's agent ports: each is a call of `emitBatch` (`agent.thrift`) in the
//! compact or the binary protocol. Very old clients call `emitZipkinBatch` instead.

use crate::otlp::{Decoded, Limits};
use crate::rows::{DecodeError, Rows};
use crate::thrift::{LastField, Protocol, Reader, ThriftError, Type};
use crate::zipkin::{self, Spans};

use super::thrift;

const FORMAT: &str = "Jaeger agent datagram";
/// The only argument of both calls.
const ARGUMENT: i16 = 1;

/// Datagrams that are combined into one batch.
pub struct Datagrams {
    spans: Spans,
}

impl Datagrams {
    /// Creates an empty batch. The limits apply to all datagrams together. Zipkin spans without a
    /// time start at `arrived_unix_nano`.
    pub fn new(limits: &Limits, arrived_unix_nano: i64) -> Self {
        let rows = Rows::new(FORMAT, limits);
        Self { spans: Spans::new(rows, arrived_unix_nano) }
    }

    /// Adds the spans of one datagram.
    ///
    /// # Errors
    /// If it is not a valid call, nothing of it is added, and other datagrams may follow. If a
    /// limit is exceeded, none should follow.
    pub fn add(&mut self, protocol: Protocol, datagram: &[u8]) -> Result<(), DecodeError> {
        let (call, argument) = argument(Reader::new(protocol, datagram))
            .map_err(|error| DecodeError::malformed(FORMAT, "the call", error))?;
        match call {
            Call::EmitBatch => thrift::batch(argument, self.spans.rows()),
            Call::EmitZipkinBatch => zipkin::read_thrift_list(argument, &mut self.spans),
        }
    }

    /// All spans added, and the rejected ones.
    ///
    /// # Errors
    /// If the rows cannot be put into a batch, which is an internal error.
    pub fn finish(self) -> Result<Decoded, DecodeError> {
        self.spans.into_rows().finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    EmitBatch,
    EmitZipkinBatch,
}

/// Why a datagram is not one of the expected calls.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Thrift(#[from] ThriftError),
    #[error("it calls `{0}`, and not emitBatch")]
    Method(String),
    #[error("it has no batch")]
    NoArgument,
}

/// The call, and a reader at its argument. The whole datagram has been checked to be valid Thrift.
fn argument(mut reader: Reader<'_>) -> Result<(Call, Reader<'_>), CallError> {
    let message = reader.message()?;
    let (call, wanted) = match message.name {
        b"emitBatch" => (Call::EmitBatch, Type::Struct),
        b"emitZipkinBatch" => (Call::EmitZipkinBatch, Type::List),
        other => {
            let shown = &other[..other.len().min(64)];
            return Err(CallError::Method(String::from_utf8_lossy(shown).into_owned()));
        }
    };
    let mut found = None;
    let mut last = LastField::default();
    while let Some(field) = reader.field(&mut last)? {
        if field.id == ARGUMENT && field.kind == wanted {
            found = Some(reader.clone());
        }
        reader.skip(field.kind)?;
    }
    found.map(|argument| (call, argument)).ok_or(CallError::NoArgument)
}
