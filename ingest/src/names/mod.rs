//! Names of operations that agents found: what takes many values becomes `{id}`.
//!
//! An agent takes out what looks like an identifier by itself. Other values (names of tenants,
//! slugs, dates in names of tables) show only when many names are seen. So the names are learned
//! here, where the spans of all agents arrive: per service for paths, per protocol for
//! destinations and tables. Both ends of a call get the same name. Names of applications stay, and
//! routes that they tell are taken over. Rows are changed before they are stored; their attributes
//! keep the path.

mod peers;
mod routes;
mod segment;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet, RandomState};
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type, UInt16Type, UInt32Type};
use parking_lot::Mutex;
use spanwise_model::schema::column;
use spanwise_model::{Capture, Kind, ModelError, SpanRows, protocol};

use peers::{End, Peers};
use routes::Routes;
use tree::{Style, Tree};

/// Services whose names are learned. Names of further ones stay as they are.
const MAX_SERVICES: usize = 1024;
/// Nodes of all trees together.
const MAX_NODES: usize = 1 << 16;
/// Batches for which an operation keeps its name, whatever is learned.
const SAME_NAME_BATCHES: u64 = 64;
/// Operations whose names are kept so.
const MAX_RECENT: usize = 16_384;
/// Hashes that only this process compares.
const HASHES: RandomState = RandomState::with_seeds(1, 2, 3, 4);

/// Learns names, and changes rows. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Learned>);

#[derive(Debug, Default)]
struct Learned {
    by_owner: AHashMap<Owner, usize>,
    services: Vec<Service>,
    /// Nodes of their trees.
    nodes: usize,
    peers: Peers,
    /// Names that were given, by service and operation, and since which batch. The second end of a
    /// call gets the name of the first, even if more was learned meanwhile.
    recent: AHashMap<(usize, u64), Given>,
    batches: u64,
}

/// A name that was given lately; none if the operation keeps its own.
#[derive(Debug)]
struct Given {
    name: Option<Arc<str>>,
    /// The number of the batch in which it was given.
    since: u64,
}

/// To whom names belong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    /// A service that was seen to answer.
    Service(Box<str>),
    /// An address that was called, whose service is not known.
    Address(Box<str>, u16),
    /// All of a protocol.
    Protocol(Box<str>),
}

#[derive(Debug)]
struct Service {
    tree: Tree,
    routes: Routes,
}

/// How names of a protocol are learned.
fn style_of(name: &str) -> Option<Style> {
    match name {
        protocol::HTTP | protocol::WEBSOCKET | protocol::FASTCGI => Some(Style::Path),
        protocol::KAFKA | protocol::AMQP | protocol::MQTT | protocol::NATS => {
            Some(Style::Destination)
        }
        protocol::MYSQL | protocol::POSTGRESQL | protocol::MONGODB | protocol::REDIS => {
            Some(Style::Table)
        }
        _ => None,
    }
}

/// The part of an operation that may hold values. What is before it says what is done.
fn subject(style: Style, operation: &str) -> Option<(&str, &str)> {
    let end = operation.bytes().position(|byte| byte == b' ')?;
    let (verb, rest) = operation.split_at(end + 1);
    match style {
        Style::Path => rest.starts_with('/').then_some((verb, rest)),
        Style::Destination => Some((verb, rest)),
        // Names of tables are learned by their numbers only.
        Style::Table => rest.bytes().any(|byte| byte.is_ascii_digit()).then_some((verb, rest)),
    }
}

/// A dictionary column.
struct Words<'a> {
    keys: &'a Int32Array,
    texts: &'a StringArray,
}

impl<'a> Words<'a> {
    fn of(batch: &'a RecordBatch, name: &'static str) -> Result<Self, ModelError> {
        let wrong = || ModelError::Column { column: name };
        let array = batch.column_by_name(name).ok_or_else(wrong)?;
        let array = array.as_dictionary_opt::<Int32Type>().ok_or_else(wrong)?;
        let texts = array.values().as_string_opt::<i32>().ok_or_else(wrong)?;
        Ok(Self { keys: array.keys(), texts })
    }

    /// The number of a row's text.
    fn key(&self, row: usize) -> Option<usize> {
        if self.keys.is_null(row) {
            return None;
        }
        usize::try_from(self.keys.value(row)).ok().filter(|key| *key < self.texts.len())
    }

    fn text(&self, key: usize) -> &'a str {
        if self.texts.is_null(key) { "" } else { self.texts.value(key) }
    }

    fn map<T>(&self, convert: impl Fn(&str) -> T) -> Vec<T> {
        (0..self.texts.len()).map(|key| convert(self.text(key))).collect()
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> Result<&'a PrimitiveArray<T>, ModelError> {
    let array = batch.column_by_name(name).and_then(|array| array.as_primitive_opt::<T>());
    array.ok_or(ModelError::Column { column: name })
}

