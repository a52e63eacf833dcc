//! Rows as spans of TraceQL: only what a query looks at is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::tags::TagScope;
use ahash::AHashMap;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, Float32Array, Int64Array, ListArray, MapArray,
    RecordBatch, StringArray, StructArray, UInt16Array, UInt32Array,
};
use arrow::datatypes::{Float32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
use serde_json::Value as Json;
use spanwise_analyze::Labels;
use spanwise_assemble::{Row, Trace as Tree};
use spanwise_model::schema::column;
use spanwise_model::{AttributeRef, Capture, ModelError, Texts};
use spanwise_store::Outline;
use spanwise_traceql::Value;
use spanwise_traceql::ast::{Attribute, Field, Intrinsic, Kind, Scope, Status};
use spanwise_traceql::trace::{
    AttributeValue, Attributes, Event, Instrumentation, Link, Span, Trace,
};

/// How attributes of the instrumentation scope begin among the span's own.
pub(super) const OF_SCOPE: &str = "otel.scope.";
/// What was said of the status, where the column has something better.
pub(super) const STATUS_DESCRIPTION: &str = "otel.status_description";
/// How attributes begin that say what Spanwise found out about the span.
const OF_SPANWISE: &str = "spanwise.";
/// Attributes that are made from columns, so that the store does not know them as such.
pub(super) const MADE: [&str; 6] = [
    "spanwise.capture",
    "spanwise.client",
    "spanwise.confidence",
    "spanwise.evidence",
    "spanwise.retransmits",
    "spanwise.server",
];
pub(super) const SERVICE: &str = "service.name";

/// What of spans a query looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Everything.
    all: bool,
    /// Keys of the spans' own attributes.
    keys: BTreeSet<String>,
    resource: bool,
    events: bool,
    links: bool,
    message: bool,
    /// What is made from columns.
    made: bool,
    /// Ids of parents.
    parents: bool,
    /// The names of all attributes; whether also of those that the store knows without rows.
    names: Option<bool>,
}

impl Looked {
    /// At everything.
    pub(super) fn at_all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Also at the names of attributes; at all, or only where the store does not know them.
    pub(super) fn with_names(self, all: bool) -> Self {
        Self { names: Some(all), ..self }
    }

