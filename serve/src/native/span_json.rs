//! Writes spans as JSON directly from their columns, without `spanwise_api::Span`. For a page of
//! ten thousand spans, building objects would be most of the work. The tests parse the result as
//! that type.

use std::collections::HashMap;

use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, FixedSizeBinaryArray, Int32Array, ListArray, MapArray,
    PrimitiveArray, StringArray, StructArray,
};
use arrow::datatypes::{
    DataType, Float32Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use serde::Serialize;
use serde_json::value::RawValue;
use spanwise_assemble::{Node, Trace};
use spanwise_model::{AttributeRef, SpanBatch, schema::column, unknown};

use spanwise_api::{SpanStatus, exact};

/// Columns whose values come from the tree instead of the row.
const OF_THE_TREE: [&str; 4] =
    [column::ASSEMBLED_TRACE_ID, column::ASSEMBLED_PARENT, column::EVIDENCE, column::CONFIDENCE];

/// The spans of a batch.
pub(super) struct SpanCells<'a> {
    columns: Vec<(&'a str, Cells<'a>)>,
    attributes: Option<&'a MapArray>,
}

/// A column, by how its cells are written.
enum Cells<'a> {
    Id(&'a FixedSizeBinaryArray),
    Text(&'a StringArray),
    Word(&'a Int32Array, &'a StringArray),
    /// Texts that should be JSON, with the results of validating dictionary entries.
    Json(&'a Int32Array, &'a StringArray, HashMap<i32, bool>),
    /// 64-bit numbers, written in hexadecimal.
    Hex(&'a PrimitiveArray<UInt64Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Attributes(&'a MapArray),
    List(&'a ListArray, fn(&mut Object<'_>, &StructArray, usize)),
}

impl<'a> SpanCells<'a> {
    /// The columns of a batch that have values.
    pub(super) fn of(batch: &'a SpanBatch) -> Self {
        let batch = batch.record_batch();
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.filter(|(field, array)| {
            array.null_count() < array.len() && !OF_THE_TREE.contains(&field.name().as_str())
        });
        let columns: Vec<_> = columns
            .filter_map(|(field, array)| Some((&**field.name(), Cells::of(field.name(), array)?)))
            .collect();
        let attributes = columns.iter().find_map(|(name, cells)| match cells {
            Cells::Attributes(maps) if *name == column::ATTRIBUTES => Some(*maps),
            _ => None,
        });
        Self { columns, attributes }
    }

    /// Appends a span: every non-null column with its name, then the tree's `parent`, `depth`,
    /// `self_nano` and `children`.
    pub(super) fn write(&mut self, trace: &Trace, node: &Node, json: &mut Vec<u8>) {
        self.write_with_children(trace, node, usize::MAX, json);
    }

    /// Like [`Self::write`], with so many children at most.
    pub(super) fn write_with_children(
        &mut self,
        trace: &Trace,
        node: &Node,
        most_children: usize,
        json: &mut Vec<u8>,
    ) {
        let row = node.row.at.row as usize;
        let mut object = Object::new(json);
        for (name, cells) in &mut self.columns {
            match *name {
                column::STATUS if is_status_unknown(self.attributes, row) => {
                    object.put(name, &SpanStatus::Unknown);
                }
                // The ids in a tree are unique, even if senders repeat them.
                column::SPAN_ID => object.hex(name, &node.row.span_id.0),
                _ => cells.write(name, row, &mut object),
            }
        }
        let found = &node.assembled;
        object.hex(column::ASSEMBLED_TRACE_ID, &trace.trace_id.0);
        if let Some(parent) = found.parent {
            object.hex(column::ASSEMBLED_PARENT, &parent.0);
        }
        if let Some(evidence) = found.evidence {
            object.put(column::EVIDENCE, evidence.as_str());
        }
        if let Some(confidence) = found.confidence {
            object.put(column::CONFIDENCE, &confidence);
        }
        let id = |position: usize| &trace.nodes[position].row.span_id.0;
        match node.parent {
            Some(parent) => object.hex("parent", id(parent)),
            None => object.put("parent", &()),
        }
        object.put("depth", &node.depth);
        object.digits("self_nano", node.self_nano);
        let children = node.children.iter().take(most_children);
        object.list("children", children, |json, child| hex(json, id(*child)));
        object.end();
    }
}