/// The columns that names depend on.
struct Columns<'a> {
    operations: Words<'a>,
    services: Words<'a>,
    captures: Words<'a>,
    kinds: Words<'a>,
    protocols: Words<'a>,
    addresses: Words<'a>,
    server_ports: &'a PrimitiveArray<UInt16Type>,
    client_ports: &'a PrimitiveArray<UInt16Type>,
    requests: &'a PrimitiveArray<UInt32Type>,
    responses: &'a PrimitiveArray<UInt32Type>,
    learnable: Vec<Learnable>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, ModelError> {
        let operations = Words::of(batch, column::OPERATION)?;
        Ok(Self {
            learnable: operations.map(Learnable::of),
            operations,
            services: Words::of(batch, column::SERVICE)?,
            captures: Words::of(batch, column::CAPTURE)?,
            kinds: Words::of(batch, column::KIND)?,
            protocols: Words::of(batch, column::PROTOCOL)?,
            addresses: Words::of(batch, column::SERVER_ADDRESS)?,
            server_ports: numbers(batch, column::SERVER_PORT)?,
            client_ports: numbers(batch, column::CLIENT_PORT)?,
            requests: numbers(batch, column::REQUEST_TCP_SEQ)?,
            responses: numbers(batch, column::RESPONSE_TCP_SEQ)?,
        })
    }

    /// What the name of a row depends on; `None` if it is not learned.
    fn place(
        &self,
        row: usize,
        captures: &[Option<Capture>],
        styles: &[Option<Style>],
    ) -> Option<(Place, Style)> {
        let protocol = self.protocols.key(row)?;
        let style = styles[protocol]?;
        let operation = self.operations.key(row)?;
        if !self.learnable[operation].0[style as usize] {
            return None;
        }
        let end = match captures[self.captures.key(row)?]? {
            Capture::App | Capture::Jvm => return None,
            Capture::ClientProcess | Capture::ClientNic => End::Calling,
            Capture::ServerNic | Capture::ServerProcess => End::Called,
        };
        let (owner, port) = match (style, end) {
            (Style::Path, End::Called) => (self.services.key(row), 0),
            (Style::Path, End::Calling) => {
                let port = self.server_ports.is_valid(row).then(|| self.server_ports.value(row));
                (self.addresses.key(row), port.unwrap_or(0))
            }
            _ => (None, 0),
        };
        let small = |key: usize| u32::try_from(key).ok();
        let place = Place {
            operation: small(operation)?,
            protocol: u16::try_from(protocol).ok()?,
            end,
            owner: owner.and_then(small),
            port,
        };
        Some((place, style))
    }

    /// A number that both ends of a call have in common.
    fn hop(&self, row: usize) -> Option<u64> {
        if self.requests.is_null(row) || self.responses.is_null(row) {
            return None;
        }
        let port = if self.client_ports.is_null(row) { 0 } else { self.client_ports.value(row) };
        let (request, response) = (self.requests.value(row), self.responses.value(row));
        Some((u64::from(request) << 32 | u64::from(response)) ^ u64::from(port) << 16)
    }
}

/// What names depend on: the operation, the protocol, and the service or the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    operation: u32,
    protocol: u16,
    end: End,
    /// The service or the address, and the port.
    owner: Option<u32>,
    port: u16,
}

impl Place {
    /// All of it in two numbers, which are faster to hash.
    fn packed(&self) -> (u64, u64) {
        let owner = self.owner.map_or(0, |owner| u64::from(owner) + 1);
        let rest = u64::from(self.protocol) << 32 | u64::from(self.port) << 8 | self.end as u64;
        (u64::from(self.operation) << 32 ^ owner, rest)
    }
}

/// Which styles an operation has something to learn for.
#[derive(Clone, Copy)]
struct Learnable([bool; 3]);

impl Learnable {
    fn of(operation: &str) -> Self {
        let styles = [Style::Path, Style::Destination, Style::Table];
        Self(styles.map(|style| subject(style, operation).is_some()))
    }
}

/// The rows of a batch at one [`Place`].
struct Same<'a> {
    place: Place,
    style: Style,
    verb: &'a str,
    subject: &'a str,
    /// The service, or the address that was called.
    who: Option<usize>,
    rows: u32,
    name: Arc<str>,
}

/// The rows of a batch whose names are learned.
struct Found<'a> {
    same: Vec<Same<'a>>,
    /// For each row, the index of what is the same.
    of_rows: Vec<Option<u32>>,
}

