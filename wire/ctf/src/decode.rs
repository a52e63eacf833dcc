//! Bits of a packet to values.

use std::borrow::Cow;

use crate::metadata::Metadata;
use crate::types::{Encoding, Integer, Length, Order, Type, role};

/// Values of one event; more of them are an attack, or damage.
const VALUES_MAX: usize = 1 << 20;

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// An integer of CTF has up to 64 bits, with or without a sign.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Boolean(bool),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes: a blob, or an array of 8-bit integers.
    Bytes(Cow<'a, [u8]>),
    /// An enumeration's label and number.
    Label(&'a str, i128),
    /// An array.
    List(Vec<Value<'a>>),
    /// A structure.
    Fields(Vec<(&'a str, Value<'a>)>),
}

/// What a structure says about its packet or event.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Roles([Option<u64>; role::COUNT]);

impl Roles {
    pub(crate) const fn get(&self, role: u16) -> Option<u64> {
        self.0[role.trailing_zeros() as usize]
    }
}

/// Reads one packet's bits.
pub(crate) struct Decoder<'a, 's> {
    metadata: &'a Metadata,
    bytes: &'a [u8],
    /// In bits, from the start of the packet.
    pub(crate) at: u64,
    /// The first bit that is not content.
    pub(crate) end: u64,
    pub(crate) roles: Roles,
    pub(crate) clock: u64,
    slots: &'s mut Vec<u64>,
    pub(crate) uuid: Option<[u8; 16]>,
    values: usize,
}

/// Why nothing more can be read of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The packet's content ends here.
    End,
    /// A tag that no arm of its variant has.
    Tag,
    /// Too many values.
    Many,
}

impl Stop {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::End => "it ends in the middle of an event",
            Self::Tag => "a tag has a value that its variant does not know",
            Self::Many => "an event has more than a million values",
        }
    }
}

type Read<T> = Result<T, Stop>;

impl<'a, 's> Decoder<'a, 's> {
    pub(crate) fn new(
        metadata: &'a Metadata,
        bytes: &'a [u8],
        slots: &'s mut Vec<u64>,
        clock: u64,
    ) -> Self {
        slots.resize(metadata.slots + 1, 0);
        let (roles, end) = (Roles::default(), bytes.len() as u64 * 8);
        Self { metadata, bytes, at: 0, end, roles, clock, slots, uuid: None, values: 0 }
    }

    pub(crate) const fn at(mut self, at: u64, end: u64) -> Self {
        self.at = at;
        let most = self.bytes.len() as u64 * 8;
        self.end = if end < most { end } else { most };
        self
    }

    /// Bits up to the next multiple.
    fn align(&mut self, bits: u32) -> Read<()> {
        let mask = u64::from(bits.max(1)) - 1;
        self.at = (self.at + mask) & !mask;
        if self.at > self.end { Err(Stop::End) } else { Ok(()) }
    }

    const fn is_big(&self, order: Order) -> bool {
        match order {
            Order::Native => self.metadata.big_endian,
            Order::Little => false,
            Order::Big => true,
        }
    }

