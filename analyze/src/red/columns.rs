//! The columns of a batch that figures need.

use arrow::array::{
    Array, AsArray, FixedSizeBinaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type, Int64Type, UInt16Type};
use spanwise_model::schema::column;
use spanwise_model::{Capture, Kind, ModelError, SpanId, Status};

use super::held::{self, Held};
use super::series::cut;
use crate::names::{Name, Names};

/// The columns.
pub(super) struct Columns<'a> {
    pub(super) services: Dictionary<'a>,
    pub(super) operations: Dictionary<'a>,
    span_ids: &'a [[u8; SpanId::LEN]],
    parents: &'a FixedSizeBinaryArray,
    starts: &'a [i64],
    durations: &'a [i64],
    kinds: Words<'a, Kind>,
    statuses: Words<'a, Status>,
    captures: Words<'a, Capture>,
    service_names: Interned,
    protocols: Dictionary<'a>,
    protocol_names: Interned,
    addresses: Dictionary<'a>,
    address_names: Interned,
    ports: &'a PrimitiveArray<UInt16Type>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(batch: &'a RecordBatch) -> Result<Self, ModelError> {
        let ids = |column| {
            let ids = batch.column_by_name(column).and_then(|ids| ids.as_fixed_size_binary_opt());
            ids.ok_or(ModelError::Column { column })
        };
        let dictionary = |column| Dictionary::of(batch, column);
        let (services, protocols) = (dictionary(column::SERVICE)?, dictionary(column::PROTOCOL)?);
        let addresses = dictionary(column::SERVER_ADDRESS)?;
        let span_ids: &FixedSizeBinaryArray = ids(column::SPAN_ID)?;
        let (span_ids, rest) = span_ids.value_data().as_chunks();
        if !rest.is_empty() || span_ids.len() != batch.num_rows() {
            return Err(ModelError::Column { column: column::SPAN_ID });
        }
        Ok(Self {
            span_ids,
            parents: ids(column::PARENT_SPAN_ID)?,
            starts: numbers::<Int64Type>(batch, column::START_UNIX_NANO)?.values(),
            durations: numbers::<Int64Type>(batch, column::DURATION_NANO)?.values(),
            kinds: Words::of(batch, column::KIND, Kind::Internal)?,
            statuses: Words::of(batch, column::STATUS, Status::Unset)?,
            captures: Words::of(batch, column::CAPTURE, Capture::App)?,
            service_names: Interned::of(&services),
            services,
            operations: dictionary(column::OPERATION)?,
            protocol_names: Interned::of(&protocols),
            protocols,
            address_names: Interned::of(&addresses),
            addresses,
            ports: numbers::<UInt16Type>(batch, column::SERVER_PORT)?,
        })
    }

    pub(super) fn duration_nano(&self, row: usize) -> i64 {
        self.durations[row].max(0)
    }

    pub(super) fn kind(&self, row: usize) -> Kind {
        self.kinds.get(row)
    }

    pub(super) fn status(&self, row: usize) -> Status {
        self.statuses.get(row)
    }

    /// What is needed of the row for its call.
    pub(super) fn held(
        &mut self,
        row: usize,
        (kind, status): (Kind, Status),
        names: &mut Names,
        series: u32,
        (nano, bucket): (i64, u8),
    ) -> Held {
        let service = self.service_names.get(&self.services, row, names);
        let address = self.address_names.get(&self.addresses, row, names);
        let flags = if status == Status::Error { held::ERROR } else { 0 }
            | if self.parents.is_valid(row) { held::NAMES_PARENT } else { 0 };
        Held {
            span_id: u64::from_be_bytes(self.span_ids[row]),
            start_unix_nano: self.starts[row],
            duration_nano: nano,
            trace: 0,
            place: 0,
            series,
            service: service.unwrap_or_else(|| names.name("")),
            protocol: self.protocol_names.get(&self.protocols, row, names),
            address,
            port: address.filter(|_| self.ports.is_valid(row)).map(|_| self.ports.value(row)),
            bucket,
            kind,
            capture: self.captures.get(row),
            flags,
        }
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    column: &'static str,
) -> Result<&'a PrimitiveArray<T>, ModelError> {
    let numbers = batch.column_by_name(column).and_then(|numbers| numbers.as_primitive_opt());
    numbers.ok_or(ModelError::Column { column })
}

/// A dictionary column.
pub(super) struct Dictionary<'a> {
    keys: &'a PrimitiveArray<Int32Type>,
    has_nulls: bool,
    values: &'a StringArray,
}

impl<'a> Dictionary<'a> {
    fn of(batch: &'a RecordBatch, column: &'static str) -> Result<Self, ModelError> {
        let taken_apart = || {
            let array = batch.column_by_name(column)?.as_dictionary_opt::<Int32Type>()?;
            let keys = array.keys();
            let has_nulls = keys.null_count() > 0;
            Some(Self { keys, has_nulls, values: array.values().as_string_opt::<i32>()? })
        };
        taken_apart().ok_or(ModelError::Column { column })
    }

    /// A row's place among the texts.
    pub(super) fn place(&self, row: usize) -> Option<usize> {
        if self.has_nulls && self.keys.is_null(row) {
            return None;
        }
        Some(self.keys.values()[row] as usize)
    }

    /// A row's text; empty if it has none.
    pub(super) fn text(&self, row: usize) -> &'a str {
        self.at(self.place(row)).unwrap_or_default()
    }

    fn at(&self, place: Option<usize>) -> Option<&'a str> {
        place.filter(|at| *at < self.values.len()).map(|at| self.values.value(at))
    }
}

/// A column with a vocabulary, of which each distinct text is read once.
struct Words<'a, T> {
    column: Dictionary<'a>,
    read: Vec<T>,
    otherwise: T,
}

impl<'a, T: Copy + std::str::FromStr> Words<'a, T> {
    fn of(batch: &'a RecordBatch, column: &'static str, otherwise: T) -> Result<Self, ModelError> {
        let column = Dictionary::of(batch, column)?;
        let word = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let read = column.values.iter().map(|text| word(text).unwrap_or(otherwise)).collect();
        Ok(Self { column, read, otherwise })
    }

    fn get(&self, row: usize) -> T {
        let read = self.column.place(row).and_then(|place| self.read.get(place));
        read.copied().unwrap_or(self.otherwise)
    }
}

/// The texts of a column, each interned when it is first needed.
struct Interned(Vec<Option<Name>>);

impl Interned {
    fn of(column: &Dictionary<'_>) -> Self {
        Self(vec![None; column.values.len()])
    }

    fn get(&mut self, column: &Dictionary<'_>, row: usize, names: &mut Names) -> Option<Name> {
        let place = column.place(row)?;
        let known = self.0.get_mut(place)?;
        if known.is_none() {
            *known = Some(names.name(cut(column.at(Some(place))?)));
        }
        *known
    }
}
