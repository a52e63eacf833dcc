//! Reads Apache Thrift without a schema: the binary and the compact protocol (Thrift specification,
//! `doc/specs/thrift-binary-protocol.md` and `thrift-compact-protocol.md`).
//!
//! A decoder requests a struct's fields one by one, and reads or skips each. Nothing is allocated;
//! texts and bytes are slices of the input. Claimed lengths are limited by the remaining bytes,
//! because every element takes at least one. The depth of nesting is limited, and so is the stack.

mod binary;
mod compact;

/// Maximum depth of structs and containers that are skipped. Spans use five levels.
const MAX_DEPTH: usize = 32;

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Fixed widths, big-endian.
    Binary,
    /// Variable lengths; field numbers as differences.
    Compact,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    /// Text or bytes, which Thrift does not distinguish.
    Binary,
    Struct,
    Map,
    Set,
    List,
    Uuid,
}

/// A field of a struct. Its value follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) id: i16,
    pub(crate) kind: Type,
}

/// The previous field's number, to which the compact protocol refers. A decoder keeps one for each
/// open struct.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastField(i16);

/// The header of a message, which is a call of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The method's name.
    pub(crate) name: &'a [u8],
    /// 1 call, 2 reply, 3 exception, 4 oneway.
    pub(crate) kind: u8,
}

/// Why bytes are not valid Thrift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ThriftError {
    #[error("it ends in the middle of a value")]
    Truncated,
    #[error("a length of {length} is claimed where {left} bytes are left")]
    Length { length: i64, left: usize },
    #[error("{number} is the number of no thrift type")]
    Type { number: u8 },
    #[error("a number is longer than its type")]
    Overlong,
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    #[error("it does not begin as a message of this thrift protocol does")]
    Message,
    #[error("a field is not of its type")]
    Unexpected,
}

/// Reads Thrift from the start of some bytes. A clone continues independently from the same
/// position.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    protocol: Protocol,
    /// The value of a boolean field, if it was part of the field's header.
    inline: Option<bool>,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(protocol: Protocol, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, protocol, inline: None }
    }

    /// Number of remaining bytes.
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The header of a message.
    pub(crate) fn message(&mut self) -> Result<Message<'a>, ThriftError> {
        match self.protocol {
            Protocol::Binary => binary::message(self),
            Protocol::Compact => self.compact_message(),
        }
    }

    /// The next field of the current struct; `None` at its end.
    pub(crate) fn field(&mut self, last: &mut LastField) -> Result<Option<Field>, ThriftError> {
        match self.protocol {
            Protocol::Binary => binary::field(self),
            Protocol::Compact => self.compact_field(last),
        }
    }

    /// The element type and length of a list or set.
    pub(crate) fn list(&mut self) -> Result<(Type, usize), ThriftError> {
        let (kind, length) = match self.protocol {
            Protocol::Binary => binary::list(self)?,
            Protocol::Compact => self.compact_list()?,
        };
        Ok((kind, self.count(length)?))
    }

    /// The types of a map's keys and values, and the number of entries.
    fn map(&mut self) -> Result<Option<(Type, Type, usize)>, ThriftError> {
        let header = match self.protocol {
            Protocol::Binary => binary::map(self)?,
            Protocol::Compact => self.compact_map()?,
        };
        header.map(|(key, value, length)| Ok((key, value, self.count(length)?))).transpose()
    }

    pub(crate) fn bool(&mut self) -> Result<bool, ThriftError> {
        match self.inline.take() {
            Some(flag) => Ok(flag),
            // The compact protocol writes true as 1 and false as 2 (or 0).
            None => Ok(self.byte()? == 1),
        }
    }

    pub(crate) fn i16(&mut self) -> Result<i16, ThriftError> {
        match self.protocol {
            Protocol::Binary => Ok(i16::from_be_bytes(self.fixed()?)),
            Protocol::Compact => self.zigzag(),
        }
    }

    pub(crate) fn i32(&mut self) -> Result<i32, ThriftError> {
        match self.protocol {
            Protocol::Binary => Ok(i32::from_be_bytes(self.fixed()?)),
            Protocol::Compact => self.zigzag(),
        }
    }

    pub(crate) fn i64(&mut self) -> Result<i64, ThriftError> {
        match self.protocol {
            Protocol::Binary => Ok(i64::from_be_bytes(self.fixed()?)),
            Protocol::Compact => self.zigzag(),
        }
    }

    pub(crate) fn double(&mut self) -> Result<f64, ThriftError> {
        Ok(match self.protocol {
            Protocol::Binary => f64::from_be_bytes(self.fixed()?),
            Protocol::Compact => f64::from_le_bytes(self.fixed()?),
        })
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], ThriftError> {
        let length = match self.protocol {
            Protocol::Binary => self.i32()?.into(),
            Protocol::Compact => self.compact_length()?,
        };
        let length = self.count(length)?;
        self.take(length)
    }

    /// A text. Old clients write arbitrary bytes. Invalid UTF-8 is replaced, so that the rest of
    /// the span is kept.
    pub(crate) fn text(&mut self) -> Result<String, ThriftError> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    /// Decodes the structs of a list with `read`. Elements of another type are skipped.
    pub(crate) fn structs<T>(
        &mut self,
        read: fn(&mut Self) -> Result<T, ThriftError>,
    ) -> Result<Vec<T>, ThriftError> {
        let (kind, length) = self.list()?;
        let mut all = Vec::new();
        for _ in 0..length {
            if kind == Type::Struct {
                all.push(read(self)?);
            } else {
                self.skip(kind)?;
            }
        }
        Ok(all)
    }

    /// Skips a value.
    pub(crate) fn skip(&mut self, kind: Type) -> Result<(), ThriftError> {
        self.skip_within(kind, MAX_DEPTH)
    }

    fn skip_within(&mut self, kind: Type, depth: usize) -> Result<(), ThriftError> {
        match kind {
            Type::Bool => _ = self.bool()?,
            Type::Byte => _ = self.byte()?,
            Type::I16 => _ = self.i16()?,
            Type::I32 => _ = self.i32()?,
            Type::I64 => _ = self.i64()?,
            Type::Double => _ = self.double()?,
            Type::Uuid => _ = self.take(16)?,
            Type::Binary => _ = self.bytes()?,
            Type::Struct | Type::Map | Type::Set | Type::List => {
                let depth = depth.checked_sub(1).ok_or(ThriftError::TooDeep)?;
                self.skip_composed(kind, depth)?;
            }
        }
        Ok(())
    }

    fn skip_composed(&mut self, kind: Type, depth: usize) -> Result<(), ThriftError> {
        match kind {
            Type::Struct => {
                let mut last = LastField::default();
                while let Some(field) = self.field(&mut last)? {
                    self.skip_within(field.kind, depth)?;
                }
            }
            Type::Map => {
                if let Some((key, value, length)) = self.map()? {
                    for _ in 0..length {
                        self.skip_within(key, depth)?;
                        self.skip_within(value, depth)?;
                    }
                }
            }
            _ => {
                let (kind, length) = self.list()?;
                for _ in 0..length {
                    self.skip_within(kind, depth)?;
                }
            }
        }
        Ok(())
    }

    /// A number of elements. Each takes at least one byte.
    fn count(&self, length: i64) -> Result<usize, ThriftError> {
        let left = self.rest.len();
        let count = usize::try_from(length).ok().filter(|count| *count <= left);
        count.ok_or(ThriftError::Length { length, left })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ThriftError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ThriftError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ThriftError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ThriftError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        Ok(u8::from_be_bytes(self.fixed()?))
    }
}

#[cfg(test)]
mod tests;
