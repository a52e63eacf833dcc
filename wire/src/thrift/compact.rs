//! The compact protocol.

use super::{Field, LastField, Message, Reader, ThriftError, Type};

const PROTOCOL_ID: u8 = 0x82;
const VERSION: u8 = 1;

fn kind(number: u8) -> Result<Type, ThriftError> {
    Ok(match number {
        1 | 2 => Type::Bool,
        3 => Type::Byte,
        4 => Type::I16,
        5 => Type::I32,
        6 => Type::I64,
        7 => Type::Double,
        8 => Type::Binary,
        9 => Type::List,
        10 => Type::Set,
        11 => Type::Map,
        12 => Type::Struct,
        13 => Type::Uuid,
        _ => return Err(ThriftError::Type { number }),
    })
}

fn varint(reader: &mut Reader<'_>) -> Result<u64, ThriftError> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = reader.byte()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(ThriftError::Overlong);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ThriftError::Overlong)
}

/// The reader's methods for the compact protocol.
impl<'a> Reader<'a> {
    pub(super) fn compact_message(&mut self) -> Result<Message<'a>, ThriftError> {
        let [id, version_and_kind] = self.fixed()?;
        if id != PROTOCOL_ID || version_and_kind & 0x1f != VERSION {
            return Err(ThriftError::Message);
        }
        // The sequence number, which relates replies to calls.
        varint(self)?;
        Ok(Message { name: self.bytes()?, kind: version_and_kind >> 5 })
    }

    pub(super) fn compact_field(
        &mut self,
        last: &mut LastField,
    ) -> Result<Option<Field>, ThriftError> {
        let header = self.byte()?;
        if header == 0 {
            return Ok(None);
        }
        let (difference, number) = (header >> 4, header & 0x0f);
        let id = match difference {
            0 => self.zigzag()?,
            more => last.0.checked_add(more.into()).ok_or(ThriftError::Overlong)?,
        };
        *last = LastField(id);
        let kind = kind(number)?;
        self.inline = (kind == Type::Bool).then_some(number == 1);
        Ok(Some(Field { id, kind }))
    }

    pub(super) fn compact_list(&mut self) -> Result<(Type, i64), ThriftError> {
        let header = self.byte()?;
        let length = match header >> 4 {
            15 => self.compact_length()?,
            short => short.into(),
        };
        // Some writers set no type for empty lists.
        let kind = if length == 0 { Type::Byte } else { kind(header & 0x0f)? };
        Ok((kind, length))
    }

    pub(super) fn compact_map(&mut self) -> Result<Option<(Type, Type, i64)>, ThriftError> {
        let length = self.compact_length()?;
        if length == 0 {
            return Ok(None);
        }
        let types = self.byte()?;
        Ok(Some((kind(types >> 4)?, kind(types & 0x0f)?, length)))
    }

    pub(super) fn compact_length(&mut self) -> Result<i64, ThriftError> {
        i64::try_from(varint(self)?).map_err(|_| ThriftError::Overlong)
    }

    pub(super) fn zigzag<T: TryFrom<i64>>(&mut self) -> Result<T, ThriftError> {
        let number = varint(self)?;
        let signed = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
        T::try_from(signed).map_err(|_| ThriftError::Overlong)
    }
}
