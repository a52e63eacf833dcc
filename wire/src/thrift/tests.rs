use proptest::prelude::*;

use super::*;

fn compact(bytes: &[u8]) -> Reader<'_> {
    Reader::new(Protocol::Compact, bytes)
}

fn binary(bytes: &[u8]) -> Reader<'_> {
    Reader::new(Protocol::Binary, bytes)
}

#[test]
fn a_compact_struct_is_read_field_by_field() {
    // 1: true, 2: i16 -1, 3: i64 300, 20: list of two texts, 21: false, stop.
    let bytes =
        [0x11, 0x14, 0x01, 0x16, 0xd8, 0x04, 0x09, 0x28, 0x28, 1, b'a', 2, b'b', b'c', 0x12, 0];
    let (mut reader, mut last) = (compact(&bytes), LastField::default());
    let mut next = |reader: &mut Reader<'_>| reader.field(&mut last).unwrap();
    assert_eq!(next(&mut reader), Some(Field { id: 1, kind: Type::Bool }));
    assert_eq!(reader.bool(), Ok(true));
    assert_eq!(next(&mut reader), Some(Field { id: 2, kind: Type::I16 }));
    assert_eq!(reader.i16(), Ok(-1));
    assert_eq!(next(&mut reader), Some(Field { id: 3, kind: Type::I64 }));
    assert_eq!(reader.i64(), Ok(300));
    assert_eq!(next(&mut reader), Some(Field { id: 20, kind: Type::List }));
    assert_eq!(reader.list(), Ok((Type::Binary, 2)));
    assert_eq!((reader.text(), reader.bytes()), (Ok("a".into()), Ok(&b"bc"[..])));
    assert_eq!(next(&mut reader), Some(Field { id: 21, kind: Type::Bool }));
    assert_eq!(reader.bool(), Ok(false));
    assert_eq!((next(&mut reader), reader.left()), (None, 0));
    let mut skipped = compact(&bytes);
    assert_eq!((skipped.skip(Type::Struct), skipped.left()), (Ok(()), 0));
}

#[test]
fn a_binary_struct_is_read_field_by_field() {
    let bytes = [
        &[10, 0, 1][..],
        &(-5_i64).to_be_bytes(),
        &[4, 0, 2],
        &0.5_f64.to_be_bytes(),
        &[2, 0, 3, 1],
        &[13, 0, 4, 8, 11, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, b'x'],
        &[0],
    ]
    .concat();
    let (mut reader, mut last) = (binary(&bytes), LastField::default());
    assert_eq!(reader.field(&mut last), Ok(Some(Field { id: 1, kind: Type::I64 })));
    assert_eq!(reader.i64(), Ok(-5));
    assert_eq!(reader.field(&mut last), Ok(Some(Field { id: 2, kind: Type::Double })));
    assert_eq!(reader.double(), Ok(0.5));
    assert_eq!(reader.field(&mut last), Ok(Some(Field { id: 3, kind: Type::Bool })));
    assert_eq!(reader.bool(), Ok(true));
    assert_eq!(reader.field(&mut last), Ok(Some(Field { id: 4, kind: Type::Map })));
    assert_eq!(reader.skip(Type::Map), Ok(()));
    assert_eq!((reader.field(&mut last), reader.left()), (Ok(None), 0));
}

#[test]
fn messages_begin_in_three_ways() {
    let expected = Message { name: b"emitBatch", kind: 4 };
    let strict = [&[0x80, 1, 0, 4, 0, 0, 0, 9][..], b"emitBatch", &[0, 0, 0, 1]].concat();
    let old = [&[0, 0, 0, 9][..], b"emitBatch", &[4, 0, 0, 0, 1]].concat();
    let small = [&[0x82, 0x81, 1, 9][..], b"emitBatch"].concat();
    assert_eq!(binary(&strict).message(), Ok(expected));
    assert_eq!(binary(&old).message(), Ok(expected));
    assert_eq!(compact(&small).message(), Ok(expected));
    assert_eq!(compact(&strict).message(), Err(ThriftError::Message));
    assert_eq!(binary(&small).message(), Err(ThriftError::Message));
    assert_eq!(binary(b"GET / HTTP").message(), Err(ThriftError::Message));
}

#[test]
fn lengths_are_not_believed() {
    let claim = [15, 0, 1, 11, 0x7f, 0xff, 0xff, 0xff];
    assert_eq!(
        binary(&claim).skip(Type::Struct),
        Err(ThriftError::Length { length: 0x7fff_ffff, left: 0 })
    );
    assert_eq!(binary(&[0xff; 4]).bytes(), Err(ThriftError::Length { length: -1, left: 0 }));
    assert_eq!(compact(&[0xff; 11]).i64(), Err(ThriftError::Overlong));
    assert_eq!(compact(&[0xff, 0xff, 0xff, 0x7f]).i16(), Err(ThriftError::Overlong));
    assert_eq!(binary(&[9]).skip(Type::Struct), Err(ThriftError::Type { number: 9 }));
}

#[test]
fn nesting_has_an_end() {
    // A list of one list of one list …
    let deep = |header: &[u8]| header.repeat(1 << 20);
    assert_eq!(binary(&deep(&[15, 0, 0, 0, 1])).skip(Type::List), Err(ThriftError::TooDeep));
    assert_eq!(compact(&deep(&[0x19])).skip(Type::List), Err(ThriftError::TooDeep));
    assert_eq!(compact(&deep(&[0x1c])).skip(Type::Struct), Err(ThriftError::TooDeep));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        for mut reader in [binary(&bytes), compact(&bytes)] {
            let _ = reader.clone().message();
            let _ = reader.clone().skip(Type::Map);
            let _ = reader.skip(Type::Struct);
        }
    }
}
