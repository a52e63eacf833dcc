//! Columns that are derived from others: what remains of them in a file, and how they are restored.

use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float32Array,
    Int32Array, MapArray, RecordBatch, StringArray, UInt8Array, UInt16Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::nullif;
use arrow::datatypes::{Float32Type, Int32Type, UInt8Type, UInt16Type};
use arrow::error::ArrowError;
use spanwise_model::schema::{column, span_schema};
use spanwise_model::{SpanId, TraceId};

use super::own::OwnType;
use super::shapes::Rows;
use super::split::{Maps, Split, ValuePlace, mistyped as no_map};
use super::{file_column, parents};
use crate::embedded::files::gather::Gathered;
use crate::embedded::files::order::RowPlace;

/// Bit of the column `follows`. See the module `layout`.
const ASSEMBLED: u8 = 1;
/// Bit of the column `follows`. See the module `layout`.
const CERTAIN: u8 = 8;

/// Attributes that may equal `client_address` and `client_port`, and the bit that says so.
struct Client {
    bit: u8,
    address: &'static str,
    port: &'static str,
}

const CLIENTS: [Client; 2] = [
    Client { bit: 2, address: "network.peer.address", port: "network.peer.port" },
    Client { bit: 4, address: "client.address", port: "client.port" },
];

/// The attributes from which the client's address or port may be derived.
pub(super) fn client_keys() -> impl Iterator<Item = &'static str> {
    CLIENTS.iter().flat_map(|client| [client.address, client.port])
}

/// Whether this is one of these attributes.
pub(super) fn is_of_client(key: &str) -> bool {
    client_keys().any(|of_client| of_client == key)
}