    /// At these fields.
    pub(super) fn at<'f>(fields: impl IntoIterator<Item = &'f Field>) -> Self {
        let mut looked = Self::default();
        for field in fields {
            looked.add(field);
        }
        looked
    }

    fn add(&mut self, field: &Field) {
        let mut key = |key: String| _ = self.keys.insert(key);
        match field {
            Field::Attribute(Attribute { scope, name, .. }) => match scope {
                Scope::Any => {
                    key(format!("{OF_SCOPE}{name}"));
                    key(name.clone());
                    (self.resource, self.events, self.links) = (true, true, true);
                    self.made |= name.starts_with(OF_SPANWISE);
                }
                Scope::Span => {
                    key(name.clone());
                    self.made |= name.starts_with(OF_SPANWISE);
                }
                Scope::Resource => self.resource |= name != SERVICE,
                Scope::Event => self.events = true,
                Scope::Link => self.links = true,
                Scope::Instrumentation => key(format!("{OF_SCOPE}{name}")),
            },
            Field::Intrinsic(intrinsic) => match intrinsic {
                Intrinsic::StatusMessage => {
                    key(STATUS_DESCRIPTION.to_owned());
                    self.message = true;
                }
                Intrinsic::EventName | Intrinsic::EventTimeSinceStart => self.events = true,
                Intrinsic::LinkTraceId | Intrinsic::LinkSpanId => self.links = true,
                Intrinsic::InstrumentationName => key(format!("{OF_SCOPE}name")),
                Intrinsic::InstrumentationVersion => key(format!("{OF_SCOPE}version")),
                Intrinsic::Name
                | Intrinsic::Duration
                | Intrinsic::Status
                | Intrinsic::Kind
                | Intrinsic::SpanId
                | Intrinsic::TraceId => {}
                _ => self.parents = true,
            },
        }
    }

    /// What to read of rows that become a tree; `None` for all.
    pub(super) fn outline(&self) -> Option<Outline> {
        if self.all {
            return None;
        }
        let mut columns = [Row::COLUMNS, Labels::COLUMNS].concat();
        columns.extend(self.more_columns());
        let attributes = Row::ATTRIBUTES.iter().map(|key| (*key).to_owned());
        Some(Outline { columns, attributes: attributes.chain(self.keys.iter().cloned()).collect() })
    }

    /// The columns to read of rows that are asked one by one.
    pub(super) fn columns(&self) -> Vec<&'static str> {
        if self.all {
            return Vec::new();
        }
        let mut columns = vec![
            column::SPAN_ID,
            column::ASSEMBLED_TRACE_ID,
            column::START_UNIX_NANO,
            column::DURATION_NANO,
            column::SERVICE,
            column::OPERATION,
            column::KIND,
            column::STATUS,
        ];
        if self.has_attributes() {
            columns.push(column::ATTRIBUTES);
        }
        if self.parents {
            columns.extend([column::PARENT_SPAN_ID, column::ASSEMBLED_PARENT]);
        }
        columns.extend(self.more_columns());
        columns
    }

    fn more_columns(&self) -> impl Iterator<Item = &'static str> {
        let made: &[&str] = &[
            column::CAPTURE,
            column::EVIDENCE,
            column::CONFIDENCE,
            column::RETRANSMITS,
            column::CLIENT_ADDRESS,
            column::CLIENT_PORT,
            column::SERVER_ADDRESS,
            column::SERVER_PORT,
        ];
        [
            (self.has_resource(), &[column::RESOURCE][..]),
            (self.has_events(), &[column::EVENTS]),
            (self.has_links(), &[column::LINKS]),
            (self.message, &[column::ERROR]),
            (self.has_made(), made),
        ]
        .into_iter()
        .filter(|(needed, _)| *needed)
        .flat_map(|(_, columns)| columns.iter().copied())
    }

    /// Of the rows' own attributes, the keys to read; `None` for all.
    pub(super) fn keys(&self) -> Option<Vec<String>> {
        (!self.all && self.names != Some(true)).then(|| self.keys.iter().cloned().collect())
    }

    // Which columns are read.

    fn has_attributes(&self) -> bool {
        self.all || !self.keys.is_empty() || self.names == Some(true)
    }

    fn has_resource(&self) -> bool {
        self.all || self.resource || self.names == Some(true)
    }

    const fn has_events(&self) -> bool {
        self.all || self.events || self.names.is_some()
    }

    const fn has_links(&self) -> bool {
        self.all || self.links || self.names.is_some()
    }

    const fn has_made(&self) -> bool {
        self.all || self.made || self.names.is_some()
    }
}

/// The columns of a batch, as spans are made of them.
pub(super) struct SpanReader<'a> {
    looked: &'a Looked,
    ids: &'a FixedSizeBinaryArray,
    parents: Option<&'a FixedSizeBinaryArray>,
    traces: Option<&'a FixedSizeBinaryArray>,
    assembled_parents: Option<&'a FixedSizeBinaryArray>,
    starts: &'a Int64Array,
    durations: &'a Int64Array,
    operations: Texts<'a>,
    services: Texts<'a>,
    kinds: Texts<'a>,
    statuses: Texts<'a>,
    errors: Option<Texts<'a>>,
    resources: Option<Texts<'a>>,
    maps: Option<Maps<'a>>,
    events: Option<(&'a ListArray, &'a StructArray)>,
    links: Option<(&'a ListArray, &'a StructArray)>,
    made: Option<Made<'a>>,
    /// By the places of their texts, resources that were met.
    known: AHashMap<(Option<usize>, Option<usize>), Arc<Attributes>>,
    no_scope: Arc<Instrumentation>,
}

/// Columns from which attributes are made.
struct Made<'a> {
    captures: Texts<'a>,
    evidence: Texts<'a>,
    confidence: Option<&'a Float32Array>,
    retransmits: Option<&'a UInt32Array>,
    sides: [(Texts<'a>, Option<&'a UInt16Array>); 2],
}

/// Where attributes are.
#[derive(Clone, Copy)]
struct Maps<'a> {
    offsets: &'a [i32],
    keys: &'a StringArray,
    types: &'a [u8],
    texts: &'a StringArray,
}