impl Names {
    /// The rows with learned names.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub(crate) fn rename(&self, rows: SpanRows) -> Result<SpanRows, ModelError> {
        let batch = rows.columns();
        let captures = Words::of(batch, column::CAPTURE)?.map(|text| text.parse().ok());
        let is_agents = |capture: &Option<Capture>| !capture.is_some_and(Capture::is_reported);
        let mut learned = self.0.lock();
        // The most frequent case: a batch of applications, of which no service was seen.
        if !captures.iter().any(is_agents) {
            if !learned.services.is_empty() {
                learned.take_routes(&rows, &Columns::of(batch)?, &captures);
            }
            return Ok(rows);
        }
        let columns = Columns::of(batch)?;
        learned.take_routes(&rows, &columns, &captures);
        let Some(operations) = learned.rename(&columns, &captures) else { return Ok(rows) };
        drop(learned);
        let schema = batch.schema();
        let mut arrays = batch.columns().to_vec();
        arrays[schema.index_of(column::OPERATION)?] = operations?;
        Ok(rows.with_columns(RecordBatch::try_new(schema, arrays)?))
    }
}

impl Learned {
    /// The tree and the routes of an owner; `None` if there are too many.
    fn service(&mut self, owner: Owner, style: Style) -> Option<usize> {
        if let Some(known) = self.by_owner.get(&owner) {
            return Some(*known);
        }
        if self.services.len() >= MAX_SERVICES {
            return None;
        }
        self.services.push(Service { tree: Tree::new(style), routes: Routes::default() });
        self.by_owner.insert(owner, self.services.len() - 1);
        Some(self.services.len() - 1)
    }

    /// Takes over the routes that services, which agents see too, tell of themselves.
    fn take_routes(
        &mut self,
        rows: &SpanRows,
        columns: &Columns<'_>,
        captures: &[Option<Capture>],
    ) {
        let known = columns
            .services
            .map(|service| self.by_owner.get(&Owner::Service(service.into())).copied());
        if known.iter().all(Option::is_none) {
            return;
        }
        let kinds = columns.kinds.map(|text| text.parse().ok());
        let mut seen = AHashSet::new();
        for row in 0..columns.operations.keys.len() {
            let capture = columns.captures.key(row).and_then(|key| captures[key]);
            let kind = columns.kinds.key(row).and_then(|key| kinds[key]);
            if !capture.is_some_and(Capture::is_reported) || kind != Some(Kind::Server) {
                continue;
            }
            let (Some(service), Some(operation)) =
                (columns.services.key(row), columns.operations.key(row))
            else {
                continue;
            };
            let Some(service) = known[service] else { continue };
            if !seen.insert((service, operation)) {
                continue;
            }
            let operation = columns.operations.text(operation);
            let routes = &mut self.services[service].routes;
            if routes.is_new(operation)
                && let Some(route) = routes::told(rows, row, operation)
            {
                routes.take(&route);
                self.recent.clear();
            }
        }
    }

    /// The column of operations with learned names; `None` if none differs.
    fn rename(
        &mut self,
        columns: &Columns<'_>,
        captures: &[Option<Capture>],
    ) -> Option<Result<ArrayRef, ModelError>> {
        self.batches += 1;
        let mut found = self.find(columns, captures);
        if found.same.is_empty() {
            return None;
        }
        self.name(&mut found.same, columns);
        Self::column(&found, columns)
    }