fn mistyped() -> ArrowError {
    ArrowError::SchemaError("a column of ids or names has another type".to_owned())
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, ArrowError> {
    batch
        .column_by_name(name)
        .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name}")))
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a FixedSizeBinaryArray, ArrowError> {
    as_ids(column_of(batch, name)?)
}

fn as_ids(array: &ArrayRef) -> Result<&FixedSizeBinaryArray, ArrowError> {
    array.as_fixed_size_binary_opt().ok_or_else(mistyped)
}

/// Two columns of ids.
struct IdColumns<'a, const BYTES: usize> {
    arrays: [&'a FixedSizeBinaryArray; 2],
    ids: [&'a [[u8; BYTES]]; 2],
    /// Whether both are the same array.
    are_one: bool,
}

impl<'a, const BYTES: usize> IdColumns<'a, BYTES> {
    fn of(one: &'a FixedSizeBinaryArray, other: &'a FixedSizeBinaryArray) -> Self {
        let arrays = [one, other];
        let nulls = arrays
            .map(|array| array.nulls().map(|nulls| (nulls.buffer().as_ptr(), nulls.offset())));
        let ids = arrays.map(|array| array.value_data().as_chunks().0);
        let are_one = std::ptr::eq(ids[0], ids[1]) && nulls[0] == nulls[1];
        Self { arrays, ids, are_one }
    }

    /// Whether a row has equal values in both.
    fn at(&self, row: usize) -> bool {
        if self.are_one {
            return true;
        }
        let [one, other] = self.arrays.map(|array| array.is_valid(row));
        one == other && (!one || self.ids[0][row] == self.ids[1][row])
    }
}

/// The client according to the rows' attributes.
struct ClientAddresses<'s, 'a> {
    split: &'s Split<'a>,
    /// Where the rows of each pattern have the client's address and port.
    places: Vec<[Option<ValuePlace<'a>>; 2]>,
    bit: u8,
}

impl<'s, 'a> ClientAddresses<'s, 'a> {
    fn of(split: &'s Split<'a>, client: &Client) -> Self {
        let number = |key: &str, own_type: OwnType| {
            let type_number = own_type.type_number();
            let names = &mut split.names.iter();
            names
                .position(|name| name.key == key && name.type_number == type_number)
                .map(|place| place as u32)
        };
        let names = [number(client.address, OwnType::String), number(client.port, OwnType::Int)];
        let of_pattern = |pattern| names.map(|name| split.find(pattern, name?));
        Self { split, places: (0..split.patterns()).map(of_pattern).collect(), bit: client.bit }
    }

    fn at(&self, row: RowPlace) -> (Option<&'a str>, Option<u16>) {
        let found = self.places[self.split.pattern_of(row)];
        let [address, port] = found.map(|found| Some(self.split.text(row, found?)));
        (address, port.and_then(|port| port.parse().ok()))
    }
}

/// Which columns can be derived, for rows in memory.
pub(super) struct Follows {
    /// For each row of each batch, the bits of `follows`.
    bits: Vec<Vec<u8>>,
    /// Whether any client address or port cannot be derived.
    has_clients: bool,
}

impl Follows {
    /// Examines all rows in the order in which they are in memory.
    ///
    /// # Errors
    /// If a batch does not have the span schema.
    pub(super) fn of(batches: &[RecordBatch], split: &Split<'_>) -> Result<Self, ArrowError> {
        let mut all = Self { bits: Vec::with_capacity(batches.len()), has_clients: false };
        let clients = CLIENTS.map(|client| ClientAddresses::of(split, &client));
        batches.iter().enumerate().try_for_each(|batch| all.add(batch, &clients))?;
        Ok(all)
    }

    fn add(
        &mut self,
        (number, batch): (usize, &RecordBatch),
        clients: &[ClientAddresses<'_, '_>],
    ) -> Result<(), ArrowError> {
        let same_trace = IdColumns::<{ TraceId::LEN }>::of(
            ids(batch, column::ASSEMBLED_TRACE_ID)?,
            ids(batch, column::TRACE_ID)?,
        );
        let same_parent = IdColumns::<{ SpanId::LEN }>::of(
            ids(batch, column::ASSEMBLED_PARENT)?,
            ids(batch, column::PARENT_SPAN_ID)?,
        );
        let evidence = column_of(batch, column::EVIDENCE)?;
        let confidence = column_of(batch, column::CONFIDENCE)?;
        let sure = confidence.as_primitive_opt::<Float32Type>().ok_or_else(mistyped)?;
        let addresses = column_of(batch, column::CLIENT_ADDRESS)?;
        let texts = addresses.as_dictionary_opt::<Int32Type>().ok_or_else(mistyped)?;
        let words = texts.values().as_string_opt::<i32>().ok_or_else(mistyped)?;
        let ports = column_of(batch, column::CLIENT_PORT)?;
        let numbers = ports.as_primitive_opt::<UInt16Type>().ok_or_else(mistyped)?;
        let any_client = addresses.null_count() < addresses.len();
        let any_port = ports.null_count() < ports.len();

        let bits = (0..batch.num_rows()).map(|row| {
            let as_sent = same_trace.at(row) && same_parent.at(row);
            let mut bits = if as_sent { ASSEMBLED } else { 0 };
            let said = sure.is_valid(row).then(|| sure.value(row));
            bits |= if said == evidence.is_valid(row).then_some(1.0) { CERTAIN } else { 0 };
            let port = (any_port && numbers.is_valid(row)).then(|| numbers.value(row));
            if any_client && texts.is_valid(row) {
                let key = usize::try_from(texts.keys().value(row)).unwrap_or(usize::MAX);
                let address = (key < words.len()).then(|| words.value(key));
                let is_it =
                    |client: &&ClientAddresses<'_, '_>| client.at((number, row)) == (address, port);
                let found = clients.iter().find(is_it).filter(|_| address.is_some());
                bits |= found.map_or(0, |client| client.bit);
                self.has_clients |= found.is_none();
            } else {
                self.has_clients |= port.is_some();
            }
            bits
        });
        let bits = bits.collect();
        self.bits.push(bits);
        Ok(())
    }
}

/// A row group without derivable values.
pub(crate) struct Packed {
    /// The columns that differ from the rows' original ones, by name.
    pub(crate) columns: AHashMap<&'static str, ArrayRef>,
    /// For each row, the bits of `follows`.
    pub(crate) follows: Vec<u8>,
}

/// Removes derivable values. Only the remaining values are gathered.
///
/// # Errors
/// If a column is missing or has another type.
pub(crate) fn pack(
    gathered: &mut Gathered<'_>,
    rows: &Rows<'_>,
    places: &[RowPlace],
) -> Result<Packed, ArrowError> {
    let known = &rows.follows;
    let follows: Vec<u8> = places.iter().map(|&(batch, row)| known.bits[batch][row]).collect();
    let all_are = |bit: u8| follows.iter().all(|bits| bits & bit != 0);
    // The column, with nulls where it can be derived.
    let left = |gathered: &mut Gathered<'_>, name: &str, bits: u8, is_any: bool| {
        if !is_any {
            let field = span_schema().field_with_name(name)?.clone();
            return Ok(new_null_array(field.data_type(), places.len()));
        }
        let mask = BooleanBuffer::collect_bool(follows.len(), |row| follows[row] & bits != 0);
        nullif(&gathered.column(name)?, &mask.into())
    };
    let traces = gathered.column(column::TRACE_ID)?;
    let any_found = !all_are(ASSEMBLED);
    if !any_found {
        gathered.put(column::ASSEMBLED_TRACE_ID, Arc::clone(&traces))?;
    }
    let assembled = gathered.column(column::ASSEMBLED_TRACE_ID)?;
    let spans = gathered.column(column::SPAN_ID)?;
    let runs = parents::Runs::of(as_ids(&assembled)?, as_ids(&spans)?);
    let (sent, sent_offsets) = runs.offsets(as_ids(&gathered.column(column::PARENT_SPAN_ID)?)?)?;
    let found = left(gathered, column::ASSEMBLED_PARENT, ASSEMBLED, any_found)?;
    let (found, found_offsets) = runs.offsets(as_ids(&found)?)?;
    let of_client = CLIENTS.iter().fold(0, |bits, client| bits | client.bit);
    let columns: [(&str, ArrayRef); 8] = [
        (column::PARENT_SPAN_ID, sent),
        (file_column::PARENT_ROW_OFFSET, sent_offsets),
        (
            column::CLIENT_ADDRESS,
            left(gathered, column::CLIENT_ADDRESS, of_client, known.has_clients)?,
        ),
        (column::CLIENT_PORT, left(gathered, column::CLIENT_PORT, of_client, known.has_clients)?),
        (
            column::ASSEMBLED_TRACE_ID,
            left(gathered, column::ASSEMBLED_TRACE_ID, ASSEMBLED, any_found)?,
        ),
        (column::ASSEMBLED_PARENT, found),
        (file_column::ASSEMBLED_PARENT_ROW_OFFSET, found_offsets),
        (column::CONFIDENCE, left(gathered, column::CONFIDENCE, CERTAIN, !all_are(CERTAIN))?),
    ];
    Ok(Packed { columns: columns.into_iter().collect(), follows })
}

/// The bits of `follows` for each row.
fn bits(follows: &ArrayRef) -> Result<&UInt8Array, ArrowError> {
    follows.as_primitive_opt::<UInt8Type>().ok_or_else(mistyped)
}

/// Whether the assembled trace and parent equal what was sent, by the bits of `follows`.
///
/// # Errors
/// If these are no such bits.
pub(crate) fn assembled_as_sent(follows: &ArrayRef) -> Result<Vec<bool>, ArrowError> {
    Ok(bits(follows)?.values().iter().map(|bits| bits & ASSEMBLED != 0).collect())
}

/// Restores a column from the file's column and the one that it is derived from.
fn restored(
    follows: &ArrayRef,
    bit: u8,
    own: &ArrayRef,
    source: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let mask = bits(follows)?.values().iter().map(|all| Some(all & bit != 0));
    let mask: BooleanArray = mask.collect();
    match mask.true_count() {
        0 => Ok(Arc::clone(own)),
        all if all == mask.len() => Ok(Arc::clone(source)),
        _ => zip(&mask, source, own),
    }
}

/// Restores an assembled column from the file's column and the one that was sent.
pub(super) fn assembled(
    follows: &ArrayRef,
    own: &ArrayRef,
    sent: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    restored(follows, ASSEMBLED, own, sent)
}

/// Restores `confidence` from the file's column and the evidence.
pub(super) fn confidences(
    follows: &ArrayRef,
    own: &ArrayRef,
    evidence: &ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let certain: Float32Array =
        (0..evidence.len()).map(|row| evidence.is_valid(row).then_some(1.0)).collect();
    restored(follows, CERTAIN, own, &(Arc::new(certain) as ArrayRef))
}

/// Restores `client_port` from the file's column and the attributes of the client.
pub(super) fn client_ports(
    follows: &ArrayRef,
    own: &ArrayRef,
    attributes: &MapArray,
) -> Result<ArrayRef, ArrowError> {
    let mut ports = Arc::clone(own);
    for client in &CLIENTS {
        let texts = texts(attributes, client.port, OwnType::Int)?;
        let said: UInt16Array =
            texts.into_iter().map(|port| port.and_then(|port| port.parse().ok())).collect();
        ports = restored(follows, client.bit, &ports, &(Arc::new(said) as ArrayRef))?;
    }
    Ok(ports)
}

/// Restores `client_address` from the file's column and the attributes of the client.
pub(super) fn client_addresses(
    follows: &ArrayRef,
    own: &ArrayRef,
    attributes: &MapArray,
) -> Result<ArrayRef, ArrowError> {
    let own = own.as_dictionary_opt::<Int32Type>().ok_or_else(mistyped)?;
    let words = own.values().as_string_opt::<i32>().ok_or_else(mistyped)?;
    let follows = bits(follows)?;
    let said: Vec<(u8, Vec<Option<&str>>)> = (CLIENTS.iter())
        .map(|client| Ok((client.bit, texts(attributes, client.address, OwnType::String)?)))
        .collect::<Result<_, ArrowError>>()?;
    let mut distinct: AHashMap<&str, i32> = AHashMap::new();
    let mut values: Vec<&str> = Vec::new();
    let keys: Int32Array = (0..own.len())
        .map(|row| {
            let of_own = || {
                let key = usize::try_from(own.keys().value(row)).ok()?;
                (own.is_valid(row) && key < words.len()).then(|| words.value(key))
            };
            let follows = said.iter().find(|(bit, _)| follows.value(row) & bit != 0);
            let text = follows.map_or_else(of_own, |(_, texts)| texts[row])?;
            Some(*distinct.entry(text).or_insert_with(|| {
                values.push(text);
                values.len() as i32 - 1
            }))
        })
        .collect();
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

/// For each row, the text of the attribute with this key and type.
fn texts<'a>(
    attributes: &'a MapArray,
    key: &str,
    own_type: OwnType,
) -> Result<Vec<Option<&'a str>>, ArrowError> {
    let maps = Maps::of(attributes).map_err(|_| no_map())?;
    let type_number = own_type.type_number();
    let text = |row: usize| {
        let is_it = |entry: &usize| {
            maps.keys.value(*entry) == key && maps.types.value(*entry) == type_number
        };
        maps.entries(row).find(is_it).map(|entry| maps.values.value(entry))
    };
    Ok((0..attributes.len()).map(text).collect())
}