impl<'a> Maps<'a> {
    fn of(maps: &'a MapArray) -> Option<Self> {
        let values = maps.values().as_struct_opt()?;
        Some(Self {
            offsets: maps.value_offsets(),
            keys: maps.keys().as_string_opt()?,
            types: values.columns().first()?.as_primitive_opt::<UInt8Type>()?.values(),
            texts: values.columns().get(1)?.as_string_opt()?,
        })
    }

    fn entries(self, row: usize) -> impl Iterator<Item = (&'a str, AttributeRef<'a>)> {
        let entries = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        entries.map(move |entry| {
            let value = AttributeRef::from_parts(self.types[entry], self.texts.value(entry));
            (self.keys.value(entry), value)
        })
    }

    fn all(self, row: usize) -> Attributes {
        self.entries(row).map(|(key, value)| (key.to_owned(), value_of(value))).collect()
    }
}

impl<'a> SpanReader<'a> {
    /// # Errors
    /// Where the batch has not the columns that every span has.
    pub(super) fn new(batch: &'a RecordBatch, looked: &'a Looked) -> Result<Self, ModelError> {
        let wrong = |column| ModelError::Column { column };
        let binary = |name| batch.column_by_name(name)?.as_fixed_size_binary_opt();
        let number = |name: &'static str| {
            let array =
                batch.column_by_name(name).and_then(|it| it.as_primitive_opt::<Int64Type>());
            array.ok_or(wrong(name))
        };
        let texts = |name| Texts::of(batch, name);
        let list = |name: &'static str| {
            let lists = batch.column_by_name(name)?.as_list_opt::<i32>()?;
            Some((lists, lists.values().as_struct_opt()?))
        };
        let maps = looked.has_attributes().then(|| {
            let maps = batch.column_by_name(column::ATTRIBUTES).and_then(|it| it.as_map_opt());
            maps.and_then(Maps::of).ok_or(wrong(column::ATTRIBUTES))
        });
        let side = |address, port: &str| -> Result<_, ModelError> {
            let ports =
                batch.column_by_name(port).and_then(|it| it.as_primitive_opt::<UInt16Type>());
            Ok((texts(address)?, ports))
        };
        let made = || -> Result<_, ModelError> {
            Ok(Made {
                captures: texts(column::CAPTURE)?,
                evidence: texts(column::EVIDENCE)?,
                confidence: (batch.column_by_name(column::CONFIDENCE))
                    .and_then(|it| it.as_primitive_opt::<Float32Type>()),
                retransmits: (batch.column_by_name(column::RETRANSMITS))
                    .and_then(|it| it.as_primitive_opt::<UInt32Type>()),
                sides: [
                    side(column::CLIENT_ADDRESS, column::CLIENT_PORT)?,
                    side(column::SERVER_ADDRESS, column::SERVER_PORT)?,
                ],
            })
        };
        Ok(Self {
            looked,
            ids: binary(column::SPAN_ID).ok_or(wrong(column::SPAN_ID))?,
            parents: binary(column::PARENT_SPAN_ID),
            traces: binary(column::ASSEMBLED_TRACE_ID),
            assembled_parents: binary(column::ASSEMBLED_PARENT),
            starts: number(column::START_UNIX_NANO)?,
            durations: number(column::DURATION_NANO)?,
            operations: texts(column::OPERATION)?,
            services: texts(column::SERVICE)?,
            kinds: texts(column::KIND)?,
            statuses: texts(column::STATUS)?,
            errors: (looked.all || looked.message).then(|| texts(column::ERROR)).transpose()?,
            resources: looked.has_resource().then(|| texts(column::RESOURCE)).transpose()?,
            maps: maps.transpose()?,
            events: if looked.has_events() { list(column::EVENTS) } else { None },
            links: if looked.has_links() { list(column::LINKS) } else { None },
            made: looked.has_made().then(made).transpose()?,
            known: AHashMap::new(),
            no_scope: Arc::default(),
        })
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// When a row starts.
    pub(super) fn start_unix_nano(&self, row: usize) -> i64 {
        self.starts.value(row)
    }

    /// What a row shares with no other.
    pub(super) fn identity(&self, row: usize) -> ([u8; 16], [u8; 8], i64) {
        let trace = self.traces.and_then(|traces| id(traces, row)).unwrap_or_default();
        (trace, id(self.ids, row).unwrap_or_default(), self.starts.value(row))
    }

    /// A row as a trace of one span, as far as assembly knows it.
    pub(super) fn alone(&mut self, row: usize) -> Trace {
        let parent = self.assembled_parents.and_then(|parents| id(parents, row));
        let named = self.parents.and_then(|parents| id(parents, row));
        let (trace_id, span_id, _) = self.identity(row);
        let parent = parent.or(named.filter(|named| *named != span_id));
        Trace { id: trace_id, spans: vec![self.span(row, span_id, parent, None)] }
    }

    /// Gives the names of a row's attributes. Those of a resource are given once.
    pub(super) fn names(&mut self, row: usize, mut give: impl FnMut(TagScope, &str)) {
        if self.looked.names == Some(true) {
            for (key, value) in self.maps.into_iter().flat_map(|maps| maps.entries(row)) {
                if let (scope, Some(name)) = TagScope::of_own(key)
                    && !is_empty(value)
                {
                    give(scope, name);
                }
            }
            let known = self.known.len();
            let resource = self.resource(row);
            if self.known.len() > known {
                resource.iter().for_each(|(name, _)| give(TagScope::Resource, name));
            }
        }
        if let Some(made) = &self.made {
            let mut attributes = Attributes::new();
            made.add(row, None, &mut attributes);
            attributes.iter().for_each(|(name, _)| give(TagScope::Span, name));
        }
        let nested = [(TagScope::Event, self.events), (TagScope::Link, self.links)];
        for (scope, lists) in nested {
            let Some((lists, items)) = lists else { continue };
            let Some(maps) = maps_of(items) else { continue };
            for (key, value) in items_of(lists, row).flat_map(|item| maps.entries(item)) {
                if !is_empty(value) {
                    give(scope, key);
                }
            }
        }
    }

    /// A row as a span with this id below this parent; why it is there, where that is known
    /// better than from the row.
    fn span(
        &mut self,
        row: usize,
        id: [u8; 8],
        parent_id: Option<[u8; 8]>,
        found: Option<Found>,
    ) -> Span {
        let mut attributes = Attributes::new();
        let mut scope: Option<Instrumentation> = None;
        let mut message = self.errors.as_ref().and_then(|errors| errors.get(row));
        for (key, value) in self.maps.into_iter().flat_map(|maps| maps.entries(row)) {
            if !self.looked.all && !self.looked.keys.contains(key) {
                continue;
            }
            match (key.strip_prefix(OF_SCOPE), value) {
                (Some("name"), AttributeRef::String(text)) => {
                    scope.get_or_insert_default().name = text.to_owned();
                }
                (Some("version"), AttributeRef::String(text)) => {
                    scope.get_or_insert_default().version = text.to_owned();
                }
                (Some(key), value) => {
                    let attribute = (key.to_owned(), value_of(value));
                    scope.get_or_insert_default().attributes.push(attribute);
                }
                (None, AttributeRef::String(text)) if key == STATUS_DESCRIPTION => {
                    message = Some(text);
                }
                (None, value) => attributes.push((key.to_owned(), value_of(value))),
            }
        }
        if let Some(made) = self.made.as_ref().filter(|_| self.looked.all || self.looked.made) {
            made.add(row, found, &mut attributes);
        }
        Span {
            id,
            parent_id,
            name: self.operations.get(row).unwrap_or_default().to_owned(),
            kind: self.kinds.get(row).map_or(Kind::Unspecified, kind),
            status: self.statuses.get(row).map_or(Status::Unset, status),
            status_message: message.unwrap_or_default().to_owned(),
            start_unix_nanos: self.starts.value(row).max(0).cast_unsigned(),
            duration_nanos: self.durations.value(row).max(0).cast_unsigned(),
            attributes,
            events: if self.looked.all || self.looked.events {
                self.events(row)
            } else {
                Vec::new()
            },
            links: if self.looked.all || self.looked.links { self.links(row) } else { Vec::new() },
            resource: self.resource(row),
            instrumentation: scope.map_or_else(|| Arc::clone(&self.no_scope), Arc::new),
        }
    }

    fn resource(&mut self, row: usize) -> Arc<Attributes> {
        let resource = self.resources.as_ref().and_then(|resources| resources.place(row));
        let key = (resource, self.services.place(row));
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let service = self.services.get(row).unwrap_or_default();
        let json = self.resources.as_ref().and_then(|resources| resources.get(row));
        let resource = Arc::new(resource_of(json.unwrap_or("{}"), service));
        self.known.insert(key, Arc::clone(&resource));
        resource
    }

    fn events(&self, row: usize) -> Vec<Event> {
        let Some((lists, items)) = self.events else { return Vec::new() };
        let columns = || {
            let times = items.column_by_name("time_unix_nano")?.as_primitive_opt::<Int64Type>()?;
            let names = items.column_by_name("name")?.as_string_opt::<i32>()?;
            Some((times, names, maps_of(items)?))
        };
        let Some((times, names, maps)) = columns() else { return Vec::new() };
        let event = |item| Event {
            name: names.value(item).to_owned(),
            unix_nanos: times.value(item).max(0).cast_unsigned(),
            attributes: maps.all(item),
        };
        items_of(lists, row).map(event).collect()
    }

    fn links(&self, row: usize) -> Vec<Link> {
        let Some((lists, items)) = self.links else { return Vec::new() };
        let columns = || {
            let traces = items.column_by_name("trace_id")?.as_fixed_size_binary_opt()?;
            let spans = items.column_by_name("span_id")?.as_fixed_size_binary_opt()?;
            Some((traces, spans, maps_of(items)?))
        };
        let Some((traces, spans, maps)) = columns() else { return Vec::new() };
        let link = |item| Link {
            trace_id: id(traces, item).unwrap_or_default(),
            span_id: id(spans, item).unwrap_or_default(),
            attributes: maps.all(item),
        };
        items_of(lists, row).map(link).collect()
    }
}