impl<'a> Cells<'a> {
    /// `None` for a column type that spans do not have.
    fn of(name: &str, array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::FixedSizeBinary(_) => Self::Id(array.as_fixed_size_binary()),
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Dictionary(..) => {
                let words = array.as_dictionary_opt::<Int32Type>()?;
                let texts = words.values().as_string_opt()?;
                match name {
                    column::RESOURCE => Self::Json(words.keys(), texts, HashMap::new()),
                    _ => Self::Word(words.keys(), texts),
                }
            }
            DataType::UInt64 if name == column::FRAGMENT_ID => Self::Hex(array.as_primitive()),
            DataType::Int32 => Self::Int32(array.as_primitive()),
            DataType::Int64 => Self::Int64(array.as_primitive()),
            DataType::UInt16 => Self::UInt16(array.as_primitive()),
            DataType::UInt32 => Self::UInt32(array.as_primitive()),
            DataType::UInt64 => Self::UInt64(array.as_primitive()),
            DataType::Float32 => Self::Float32(array.as_primitive()),
            DataType::Map(..) => Self::Attributes(array.as_map()),
            DataType::List(_) if name == column::EVENTS => Self::List(array.as_list(), event),
            DataType::List(_) => Self::List(array.as_list(), link),
            _ => return None,
        })
    }

    fn write(&mut self, name: &str, row: usize, to: &mut Object<'_>) {
        match self {
            Self::Id(ids) if ids.is_valid(row) => to.hex(name, ids.value(row)),
            Self::Text(texts) if texts.is_valid(row) => to.put(name, texts.value(row)),
            Self::Word(keys, texts) => {
                if let Some((_, text)) = word(keys, texts, row) {
                    to.put(name, text);
                }
            }
            Self::Json(keys, texts, are_json) => {
                let Some((key, text)) = word(keys, texts, row) else { return };
                if *are_json.entry(key).or_insert_with(|| is_json(text)) {
                    exact::write(to.name(name), text);
                }
            }
            Self::Hex(numbers) if numbers.is_valid(row) => {
                to.hex(name, &numbers.value(row).to_be_bytes());
            }
            Self::Int32(numbers) => number(to, name, numbers, row),
            Self::UInt16(numbers) => number(to, name, numbers, row),
            Self::UInt32(numbers) => number(to, name, numbers, row),
            Self::Float32(numbers) => number(to, name, numbers, row),
            Self::Int64(numbers) if numbers.is_valid(row) => to.digits(name, numbers.value(row)),
            Self::UInt64(numbers) if numbers.is_valid(row) => to.digits(name, numbers.value(row)),
            Self::Attributes(maps) => attributes(to, name, maps, row),
            Self::List(lists, one) => {
                let (from, until) = ends(lists.value_offsets(), row);
                let items = lists.values().as_struct();
                to.list(name, from..until, |json, item| {
                    let mut object = Object::new(json);
                    one(&mut object, items, item);
                    object.end();
                });
            }
            _ => {}
        }
    }
}

/// Whether the agent did not see how the span of this row ended.
fn is_status_unknown(attributes: Option<&MapArray>, row: usize) -> bool {
    let Some(maps) = attributes else { return false };
    let (from, until) = ends(maps.value_offsets(), row);
    let (keys, values) = (maps.keys().as_string::<i32>(), maps.values().as_struct());
    let texts = values.column(1).as_string::<i32>();
    (from..until).any(|at| keys.value(at) == unknown::STATUS && texts.value(at) == unknown::UNKNOWN)
}

