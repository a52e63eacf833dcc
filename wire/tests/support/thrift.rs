//! Writes Thrift, the counterpart of the tested reader.

/// A value whose schema only the test knows.
#[derive(Debug, Clone)]
pub enum Value {
    Bool(bool),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    Bytes(Vec<u8>),
    /// All elements have one type.
    List(Vec<Value>),
    /// Fields by number, ascending.
    Struct(Vec<(i16, Value)>),
}

pub fn text(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

pub fn tag(key: &str, kind: i32, field: i16, value: Value) -> Value {
    Value::Struct(vec![(1, text(key)), (2, Value::I32(kind)), (field, value)])
}

impl Value {
    const fn binary_type(&self) -> u8 {
        match self {
            Self::Bool(_) => 2,
            Self::I16(_) => 6,
            Self::I32(_) => 8,
            Self::I64(_) => 10,
            Self::Double(_) => 4,
            Self::Bytes(_) => 11,
            Self::List(_) => 15,
            Self::Struct(_) => 12,
        }
    }

    const fn compact_type(&self) -> u8 {
        match self {
            Self::Bool(true) => 1,
            Self::Bool(false) => 2,
            Self::I16(_) => 4,
            Self::I32(_) => 5,
            Self::I64(_) => 6,
            Self::Double(_) => 7,
            Self::Bytes(_) => 8,
            Self::List(_) => 9,
            Self::Struct(_) => 12,
        }
    }

    pub fn binary(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_binary(&mut out);
        out
    }

    fn write_binary(&self, out: &mut Vec<u8>) {
        let length = |length: usize| i32::try_from(length).unwrap().to_be_bytes();
        match self {
            Self::Bool(flag) => out.push(u8::from(*flag)),
            Self::I16(number) => out.extend(number.to_be_bytes()),
            Self::I32(number) => out.extend(number.to_be_bytes()),
            Self::I64(number) => out.extend(number.to_be_bytes()),
            Self::Double(number) => out.extend(number.to_be_bytes()),
            Self::Bytes(bytes) => {
                out.extend(length(bytes.len()));
                out.extend(bytes);
            }
            Self::List(values) => {
                out.push(values.first().map_or(12, Self::binary_type));
                out.extend(length(values.len()));
                values.iter().for_each(|value| value.write_binary(out));
            }
            Self::Struct(fields) => {
                for (id, value) in fields {
                    out.push(value.binary_type());
                    out.extend(id.to_be_bytes());
                    value.write_binary(out);
                }
                out.push(0);
            }
        }
    }

    pub fn compact(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_compact(&mut out);
        out
    }

    fn write_compact(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(flag) => out.push(if *flag { 1 } else { 2 }),
            Self::I16(number) => zigzag(out, (*number).into()),
            Self::I32(number) => zigzag(out, (*number).into()),
            Self::I64(number) => zigzag(out, *number),
            Self::Double(number) => out.extend(number.to_le_bytes()),
            Self::Bytes(bytes) => {
                varint(out, bytes.len() as u64);
                out.extend(bytes);
            }
            Self::List(values) => {
                let kind = values.first().map_or(12, Self::compact_type);
                match u8::try_from(values.len()) {
                    Ok(length @ 0..15) => out.push(length << 4 | kind),
                    _ => {
                        out.push(0xf0 | kind);
                        varint(out, values.len() as u64);
                    }
                }
                values.iter().for_each(|value| value.write_compact(out));
            }
            Self::Struct(fields) => {
                let mut last = 0;
                for (id, value) in fields {
                    match u8::try_from(id - last) {
                        Ok(difference @ 1..16) => out.push(difference << 4 | value.compact_type()),
                        _ => {
                            out.push(value.compact_type());
                            zigzag(out, (*id).into());
                        }
                    }
                    last = *id;
                    if !matches!(value, Self::Bool(_)) {
                        value.write_compact(out);
                    }
                }
                out.push(0);
            }
        }
    }
}

/// A oneway call with one argument, in both protocols.
pub fn call(method: &str, argument: &Value) -> (Vec<u8>, Vec<u8>) {
    let arguments = Value::Struct(vec![(1, argument.clone())]);
    let mut binary = vec![0x80, 1, 0, 4];
    text(method).write_binary(&mut binary);
    binary.extend([0, 0, 0, 7]);
    arguments.write_binary(&mut binary);
    let mut compact = vec![0x82, 0x81, 7];
    text(method).write_compact(&mut compact);
    arguments.write_compact(&mut compact);
    (binary, compact)
}

fn zigzag(out: &mut Vec<u8>, number: i64) {
    varint(out, (number << 1 ^ number >> 63).cast_unsigned());
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}