    /// Up to 64 bits.
    fn bits(&mut self, count: u32, order: Order) -> Read<u64> {
        let at = self.at;
        if self.end.saturating_sub(at) < u64::from(count) {
            return Err(Stop::End);
        }
        self.at += u64::from(count);
        let big = self.is_big(order);
        let first = (at / 8) as usize;
        if at.is_multiple_of(8) && count.is_multiple_of(8) {
            let bytes = &self.bytes[first..first + count as usize / 8];
            if let Ok(word) = <[u8; 4]>::try_from(bytes) {
                let read = if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
                return Ok(u64::from(read));
            }
            if let Ok(word) = <[u8; 8]>::try_from(bytes) {
                return Ok(if big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) });
            }
            let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            return Ok(if big {
                bytes.iter().fold(0, join)
            } else {
                bytes.iter().rev().fold(0, join)
            });
        }
        let (mut value, mut done) = (0_u64, 0);
        while done < count {
            let bit = at + u64::from(done);
            let byte = u64::from(self.bytes[(bit / 8) as usize]);
            let offset = (bit % 8) as u32;
            let taken = (8 - offset).min(count - done);
            let mask = (1_u64 << taken) - 1;
            if big {
                value = value << taken | (byte >> (8 - offset - taken) & mask);
            } else {
                value |= (byte >> offset & mask) << done;
            }
            done += taken;
        }
        Ok(value)
    }

    /// The value, extended to 64 bits if it has a sign.
    fn integer(&mut self, integer: &Integer) -> Read<u64> {
        self.align(integer.align)?;
        let (raw, bits) = if integer.bits > 0 {
            (self.bits(integer.bits, integer.order)?, integer.bits)
        } else {
            self.leb128()?
        };
        let value = if integer.signed && bits < 64 {
            ((raw << (64 - bits)) as i64 >> (64 - bits)) as u64
        } else {
            raw
        };
        if integer.slot.get() > 0
            && let Some(slot) = self.slots.get_mut(integer.slot.get())
        {
            *slot = value;
        }
        if integer.roles != 0 {
            for (index, kept) in self.roles.0.iter_mut().enumerate() {
                if integer.roles & 1 << index != 0 {
                    *kept = Some(value);
                }
            }
            if integer.roles & role::CLOCK != 0 {
                self.tick(raw, bits);
            }
        }
        Ok(value)
    }

    /// The clock's low bits; a smaller value than before is one wrap.
    const fn tick(&mut self, value: u64, bits: u32) {
        if bits >= 64 {
            self.clock = value;
            return;
        }
        let mask = (1_u64 << bits) - 1;
        let wrapped = (value & mask) < self.clock & mask;
        self.clock = self.clock & !mask | value & mask;
        if wrapped {
            self.clock = self.clock.wrapping_add(mask + 1);
        }
    }

    fn leb128(&mut self) -> Read<(u64, u32)> {
        let (mut value, mut bits) = (0_u64, 0);
        loop {
            let byte = self.bits(8, Order::Little)?;
            if bits < 64 {
                value |= (byte & 0x7f) << bits;
            }
            bits += 7;
            if byte & 0x80 == 0 {
                return Ok((value, bits.min(64)));
            }
            if bits > 63 + 7 {
                return Err(Stop::Many);
            }
        }
    }

    /// Decodes a structure only for its roles and its place.
    pub(crate) fn skip(&mut self, value: &'a Type) -> Read<()> {
        self.value(value).map(drop)
    }

    /// Decodes a scope.
    pub(crate) fn scope(&mut self, value: Option<&'a Type>) -> Read<Vec<(&'a str, Value<'a>)>> {
        match value {
            None => Ok(Vec::new()),
            Some(value) => match self.value(value)? {
                Value::Fields(fields) => Ok(fields),
                _ => Ok(Vec::new()),
            },
        }
    }

    fn value(&mut self, value: &'a Type) -> Read<Value<'a>> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(Stop::Many);
        }
        match value {
            Type::Integer(integer) => {
                let raw = self.integer(integer)?;
                let number = if integer.signed { i128::from(raw as i64) } else { i128::from(raw) };
                if integer.boolean {
                    return Ok(Value::Boolean(raw != 0));
                }
                let fits = integer
                    .mappings
                    .iter()
                    .find(|mapping| mapping.first <= number && number <= mapping.last);
                Ok(fits
                    .map_or(Value::Integer(number), |mapping| Value::Label(&mapping.label, number)))
            }
            Type::Float { bits, align, order } => {
                self.align(*align)?;
                let raw = self.bits(*bits, *order)?;
                Ok(Value::Float(if *bits == 32 {
                    f64::from(f32::from_bits(raw as u32))
                } else {
                    f64::from_bits(raw)
                }))
            }
            Type::Text(encoding) => self.text(*encoding).map(Value::Text),
            Type::Bounded { length, encoding } => {
                let length = self.length(length);
                let bytes = self.raw(length)?;
                Ok(Value::Text(decoded(until_nul(bytes, *encoding), *encoding, self.metadata)))
            }
            Type::Blob { length, uuid } => {
                let length = self.length(length);
                let bytes = self.raw(length)?;
                if *uuid {
                    self.uuid = bytes.try_into().ok();
                }
                Ok(Value::Bytes(Cow::Borrowed(bytes)))
            }
            Type::Structure(structure) => {
                self.align(structure.align)?;
                let mut fields = Vec::with_capacity(structure.fields.len());
                for (name, field) in &structure.fields {
                    fields.push((self.metadata.plain(name), self.value(field)?));
                }
                Ok(Value::Fields(fields))
            }
            Type::Array { element, length, align } => {
                self.align((*align).max(element.align()))?;
                let length = self.length(length);
                if let Type::Integer(integer) = &**element
                    && (integer.bits, integer.align) == (8, 8)
                    && integer.roles == 0
                    && integer.slot.get() == 0
                    && integer.mappings.is_empty()
                {
                    return self.raw(length).map(|bytes| Value::Bytes(Cow::Borrowed(bytes)));
                }
                let mut list = Vec::new();
                for _ in 0..length {
                    list.push(self.value(element)?);
                }
                Ok(Value::List(list))
            }
            Type::Variant { tag, arms } => {
                let raw = self.slots.get(tag.slot.get()).copied().unwrap_or(0);
                let arm = arms.iter().find(|arm| has(arm.ranges.get(), raw)).ok_or(Stop::Tag)?;
                self.value(&arm.value)
            }
            Type::Optional { tag, arm } => {
                let raw = self.slots.get(tag.slot.get()).copied().unwrap_or(0);
                if has(arm.ranges.get(), raw) {
                    self.value(&arm.value)
                } else {
                    Ok(Value::List(Vec::new()))
                }
            }
        }
    }

    fn length(&self, length: &Length) -> u64 {
        match length {
            Length::Fixed(length) => *length,
            Length::Field(location) => self.slots.get(location.slot.get()).copied().unwrap_or(0),
        }
    }

    /// Whole bytes.
    fn raw(&mut self, length: u64) -> Read<&'a [u8]> {
        self.align(8)?;
        if length > (self.end - self.at) / 8 {
            return Err(Stop::End);
        }
        let first = (self.at / 8) as usize;
        self.at += length * 8;
        Ok(&self.bytes[first..first + length as usize])
    }

    fn text(&mut self, encoding: Encoding) -> Read<Cow<'a, str>> {
        self.align(8)?;
        let rest = &self.bytes[(self.at / 8) as usize..(self.end / 8) as usize];
        let unit = unit(encoding);
        let bytes = until_nul(rest, encoding);
        if bytes.len() + unit > rest.len() {
            return Err(Stop::End);
        }
        self.at += (bytes.len() + unit) as u64 * 8;
        Ok(decoded(bytes, encoding, self.metadata))
    }
}