/// The text of a dictionary in a row, and its key.
fn word<'a>(keys: &Int32Array, texts: &'a StringArray, row: usize) -> Option<(i32, &'a str)> {
    let key = keys.is_valid(row).then(|| keys.value(row))?;
    let at = usize::try_from(key).ok().filter(|at| *at < texts.len() && texts.is_valid(*at))?;
    Some((key, texts.value(at)))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn number<T>(to: &mut Object<'_>, name: &str, numbers: &PrimitiveArray<T>, row: usize)
where
    T: ArrowPrimitiveType<Native: Serialize>,
{
    if numbers.is_valid(row) {
        to.put(name, &numbers.value(row));
    }
}

fn ends(offsets: &[i32], row: usize) -> (usize, usize) {
    (offsets[row] as usize, offsets[row + 1] as usize)
}

fn attributes(to: &mut Object<'_>, name: &str, maps: &MapArray, row: usize) {
    let (from, until) = ends(maps.value_offsets(), row);
    let (keys, values) = (maps.keys().as_string::<i32>(), maps.values().as_struct());
    let types = values.column(0).as_primitive::<UInt8Type>();
    let texts = values.column(1).as_string::<i32>();
    to.list(name, from..until, |json, at| {
        let value = AttributeRef::from_parts(types.value(at), texts.value(at));
        let mut object = Object::new(json);
        object.put("key", keys.value(at));
        object.put("type", type_name(value));
        match value {
            AttributeRef::String(text) | AttributeRef::Bytes(text) => object.put("value", text),
            AttributeRef::Bool(flag) => object.put("value", &flag),
            // As a string, which is exact.
            AttributeRef::Int(number) if !exact::is_exact(number) => {
                object.digits("value", number);
            }
            AttributeRef::Int(number) => object.put("value", &number),
            // In the stored form, which searches compare with.
            AttributeRef::Double(number) if number.is_finite() => {
                object.name("value").extend_from_slice(value.to_string().as_bytes());
            }
            AttributeRef::Double(_) => object.put("value", &value.to_string()),
            AttributeRef::Json(text) if is_json(text) => exact::write(object.name("value"), text),
            AttributeRef::Json(text) => object.put("value", text),
        }
        object.end();
    });
}

const fn type_name(value: AttributeRef<'_>) -> &'static str {
    match value {
        AttributeRef::String(_) => "string",
        AttributeRef::Int(_) => "int",
        AttributeRef::Double(_) => "double",
        AttributeRef::Bool(_) => "bool",
        AttributeRef::Bytes(_) => "bytes",
        AttributeRef::Json(_) => "json",
    }
}

fn event(to: &mut Object<'_>, events: &StructArray, at: usize) {
    to.digits("time_unix_nano", events.column(0).as_primitive::<Int64Type>().value(at));
    to.put("name", events.column(1).as_string::<i32>().value(at));
    attributes(to, "attributes", events.column(2).as_map(), at);
}

fn link(to: &mut Object<'_>, links: &StructArray, at: usize) {
    to.hex("trace_id", links.column(0).as_fixed_size_binary().value(at));
    to.hex("span_id", links.column(1).as_fixed_size_binary().value(at));
    let states = links.column(2).as_string::<i32>();
    to.put("trace_state", &states.is_valid(at).then(|| states.value(at)));
    attributes(to, "attributes", links.column(3).as_map(), at);
}

/// Writes a JSON object.
struct Object<'a> {
    json: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    fn new(json: &'a mut Vec<u8>) -> Self {
        json.push(b'{');
        Self { json, is_empty: true }
    }

    /// Writes the name of a member, which needs no escapes. Its value must follow.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.json.push(b',');
        }
        self.json.push(b'"');
        self.json.extend_from_slice(name.as_bytes());
        self.json.extend_from_slice(b"\":");
        self.json
    }

    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        write(self.name(name), value);
    }

    /// Bytes as hexadecimal digits.
    fn hex(&mut self, name: &str, bytes: &[u8]) {
        hex(self.name(name), bytes);
    }

    /// Writes a number as a string, because JSON numbers stop being exact at 2^53.
    fn digits<T: Serialize>(&mut self, name: &str, number: T) {
        let json = self.name(name);
        json.push(b'"');
        write(json, &number);
        json.push(b'"');
    }

    /// Writes an array; `one` writes each item.
    fn list<T>(
        &mut self,
        name: &str,
        items: impl Iterator<Item = T>,
        mut one: impl FnMut(&mut Vec<u8>, T),
    ) {
        let json = self.name(name);
        json.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                json.push(b',');
            }
            one(json, item);
        }
        json.push(b']');
    }

    fn end(self) {
        self.json.push(b'}');
    }
}

fn write<T: Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) {
    // Writing texts and numbers to memory cannot fail.
    let _ = serde_json::to_writer(json, value);
}

