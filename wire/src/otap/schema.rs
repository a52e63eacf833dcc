//! Checks a schema before Arrow reads it.
//!
//! Arrow's schema reader panics on many unknown schemas, so the types are checked first. The types
//! of OTAP's columns are accepted, plain or with a dictionary, under any name. Unknown columns are
//! ignored, as required for later versions.

use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::{self, Endianness, Type};

/// The widest table has 17 columns.
const FIELDS: usize = 64;

/// Decodes a schema.
pub(super) fn read(schema: ipc::Schema<'_>) -> Result<Schema, String> {
    if schema.endianness() != Endianness::Little {
        return Err("the sender is big-endian, which is not taken".to_owned());
    }
    let fields = schema.fields().ok_or("a schema without fields")?;
    if fields.len() > FIELDS {
        return Err(format!("{} columns; {FIELDS} are taken", fields.len()));
    }
    let mut dictionaries = Vec::new();
    for field in fields {
        check(field, true, &mut dictionaries)?;
    }
    // The values of a dictionary are checked again with each column that uses it.
    let ids = dictionaries.len();
    dictionaries.sort_unstable();
    dictionaries.dedup();
    if dictionaries.len() != ids {
        return Err("two columns share a dictionary".to_owned());
    }
    let schema = fb_to_schema(schema);
    Ok(Schema::new(schema.fields().iter().map(|field| lenient(field)).collect::<Fields>()))
}

/// The column as nullable, because the Go producer writes empty names as nulls even in non-null
/// columns.
fn lenient(field: &Field) -> Field {
    let field = field.clone().with_nullable(true);
    match field.data_type() {
        DataType::Struct(inner) => {
            let inner = inner.iter().map(|field| lenient(field)).collect();
            field.with_data_type(DataType::Struct(inner))
        }
        _ => field,
    }
}

/// Checks a column. `outer` says whether it may have children.
fn check(field: ipc::Field<'_>, outer: bool, dictionaries: &mut Vec<i64>) -> Result<(), String> {
    let name = field.name().ok_or("a column without a name")?;
    let unknown = || {
        let data_type = field.type_type().variant_name().unwrap_or("an unknown type");
        Err(format!("column `{name}` has a type that no column of OTAP has ({data_type})"))
    };
    let mut children = 0;
    let taken = match field.type_type() {
        Type::Bool | Type::Utf8 | Type::Binary => true,
        Type::Int => {
            field.type_as_int().is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64))
        }
        Type::FloatingPoint => field
            .type_as_floating_point()
            .is_some_and(|float| float.precision() == ipc::Precision::DOUBLE),
        // Ids of spans and of traces.
        Type::FixedSizeBinary => field
            .type_as_fixed_size_binary()
            .is_some_and(|binary| matches!(binary.byteWidth(), 8 | 16)),
        Type::Timestamp => field
            .type_as_timestamp()
            .is_some_and(|timestamp| timestamp.unit() == ipc::TimeUnit::NANOSECOND),
        Type::Duration => field
            .type_as_duration()
            .is_some_and(|duration| duration.unit() == ipc::TimeUnit::NANOSECOND),
        Type::Struct_ if outer && field.dictionary().is_none() => {
            let inner =
                field.children().ok_or_else(|| format!("column `{name}` is an empty struct"))?;
            children = inner.len();
            if children > FIELDS {
                return Err(format!("column `{name}` has {children} columns"));
            }
            for field in inner {
                check(field, false, dictionaries)?;
            }
            true
        }
        _ => false,
    };
    if !taken {
        return unknown();
    }
    if let Some(dictionary) = field.dictionary() {
        let keys = dictionary.indexType().filter(|keys| !keys.is_signed());
        if !keys.is_some_and(|keys| matches!(keys.bitWidth(), 8 | 16 | 32)) {
            return Err(format!(
                "the dictionary of column `{name}` has keys other than u8, u16 and u32"
            ));
        }
        dictionaries.push(dictionary.id());
    }
    if children == 0 && field.children().is_some_and(|children| !children.is_empty()) {
        return unknown();
    }
    Ok(())
}