/// Whether a tag's bits are in one of the ranges. A tag below 0 has bits of a large number.
fn has(ranges: Option<&Vec<(i128, i128)>>, raw: u64) -> bool {
    let (unsigned, signed) = (i128::from(raw), i128::from(raw as i64));
    ranges.is_some_and(|ranges| {
        ranges.iter().any(|(first, last)| {
            let number = if *first < 0 { signed } else { unsigned };
            *first <= number && number <= *last
        })
    })
}

const fn unit(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Utf8 => 1,
        Encoding::Utf16(_) => 2,
        Encoding::Utf32(_) => 4,
    }
}

/// What comes before the first character that is NUL.
fn until_nul(bytes: &[u8], encoding: Encoding) -> &[u8] {
    let unit = unit(encoding);
    let whole = bytes.len() / unit * unit;
    let end = if unit == 1 {
        bytes.iter().position(|byte| *byte == 0)
    } else {
        bytes
            .chunks_exact(unit)
            .position(|letter| letter.iter().all(|byte| *byte == 0))
            .map(|index| index * unit)
    };
    &bytes[..end.unwrap_or(whole)]
}

fn decoded<'a>(bytes: &'a [u8], encoding: Encoding, metadata: &Metadata) -> Cow<'a, str> {
    let is_big = |order| match order {
        Order::Native => metadata.big_endian,
        Order::Little => false,
        Order::Big => true,
    };
    match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes),
        Encoding::Utf16(order) => {
            let big = is_big(order);
            let units: Vec<u16> = bytes
                .as_chunks()
                .0
                .iter()
                .map(|unit| if big { u16::from_be_bytes(*unit) } else { u16::from_le_bytes(*unit) })
                .collect();
            Cow::Owned(String::from_utf16_lossy(&units))
        }
        Encoding::Utf32(order) => {
            let big = is_big(order);
            let letter = |unit: &[u8; 4]| {
                let code = if big { u32::from_be_bytes(*unit) } else { u32::from_le_bytes(*unit) };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            };
            Cow::Owned(bytes.as_chunks().0.iter().map(letter).collect())
        }
    }
}