fn hex(json: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    json.push(b'"');
    for byte in bytes {
        json.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use spanwise_assemble::Row;
    use spanwise_model::{
        AttributeValue, Capture, Event, Kind, Link, ResourceJson, RowRef, Span, SpanBatchBuilder,
        SpanId, TraceId,
    };

    use super::*;

    #[test]
    fn what_a_row_holds_is_json_whatever_it_is() {
        let id = |number| SpanId::from_u64(number).unwrap();
        let mut span =
            Span::new(id(1), Capture::App, Kind::Server, "a \"b\"\n", "GET \\", 5, 1 << 60);
        span.trace_id = Some(TraceId([0xab; 16]));
        span.fragment_id = Some(0xfe);
        span.request_tcp_seq = Some(u32::MAX);
        span.network.request_bytes = Some(7);
        span.status_code = Some(-1);
        span.resource = ResourceJson::from_column("{\"n\":9223372036854775807}");
        span.attributes = vec![
            ("k\"".into(), "v\u{1}".into()),
            ("exact".into(), AttributeValue::Int(-(1 << 53))),
            ("large".into(), AttributeValue::Int(1 + (1 << 53))),
            ("half".into(), AttributeValue::Double(0.5)),
            ("small".into(), AttributeValue::Double(1e-5)),
            ("none".into(), AttributeValue::Double(f64::NAN)),
            ("yes".into(), true.into()),
            ("bytes".into(), AttributeValue::Bytes("AQI=".into())),
            ("list".into(), AttributeValue::Json("[9007199254740993,{\"a\":2}]".into())),
            ("torn".into(), AttributeValue::Json("[1,".into())),
        ];
        span.events = vec![Event { time_unix_nano: 9, name: "e".into(), attributes: Vec::new() }];
        span.links = vec![Link {
            trace_id: TraceId([1; 16]),
            span_id: id(3),
            trace_state: None,
            attributes: vec![("a".into(), "b".into())],
        }];
        let child = Span::new(id(2), Capture::App, Kind::Internal, "s", "o", 6, 1);
        let mut child = Span { parent_span_id: Some(id(1)), trace_id: span.trace_id, ..child };
        child.attributes = vec![(unknown::STATUS.into(), unknown::UNKNOWN.into())];

        let spans = [span, child];
        let mut builder: SpanBatchBuilder = spans.iter().collect();
        let batch = SpanBatch::try_from(builder.finish().unwrap()).unwrap();
        let rows =
            (0..).zip(&spans).map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
        let trace = Trace::of(rows.collect());
        let mut cells = SpanCells::of(&batch);
        let written = trace.nodes.iter().map(|node| {
            let mut json = Vec::new();
            cells.write(&trace, node, &mut json);
            serde_json::from_slice::<Value>(&json).unwrap()
        });
        let written: Vec<Value> = written.collect();

        let attribute = |key, kind, value: Value| json!({"key": key, "type": kind, "value": value});
        assert_eq!(
            written[0],
            json!({
                "trace_id": "ab".repeat(16), "span_id": "0000000000000001",
                "start_unix_nano": "5", "duration_nano": "1152921504606846976",
                "service": "a \"b\"\n", "operation": "GET \\", "kind": "server",
                "status": "unset", "status_code": -1, "capture": "app",
                "fragment_id": "00000000000000fe", "request_tcp_seq": u32::MAX,
                "resource": {"n": "9223372036854775807"}, "request_bytes": "7",
                "attributes": [
                    attribute("k\"", "string", "v\u{1}".into()),
                    attribute("exact", "int", (-(1_i64 << 53)).into()),
                    attribute("large", "int", "9007199254740993".into()),
                    attribute("half", "double", 0.5.into()),
                    attribute("small", "double", 1e-5.into()),
                    attribute("none", "double", "NaN".into()),
                    attribute("yes", "bool", true.into()),
                    attribute("bytes", "bytes", "AQI=".into()),
                    attribute("list", "json", json!(["9007199254740993", {"a": 2}])),
                    attribute("torn", "json", "[1,".into()),
                ],
                "events": [{"time_unix_nano": "9", "name": "e", "attributes": []}],
                "links": [{
                    "trace_id": "01".repeat(16), "span_id": "0000000000000003",
                    "trace_state": null, "attributes": [attribute("a", "string", "b".into())],
                }],
                "assembled_trace_id": "ab".repeat(16),
                "parent": null, "depth": 0, "self_nano": "1152921504606846975",
                "children": ["0000000000000002"],
            })
        );
        assert_eq!(written[1]["status"], "unknown");
        assert_eq!(written[1]["parent"], "0000000000000001");
        assert_eq!(written[1]["assembled_parent"], "0000000000000001");
        assert_eq!(written[1]["parent_span_id"], "0000000000000001");
        assert_eq!(written[1].get("status_code"), None, "nulls are left out");
    }
}
