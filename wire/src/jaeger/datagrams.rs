//! What clients send to the agent's UDP ports: a call of `emitBatch` in each
//! datagram (`agent.thrift`), in the compact or the binary protocol. Very old
//! clients call `emitZipkinBatch` instead.

use crate::otlp::{Decoded, Limits};
use crate::rows::{DecodeError, Rows};
use crate::thrift::{LastField, Protocol, Reader, ThriftError, Type};
use crate::zipkin::{self, Spans};

use super::thrift;

const FORMAT: &str = "Jaeger agent datagram";
/// The one argument of both calls.
const ARGUMENT: i16 = 1;

/// Datagrams taken together, as one batch.
pub struct Datagrams {
    spans: Spans,
}

impl Datagrams {
    /// None yet. The limits hold for all of them together. Zipkin spans without
    /// a time are taken to have begun at `arrived_unix_nano`.
    pub fn new(limits: &Limits, arrived_unix_nano: i64) -> Self {
        let rows = Rows::new(FORMAT, limits);
        Self { spans: Spans::new(rows, arrived_unix_nano) }
    }

    /// Takes the spans of one datagram.
    ///
    /// # Errors
    /// Where it is no such call: nothing of it is taken then, and others may
    /// follow. Where the limits are passed: nothing more should follow.
    pub fn add(&mut self, protocol: Protocol, datagram: &[u8]) -> Result<(), DecodeError> {
        let (call, argument) = argument(Reader::new(protocol, datagram))
            .map_err(|error| DecodeError::malformed(FORMAT, "the call", error))?;
        match call {
            Call::EmitBatch => thrift::batch(argument, self.spans.rows()),
            Call::EmitZipkinBatch => zipkin::read_thrift_list(argument, &mut self.spans),
        }
    }

    /// All spans taken, and what was wrong with the others.
    ///
    /// # Errors
    /// Where the rows cannot be put into a batch: a mistake of this program.
    pub fn finish(self) -> Result<Decoded, DecodeError> {
        self.spans.into_rows().finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    EmitBatch,
    EmitZipkinBatch,
}

/// Why a datagram is none of the calls that are taken.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Thrift(#[from] ThriftError),
    #[error("it calls `{0}`, and not emitBatch")]
    Method(String),
    #[error("it has no batch")]
    NoArgument,
}

/// The call, and a reader at its argument. All of the datagram has been seen to
/// be thrift then.
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