/// A span of which only this is known.
pub(super) fn of_words(service: &str, name: &str, of_kind: &str, of_status: &str) -> Span {
    Span {
        id: [1; 8],
        parent_id: None,
        name: name.to_owned(),
        kind: kind(of_kind),
        status: status(of_status),
        status_message: String::new(),
        start_unix_nanos: 0,
        duration_nanos: 0,
        attributes: Attributes::new(),
        events: Vec::new(),
        links: Vec::new(),
        resource: Arc::new(resource_of("{}", service)),
        instrumentation: Arc::default(),
    }
}

/// A tree of rows as a trace of TraceQL. The readers are those of the batches of its rows.
pub(super) fn trace(tree: &Tree, readers: &mut [SpanReader<'_>]) -> Trace {
    let span = |node: &spanwise_assemble::Node| {
        let row = &node.row;
        let reader = readers.get_mut(usize::try_from(row.at.batch).ok()?)?;
        let parent = node.parent.map(|parent| tree.nodes[parent].row.span_id);
        let parent = parent.or_else(|| node.missing_parent()).map(|id| id.0);
        let found = Found {
            evidence: node.assembled.evidence.map(spanwise_model::Evidence::as_str),
            confidence: node.assembled.confidence,
        };
        Some(reader.span(row.at.row as usize, row.span_id.0, parent, Some(found)))
    };
    Trace { id: tree.trace_id.0, spans: tree.nodes.iter().filter_map(span).collect() }
}

/// The service of a span.
pub(super) fn service(span: &Span) -> &str {
    // It is the last.
    match span.resource.iter().rev().find(|(key, _)| key == SERVICE) {
        Some((_, AttributeValue::String(service))) => service,
        _ => "",
    }
}

/// Why a span is where it is.
#[derive(Clone, Copy)]
struct Found {
    evidence: Option<&'static str>,
    confidence: Option<f32>,
}

impl Made<'_> {
    fn add(&self, row: usize, found: Option<Found>, attributes: &mut Attributes) {
        let text = |text: &str| AttributeValue::String(text.to_owned());
        let mut add = |name: &str, value| attributes.push((name.to_owned(), value));
        let capture = self.captures.get(row).unwrap_or_default();
        let (evidence, confidence) = match found {
            Some(Found { evidence, confidence }) => (evidence, confidence),
            None => {
                let confidence = self.confidence.filter(|all| all.is_valid(row));
                (self.evidence.get(row), confidence.map(|all| all.value(row)))
            }
        };
        // Of what a program says itself there is nothing to add.
        if capture.parse().is_ok_and(Capture::is_reported) {
            return;
        }
        let [capture_key, client, confidence_key, evidence_key, retransmits_key, server] = MADE;
        add(capture_key, text(capture));
        if let Some(evidence) = evidence {
            add(evidence_key, text(evidence));
        }
        if let Some(confidence) = confidence {
            add(confidence_key, AttributeValue::Float(confidence.into()));
        }
        if let Some(retransmits) = self.retransmits.filter(|all| all.is_valid(row)) {
            add(retransmits_key, AttributeValue::Int(retransmits.value(row).into()));
        }
        for (key, (addresses, ports)) in [client, server].into_iter().zip(&self.sides) {
            if let Some(address) = addresses.get(row) {
                let port = ports.filter(|ports| ports.is_valid(row)).map(|ports| ports.value(row));
                add(key, AttributeValue::String(super::endpoint(address, port)));
            }
        }
    }
}

