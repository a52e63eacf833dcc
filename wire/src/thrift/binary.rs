//! The binary protocol.

use super::{Field, Message, Reader, ThriftError, Type};

/// Version 1, in the upper half of a message's first word.
const VERSION_1: u32 = 0x8001_0000;
const VERSION_MASK: u32 = 0xffff_0000;

fn kind(number: u8) -> Result<Type, ThriftError> {
    Ok(match number {
        2 => Type::Bool,
        3 => Type::Byte,
        4 => Type::Double,
        6 => Type::I16,
        8 => Type::I32,
        10 => Type::I64,
        11 => Type::Binary,
        12 => Type::Struct,
        13 => Type::Map,
        14 => Type::Set,
        15 => Type::List,
        16 => Type::Uuid,
        _ => return Err(ThriftError::Type { number }),
    })
}

/// A message's header: "strict" with a version, or the older form without.
pub(super) fn message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, ThriftError> {
    let first = reader.i32()?;
    let message = if first < 0 {
        let first = first.cast_unsigned();
        if first & VERSION_MASK != VERSION_1 {
            return Err(ThriftError::Message);
        }
        let [.., kind] = first.to_be_bytes();
        Message { name: reader.bytes()?, kind }
    } else {
        let length = reader.count(first.into()).map_err(|_| ThriftError::Message)?;
        let name = reader.take(length)?;
        Message { name, kind: reader.byte()? }
    };
    // The sequence number, which relates replies to calls.
    reader.i32()?;
    Ok(message)
}

pub(super) fn field(reader: &mut Reader<'_>) -> Result<Option<Field>, ThriftError> {
    match reader.byte()? {
        0 => Ok(None),
        number => Ok(Some(Field { kind: kind(number)?, id: reader.i16()? })),
    }
}

pub(super) fn list(reader: &mut Reader<'_>) -> Result<(Type, i64), ThriftError> {
    let number = reader.byte()?;
    let length = reader.i32()?;
    // Some writers set no type for empty lists.
    let kind = if length == 0 { Type::Byte } else { kind(number)? };
    Ok((kind, length.into()))
}

pub(super) fn map(reader: &mut Reader<'_>) -> Result<Option<(Type, Type, i64)>, ThriftError> {
    let [key, value] = reader.fixed()?;
    let length = reader.i32()?;
    if length == 0 {
        return Ok(None);
    }
    Ok(Some((kind(key)?, kind(value)?, length.into())))
}
