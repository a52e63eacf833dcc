//! Types of fields, as both forms of metadata describe them.

use std::cell::{Cell, OnceCell};

/// Types nest no deeper: both parsers and the decoder recurse.
pub(crate) const DEPTH_MAX: usize = 48;
/// Types of one trace; a type that is used twice counts twice.
pub(crate) const TYPES_MAX: usize = 500_000;

/// What an integer means to the reader, one bit each.
pub(crate) mod role {
    pub(crate) const MAGIC: u16 = 1;
    pub(crate) const STREAM_CLASS: u16 = 1 << 1;
    pub(crate) const STREAM_ID: u16 = 1 << 2;
    pub(crate) const PACKET_SIZE: u16 = 1 << 3;
    pub(crate) const CONTENT_SIZE: u16 = 1 << 4;
    pub(crate) const SEQUENCE: u16 = 1 << 5;
    pub(crate) const DISCARDED: u16 = 1 << 6;
    pub(crate) const END_TIME: u16 = 1 << 7;
    pub(crate) const EVENT_CLASS: u16 = 1 << 8;
    /// Replaces the low bits of the stream's clock.
    pub(crate) const CLOCK: u16 = 1 << 9;
    /// The processor whose events a packet holds.
    pub(crate) const PROCESSOR: u16 = 1 << 10;
    pub(crate) const COUNT: usize = 11;
}

/// The order of a number's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the trace says.
    Native,
    Little,
    Big,
}

/// Where a length or a tag was written: a field that came before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Location {
    /// `None`: from the innermost structure outwards.
    pub(crate) scope: Option<usize>,
    /// Names; `None` goes one structure up.
    pub(crate) path: Vec<Option<String>>,
    /// The place of the value while an event is decoded.
    pub(crate) slot: Cell<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Length {
    Fixed(u64),
    Field(Location),
}

/// A label of an enumeration and its range, both ends included.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) label: String,
    pub(crate) first: i128,
    pub(crate) last: i128,
}

#[derive(Debug, Clone)]
pub(crate) struct Integer {
    /// 1 to 64; 0 for LEB128.
    pub(crate) bits: u32,
    pub(crate) align: u32,
    pub(crate) signed: bool,
    pub(crate) order: Order,
    /// Characters of a text.
    pub(crate) text: bool,
    pub(crate) boolean: bool,
    pub(crate) roles: u16,
    pub(crate) mappings: Vec<Mapping>,
    /// Where a later length or tag looks for this value; 0: nowhere.
    pub(crate) slot: Cell<usize>,
}

/// The bytes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16(Order),
    Utf32(Order),
}

/// An arm of a variant, or of an optional field.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    pub(crate) name: String,
    /// Of the tag's values. CTF 1.8 names labels instead, which are looked up later.
    pub(crate) ranges: OnceCell<Vec<(i128, i128)>>,
    pub(crate) value: Type,
}

#[derive(Debug, Clone)]
pub(crate) struct Structure {
    pub(crate) fields: Vec<(String, Type)>,
    pub(crate) align: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Type {
    Integer(Integer),
    Float {
        bits: u32,
        align: u32,
        order: Order,
    },
    /// Up to a NUL.
    Text(Encoding),
    /// So many bytes of text, up to a NUL.
    Bounded {
        length: Length,
        encoding: Encoding,
    },
    Blob {
        length: Length,
        uuid: bool,
    },
    Structure(Structure),
    Array {
        element: Box<Self>,
        length: Length,
        align: u32,
    },
    Variant {
        tag: Location,
        arms: Vec<Arm>,
    },
    Optional {
        tag: Location,
        arm: Box<Arm>,
    },
}

impl Type {
    /// Bits that it is aligned to; a power of two.
    pub(crate) fn align(&self) -> u32 {
        match self {
            Self::Integer(integer) => integer.align,
            Self::Float { align, .. } => *align,
            Self::Text(_) | Self::Bounded { .. } | Self::Blob { .. } => 8,
            Self::Structure(structure) => structure.align,
            Self::Array { element, align, .. } => element.align().max(*align),
            Self::Variant { .. } | Self::Optional { .. } => 1,
        }
    }

    /// How many types it is made of.
    pub(crate) fn count(&self) -> usize {
        1 + match self {
            Self::Structure(structure) => {
                structure.fields.iter().map(|(_, value)| value.count()).sum()
            }
            Self::Array { element, .. } => element.count(),
            Self::Variant { arms, .. } => arms.iter().map(|arm| arm.value.count()).sum(),
            Self::Optional { arm, .. } => arm.value.count(),
            Self::Integer(integer) => integer.mappings.len(),
            _ => 0,
        }
    }

    /// How deeply its types nest.
    pub(crate) fn depth(&self) -> usize {
        1 + match self {
            Self::Structure(structure) => {
                structure.fields.iter().map(|(_, value)| value.depth()).max().unwrap_or(0)
            }
            Self::Array { element, .. } => element.depth(),
            Self::Variant { arms, .. } => {
                arms.iter().map(|arm| arm.value.depth()).max().unwrap_or(0)
            }
            Self::Optional { arm, .. } => arm.value.depth(),
            _ => 0,
        }
    }

    /// Gives every integer of that name a role, at any depth.
    pub(crate) fn give_role(&mut self, name: &str, role: u16) {
        match self {
            Self::Structure(structure) => {
                for (field, value) in &mut structure.fields {
                    match value {
                        Self::Integer(integer) if field == name => integer.roles |= role,
                        _ => value.give_role(name, role),
                    }
                }
            }
            Self::Variant { arms, .. } => {
                for arm in arms {
                    arm.value.give_role(name, role);
                }
            }
            _ => {}
        }
    }

    /// The field of a structure.
    pub(crate) fn field_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Structure(structure) = self else { return None };
        structure.fields.iter_mut().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

/// A structure's alignment: the largest of its fields' and its own.
pub(crate) fn structure(fields: Vec<(String, Type)>, align: u32) -> Type {
    let align = fields.iter().map(|(_, value)| value.align()).max().unwrap_or(1).max(align);
    Type::Structure(Structure { fields, align })
}

/// Types that were named, and how many exist already.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: usize,
}

impl Budget {
    /// One more type.
    ///
    /// # Errors
    /// If the trace has too many.
    pub(crate) fn one(&mut self) -> Result<(), String> {
        self.used += 1;
        if self.used > TYPES_MAX {
            return Err(format!("it has more than {TYPES_MAX} types"));
        }
        Ok(())
    }

    /// A type that has got a name, or is used by it. So no type is copied that is too deep.
    ///
    /// # Errors
    /// If the trace has too many types, or they nest too deeply.
    pub(crate) fn take(&mut self, value: &Type) -> Result<(), String> {
        self.used += value.count();
        if self.used > TYPES_MAX {
            return Err(format!("it has more than {TYPES_MAX} types"));
        }
        if value.depth() > DEPTH_MAX {
            return Err(format!("its types nest more than {DEPTH_MAX} levels"));
        }
        Ok(())
    }
}

/// # Errors
/// If it is no power of two up to 2^16.
pub(crate) fn alignment(bits: u64) -> Result<u32, String> {
    match u32::try_from(bits) {
        Ok(bits) if bits.is_power_of_two() && bits <= 1 << 16 => Ok(bits),
        _ => Err(format!("alignment {bits} is no power of two up to 65536")),
    }
}