fn maps_of(items: &StructArray) -> Option<Maps<'_>> {
    let maps: &ArrayRef = items.column_by_name("attributes")?;
    Maps::of(maps.as_map_opt()?)
}

fn items_of(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn id<const BYTES: usize>(ids: &FixedSizeBinaryArray, row: usize) -> Option<[u8; BYTES]> {
    if ids.is_null(row) {
        return None;
    }
    ids.value(row).try_into().ok()
}

/// The attributes of a resource. Its service is the one that Spanwise shows.
pub(super) fn resource_of(json: &str, service: &str) -> Attributes {
    let mut attributes = match serde_json::from_str(json) {
        Ok(Json::Object(members)) => {
            members.into_iter().map(|(key, value)| (key, value_of_json(value))).collect()
        }
        _ => Attributes::new(),
    };
    attributes.retain(|(key, _)| key != SERVICE);
    attributes.push((SERVICE.to_owned(), AttributeValue::String(service.to_owned())));
    attributes
}

fn value_of(value: AttributeRef<'_>) -> AttributeValue {
    match value {
        AttributeRef::String(text) => AttributeValue::String(text.to_owned()),
        AttributeRef::Int(number) => AttributeValue::Int(number),
        AttributeRef::Double(number) => AttributeValue::Float(number),
        AttributeRef::Bool(flag) => AttributeValue::Bool(flag),
        // Only that there is something.
        AttributeRef::Bytes(_) => AttributeValue::Bytes(Vec::new()),
        AttributeRef::Json(text) => match serde_json::from_str(text) {
            Ok(json) => value_of_json(json),
            Err(_) => AttributeValue::String(text.to_owned()),
        },
    }
}

/// A text, a number or a flag as a value; `None` for others.
pub(super) fn single_value(value: AttributeRef<'_>) -> Option<Value<'_>> {
    Some(match value {
        AttributeRef::String(text) => Value::String(text.into()),
        AttributeRef::Int(number) => Value::Int(number),
        AttributeRef::Double(number) => Value::Float(number),
        AttributeRef::Bool(flag) => Value::Bool(flag),
        AttributeRef::Bytes(_) | AttributeRef::Json(_) => return None,
    })
}

/// Whether it is a value of no type, which is no attribute.
fn is_empty(value: AttributeRef<'_>) -> bool {
    matches!(value, AttributeRef::Json(text) if text.trim() == "null")
}

fn value_of_json(json: Json) -> AttributeValue {
    match json {
        Json::Null => AttributeValue::Empty,
        Json::Bool(flag) => AttributeValue::Bool(flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => AttributeValue::Int(number),
            None => AttributeValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => AttributeValue::String(text),
        Json::Array(values) => {
            AttributeValue::Array(values.into_iter().map(value_of_json).collect())
        }
        Json::Object(members) => AttributeValue::Map(
            members.into_iter().map(|(key, value)| (key, value_of_json(value))).collect(),
        ),
    }
}

pub(super) fn kind(word: &str) -> Kind {
    use spanwise_model::Kind as Model;
    match word.parse() {
        Ok(Model::Internal) => Kind::Internal,
        Ok(Model::Server) => Kind::Server,
        Ok(Model::Client) => Kind::Client,
        Ok(Model::Producer) => Kind::Producer,
        Ok(Model::Consumer) => Kind::Consumer,
        Err(_) => Kind::Unspecified,
    }
}

pub(super) fn status(word: &str) -> Status {
    use spanwise_model::Status as Model;
    match word.parse() {
        Ok(Model::Ok) => Status::Ok,
        Ok(Model::Error) => Status::Error,
        _ => Status::Unset,
    }
}