    /// The rows whose names are learned. Both ends of a call meet.
    fn find<'a>(&mut self, columns: &Columns<'a>, captures: &[Option<Capture>]) -> Found<'a> {
        let rows = columns.operations.keys.len();
        let styles = columns.protocols.map(style_of);
        let mut found = Found { same: Vec::new(), of_rows: vec![None; rows] };
        let mut places: AHashMap<(u64, u64), Option<u32>> = AHashMap::new();
        for row in 0..rows {
            let Some((place, style)) = columns.place(row, captures, &styles) else { continue };
            let at = *places.entry(place.packed()).or_insert_with(|| {
                let same = self.same(columns, place, style)?;
                found.same.push(same);
                u32::try_from(found.same.len() - 1).ok()
            });
            let Some(same) = at.and_then(|at| found.same.get_mut(at as usize)) else { continue };
            same.rows += 1;
            found.of_rows[row] = at;
            if style == Style::Path
                && let (Some(hop), Some(who)) = (columns.hop(row), same.who)
            {
                self.peers.come(hop, place.end, who);
            }
        }
        found
    }

    fn same<'a>(&mut self, columns: &Columns<'a>, place: Place, style: Style) -> Option<Same<'a>> {
        let operation = columns.operations.text(place.operation as usize);
        let (verb, subject) = subject(style, operation)?;
        let who = match (style, place.end) {
            (Style::Path, End::Called) => {
                let service = columns.services.text(place.owner? as usize);
                self.service(Owner::Service(service.into()), style)
            }
            (Style::Path, End::Calling) => {
                self.peers.address(columns.addresses.text(place.owner? as usize), place.port)
            }
            _ => {
                let protocol = columns.protocols.text(place.protocol.into());
                self.service(Owner::Protocol(protocol.into()), style)
            }
        };
        Some(Same { place, style, verb, subject, who, rows: 0, name: operation.into() })
    }

    /// Learns all names of a batch, then names them.
    fn name(&mut self, same: &mut [Same<'_>], columns: &Columns<'_>) {
        let mut services = Vec::with_capacity(same.len());
        for same in &mut *same {
            // What a client calls is counted where it is answered, if that is seen.
            let (service, times) = match same.who {
                Some(address) if same.style == Style::Path && same.place.end == End::Calling => {
                    match self.peers.service(address) {
                        Some(service) => (Some(service), 0),
                        None => {
                            let text = same
                                .place
                                .owner
                                .map_or("", |key| columns.addresses.text(key as usize));
                            let owner = Owner::Address(text.into(), same.place.port);
                            (self.service(owner, same.style), same.rows)
                        }
                    }
                }
                who => (who, same.rows),
            };
            services.push(service);
            if let Some(service) = service {
                let room = MAX_NODES.saturating_sub(self.nodes);
                let tree = &mut self.services[service].tree;
                let before = tree.len();
                tree.learn(same.subject, times, room);
                self.nodes = (self.nodes + tree.len()).saturating_sub(before);
            }
        }
        for (same, service) in same.iter_mut().zip(services) {
            let Some(service) = service else { continue };
            if let Some(name) = self.name_of(service, same) {
                same.name = name;
            }
        }
    }

    /// The name of an operation of a service; `None` if it stays.
    fn name_of(&mut self, service: usize, same: &Same<'_>) -> Option<Arc<str>> {
        let key = (service, HASHES.hash_one((same.verb, same.subject)));
        if let Some(Given { name, since }) = self.recent.get(&key)
            && self.batches - since <= SAME_NAME_BATCHES
        {
            return name.clone();
        }
        let Service { tree, routes } = &self.services[service];
        let name = match routes.of(same.subject).filter(|_| same.style == Style::Path) {
            Some(route) => Cow::Borrowed(route),
            None => Cow::Owned(tree.name(same.subject)),
        };
        let name: Option<Arc<str>> =
            (*name != *same.subject).then(|| format!("{}{name}", same.verb).into());
        if self.recent.len() >= MAX_RECENT {
            self.recent.clear();
        }
        self.recent.insert(key, Given { name: name.clone(), since: self.batches });
        name
    }

    /// The column of operations with the new names; `None` if none differs.
    fn column(found: &Found<'_>, columns: &Columns<'_>) -> Option<Result<ArrayRef, ModelError>> {
        let is_new =
            |same: &Same<'_>| *same.name != *columns.operations.text(same.place.operation as usize);
        if !found.same.iter().any(is_new) {
            return None;
        }
        let mut texts = Texts::default();
        let mut numbers = Vec::with_capacity(found.same.len());
        numbers.extend(found.same.iter().map(|same| texts.number(&same.name)));
        let mut others: Vec<Option<usize>> = vec![None; columns.operations.texts.len()];
        let keys = found.of_rows.iter().enumerate().map(|(row, at)| {
            let number = match at {
                Some(at) => numbers[*at as usize],
                None => {
                    let key = columns.operations.key(row)?;
                    let text = || texts.number(&columns.operations.text(key).into());
                    *others[key].get_or_insert_with(text)
                }
            };
            i32::try_from(number).ok()
        });
        let keys: Int32Array = keys.collect();
        let texts: StringArray = texts.list.iter().map(|text| Some(&**text)).collect();
        let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(texts));
        Some(array.map(|array| Arc::new(array) as ArrayRef).map_err(ModelError::from))
    }
}

/// Different texts and their numbers.
#[derive(Default)]
struct Texts {
    list: Vec<Arc<str>>,
    numbers: AHashMap<Arc<str>, usize>,
}

impl Texts {
    fn number(&mut self, text: &Arc<str>) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.list.push(Arc::clone(text));
        self.numbers.insert(Arc::clone(text), self.list.len() - 1);
        self.list.len() - 1
    }
}

#[cfg(test)]
mod tests;
