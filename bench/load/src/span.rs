//! A span of the tree as bytes: OpenTelemetry's names and what SDKs send.

use std::fmt::{self, Write as _};

use crate::attributes::Attributes;
use crate::exporters::write_tags;
use crate::load::Tags;
use crate::pods;
use crate::profile::Profile;
use crate::protobuf::{bytes, fixed64, message, number};
use crate::random::Random;
use crate::runtimes::{Runtime, Scope};
use crate::services::{Datastore, Endpoint, SERVICES};
use crate::trace::{Node, Role, Trace};

/// Fields of `trace.proto`'s `Span`.
pub(crate) mod field {
    pub(crate) const TRACE_ID: u8 = 1;
    pub(crate) const SPAN_ID: u8 = 2;
    pub(crate) const PARENT_SPAN_ID: u8 = 4;
    pub(crate) const NAME: u8 = 5;
    pub(crate) const KIND: u8 = 6;
    pub(crate) const START: u8 = 7;
    pub(crate) const END: u8 = 8;
    pub(crate) const ATTRIBUTES: u8 = 9;
    pub(crate) const EVENTS: u8 = 11;
    pub(crate) const STATUS: u8 = 15;
}

const PRODUCTS: u64 = 40_000;

const AGENTS: [&str; 8] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Mobile Safari/537.36",
    "ShopApp/8.14.2 (Android 15; sdk 35)",
    "ShopApp/8.14.1 (iOS 18.5; iPhone16,2)",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
];

const FLAGS: [&str; 3] = ["new-ranking-model", "one-page-checkout", "dark-launch-prices"];

const FAILURES: [(&str, &str); 5] = [
    ("java.net.SocketTimeoutException", "Read timed out"),
    ("java.lang.IllegalStateException", "stock level changed during reservation"),
    ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
    ("TypeError", "Cannot read properties of undefined (reading 'price')"),
    ("org.postgresql.util.PSQLException", "ERROR: deadlock detected"),
];

/// A user as `user.id` has it.
pub(crate) struct UserId(pub(crate) u64);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid(f, &mut Random::new(self.0))
    }
}

/// A session as `session.id` has it.
struct SessionId(u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut random = Random::new(self.0);
        write!(f, "{:016x}{:016x}", random.next(), random.next())
    }
}

/// Which instrumentation library makes spans of this role.
pub(crate) const fn scope(role: Role) -> Scope {
    match role {
        Role::Server | Role::Consumer => Scope::Server,
        Role::Client { .. } | Role::Producer { .. } => Scope::Client,
        Role::Store => Scope::Store,
        Role::App => Scope::App,
    }
}

/// Writes spans.
#[derive(Debug, Default)]
pub(crate) struct SpanWriter {
    scratch: String,
    path: String,
    profile: Profile,
    /// For each instance attributes that all of its spans have, encoded.
    tags: Vec<Vec<u8>>,
}

impl SpanWriter {
    /// A writer of spans with these labels of their own.
    pub(crate) fn new(profile: Profile, tags: Tags) -> Self {
        let Tags::OfSpans(count) = tags else { return Self { profile, ..Self::default() } };
        let places = profile.instances();
        let encoded = |(service, instance)| {
            let mut into = Vec::new();
            write_tags(&mut into, field::ATTRIBUTES, service, instance, count);
            into
        };
        Self { profile, tags: places.map(encoded).collect(), ..Self::default() }
    }

    /// Appends a node of the trace as a field of its `ScopeSpans`.
    pub(crate) fn write(
        &mut self,
        into: &mut Vec<u8>,
        trace: &Trace,
        place: usize,
        random: &mut Random,
    ) {
        let node = &trace.nodes[place];
        message(into, 2, |into| {
            bytes(into, field::TRACE_ID, &trace.trace_id);
            bytes(into, field::SPAN_ID, &node.span_id);
            if let Some(parent) = node.parent {
                bytes(into, field::PARENT_SPAN_ID, &trace.nodes[parent].span_id);
            }
            self.name(into, trace, node);
            number(into, field::KIND, kind(node.role));
            fixed64(into, field::START, node.start_unix_nano.cast_unsigned());
            fixed64(into, field::END, node.end_unix_nano().cast_unsigned());
            self.attributes(into, trace, node, random);
            if let Some(tags) = self.tags.get(self.profile.place(node.service, node.instance)) {
                into.extend_from_slice(tags);
            }
            if node.failed {
                self.failure(into, node, random);
            } else {
                bytes(into, field::STATUS, &[]);
            }
            // `flags`, a fixed32 of number 16: sampled, and the parent is known
            // to be of this process or another.
            let remote =
                matches!(node.role, Role::Server | Role::Consumer) && node.parent.is_some();
            into.extend_from_slice(&[0x85, 1, 1, if remote { 3 } else { 1 }, 0, 0]);
        });
    }

    fn name(&mut self, into: &mut Vec<u8>, trace: &Trace, node: &Node) {
        self.scratch.clear();
        let service = &SERVICES[node.service];
        match node.role {
            Role::Store if self.profile == Profile::Pods => pods::name(&mut self.scratch, node),
            Role::Server => match endpoint(node.service, node) {
                Endpoint::Http(method, route) => self.put(&[method, " ", route]),
                Endpoint::Rpc(package, method) => self.put(&[package, "/", method]),
            },
            Role::Client { callee } => match endpoint(callee, node) {
                Endpoint::Http(method, _) => self.put(&[method]),
                Endpoint::Rpc(package, method) => self.put(&[package, "/", method]),
            },
            Role::Store => {
                let [operation, collection, _] = statement(node);
                self.put(&[operation, " ", collection]);
            }
            Role::App => self.put(&[function(node).0]),
            Role::Producer { .. } => self.put(&["send ", topic(service.topic)]),
            Role::Consumer => self.put(&["process ", consumed(trace, node)]),
        }
        bytes(into, field::NAME, self.scratch.trim_end().as_bytes());
    }

    fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.scratch.push_str(part));
    }

    fn attributes(&mut self, into: &mut Vec<u8>, trace: &Trace, node: &Node, random: &mut Random) {
        let Self { scratch, path, .. } = self;
        let mut to = Attributes::new(into, field::ATTRIBUTES, scratch);
        if self.profile == Profile::Pods {
            return pods::attributes(&mut to, path, trace, node, random);
        }
        match node.role {
            Role::Server => server(&mut to, path, trace, node, random),
            Role::Client { callee } => client(&mut to, path, trace, node, callee, random),
            Role::Store => store(&mut to, path, trace, node, random),
            Role::App => app(&mut to, trace, node, random),
            Role::Producer { .. } | Role::Consumer => messaging(&mut to, trace, node, random),
        }
    }

    fn failure(&mut self, into: &mut Vec<u8>, node: &Node, random: &mut Random) {
        if self.profile == Profile::Pods {
            return pods::failure(into, &mut self.scratch, &mut self.path, node, random);
        }
        let (kind, text) = *random.of(&FAILURES);
        Attributes::new(into, field::ATTRIBUTES, &mut self.scratch).text("error.type", kind);
        // Half of the libraries record the exception, too.
        if random.chance(0.5) {
            let scratch = &mut self.scratch;
            message(into, field::EVENTS, |into| {
                fixed64(into, 1, (node.end_unix_nano() - 10_000).cast_unsigned());
                bytes(into, 2, b"exception");
                let mut to = Attributes::new(into, 3, scratch);
                to.text("exception.type", kind);
                to.text("exception.message", text);
                let (function, file) = function(node);
                to.format(
                    "exception.stacktrace",
                    format_args!(
                        "{kind}: {text}\n\tat {function}({file}:{})\n\tat {file}:{}\n\tat \
                         java.base/java.lang.Thread.run(Thread.java:1583)",
                        node.choice % 400,
                        node.choice % 700,
                    ),
                );
            });
        }
        message(into, field::STATUS, |into| {
            bytes(into, 2, text.as_bytes());
            number(into, 3, 2);
        });
    }
}

const fn kind(role: Role) -> u64 {
    match role {
        Role::App => 1,
        Role::Server => 2,
        Role::Client { .. } | Role::Store => 3,
        Role::Producer { .. } => 4,
        Role::Consumer => 5,
    }
}

pub(crate) fn endpoint(service: usize, node: &Node) -> &'static Endpoint {
    let endpoints = SERVICES[service].endpoints;
    &endpoints[node.choice % endpoints.len()]
}

fn statement(node: &Node) -> [&'static str; 3] {
    let store = SERVICES[node.service].store.unwrap_or(Datastore::PostgreSql);
    let statements = store.statements();
    statements[node.choice % statements.len()]
}

pub(crate) fn function(node: &Node) -> (&'static str, &'static str) {
    let functions = SERVICES[node.service].runtime.functions();
    functions[node.choice % functions.len()]
}

pub(crate) const fn topic(topic: Option<(&'static str, usize)>) -> &'static str {
    match topic {
        Some((name, _)) => name,
        None => "events",
    }
}

/// The topic from which the message came.
pub(crate) fn consumed(trace: &Trace, node: &Node) -> &'static str {
    topic(node.parent.and_then(|sender| SERVICES[trace.nodes[sender].service].topic))
}

/// The route with ids in it.
fn fill(path: &mut String, route: &str, trace: &Trace, random: &mut Random) {
    path.clear();
    let mut rest = route;
    while let Some((before, after)) = rest.split_once('{') {
        path.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        // Writing to a String cannot fail.
        let _ = match name {
            "user" => write!(path, "{}", UserId(trace.user)),
            "order" => write!(path, "{}", trace.order.unwrap_or(trace.session >> 32)),
            "product" => write!(path, "sku-{:05}", random.skewed(PRODUCTS)),
            "category" => write!(path, "{}", random.below(120)),
            _ => uuid(path, random),
        };
        rest = after;
    }
    path.push_str(rest);
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn uuid(into: &mut impl fmt::Write, random: &mut Random) -> fmt::Result {
    let (high, low) = (random.next(), random.next());
    write!(
        into,
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

pub(crate) fn status_code(node: &Node, method: &str, random: &mut Random) -> u64 {
    match (node.failed, method) {
        (true, _) => *random.of(&[500, 500, 502, 503, 504]),
        (false, "POST") => *random.of(&[200, 201, 201, 202]),
        (false, "DELETE") => 204,
        _ if random.chance(0.02) => *random.of(&[304, 400, 401, 404, 404, 404, 429]),
        _ => 200,
    }
}

/// The address of an instance: that of its pod.
pub(crate) const fn pod(service: usize, instance: usize) -> (usize, usize) {
    (service * 8 + instance, 10 + service)
}

fn peer(to: &mut Attributes<'_>, service: usize, instance: usize, port: u64) {
    let (low, high) = pod(service, instance);
    to.format("network.peer.address", format_args!("10.42.{high}.{low}"));
    to.int("network.peer.port", port);
}

pub(crate) fn ephemeral(random: &mut Random) -> u64 {
    32_768 + random.below(28_232)
}

fn server(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    random: &mut Random,
) {
    let caller = node.parent.map(|parent| &trace.nodes[parent]);
    let name = SERVICES[node.service].name;
    match endpoint(node.service, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, random);
            to.text("http.request.method", method);
            to.text("http.route", route);
            to.text("url.path", path);
            to.format("session.id", format_args!("{}", SessionId(trace.session)));
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 8080);
            to.int("http.response.status_code", status_code(node, method, random));
            match caller {
                Some(caller) => {
                    let runtime = SERVICES[caller.service].runtime;
                    peer(to, caller.service, caller.instance, ephemeral(random));
                    to.text("user_agent.original", runtime.user_agent());
                }
                None => {
                    to.format(
                        "client.address",
                        format_args!("198.51.{}.{}", trace.user >> 10, trace.user & 0xff),
                    );
                    to.text("user_agent.original", AGENTS[(trace.user % 8) as usize]);
                    to.text("url.scheme", "https");
                }
            }
        }
        Endpoint::Rpc(package, method) => {
            to.text("rpc.system", "grpc");
            to.text("rpc.service", package);
            to.text("rpc.method", method);
            to.int("rpc.grpc.status_code", grpc_status(node, random));
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 9090);
            to.format("session.id", format_args!("{}", SessionId(trace.session)));
            if let Some(caller) = caller {
                peer(to, caller.service, caller.instance, ephemeral(random));
            }
        }
    }
    to.format("user.id", format_args!("{}", UserId(trace.user)));
    if let Some(order) = trace.order.filter(|_| node.choice.is_multiple_of(3) || caller.is_none()) {
        to.format("app.order.id", format_args!("{order}"));
    }
}

pub(crate) fn grpc_status(node: &Node, random: &mut Random) -> u64 {
    if node.failed { *random.of(&[2, 4, 13, 14]) } else { 0 }
}

fn client(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    callee: usize,
    random: &mut Random,
) {
    let (name, instance) = (SERVICES[callee].name, node.choice % 3);
    match endpoint(callee, node) {
        Endpoint::Http(method, route) => {
            fill(path, route, trace, random);
            to.text("http.request.method", method);
            to.format(
                "url.full",
                format_args!(
                    "http://{name}.shop-production.svc.cluster.local:8080{path}?locale=de-DE&currency=EUR\
                     &fields=id,name,price,stock,images"
                ),
            );
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 8080);
            to.int("http.response.status_code", status_code(node, method, random));
            to.text("network.protocol.version", "1.1");
            peer(to, callee, instance, 8080);
            to.text("url.template", route);
            to.int("http.response.body.size", 90 + random.skewed(60_000));
        }
        Endpoint::Rpc(package, method) => {
            to.text("rpc.system", "grpc");
            to.text("rpc.service", package);
            to.text("rpc.method", method);
            to.int("rpc.grpc.status_code", grpc_status(node, random));
            to.format("server.address", format_args!("{name}.shop-production.svc.cluster.local"));
            to.int("server.port", 9090);
            to.text("network.transport", "tcp");
            peer(to, callee, instance, 9090);
            to.text("user_agent.original", "grpc-go/1.72.2");
        }
    }
    // Java's agent adds the thread to whatever it sees.
    if SERVICES[node.service].runtime == Runtime::Java {
        let thread = random.below(200);
        to.int("thread.id", 20 + thread);
        to.format("thread.name", format_args!("http-nio-8080-exec-{thread}"));
    }
}

fn store(
    to: &mut Attributes<'_>,
    path: &mut String,
    trace: &Trace,
    node: &Node,
    random: &mut Random,
) {
    let service = &SERVICES[node.service];
    let store = service.store.unwrap_or(Datastore::PostgreSql);
    let [operation, collection, text] = statement(node);
    to.text("db.system.name", store.system());
    to.text("db.operation.name", operation);
    if store == Datastore::Redis {
        fill(path, text, trace, random);
        to.text("db.query.text", path);
        to.text("db.namespace", "0");
    } else {
        to.text("db.query.text", text);
        to.text("db.namespace", service.name);
        to.text("db.collection.name", collection);
        to.format("db.query.summary", format_args!("{operation} {collection}"));
    }
    to.format(
        "server.address",
        format_args!("{}-{}.shop-production-data.svc.cluster.local", store.system(), service.name),
    );
    to.int("server.port", store.port());
    to.format("network.peer.address", format_args!("10.43.{}.{}", node.service, node.choice % 2));
    to.int("network.peer.port", store.port());
    to.int("db.response.returned_rows", random.skewed(100));
    to.format(
        "db.client.connection.pool.name",
        format_args!("{}-primary-{}", service.name, node.instance),
    );
}

fn app(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    let (function, file) = function(node);
    to.text("code.function.name", function);
    to.text("code.file.path", file);
    to.int("code.line.number", 20 + (node.choice % 40) as u64 * 7);
    to.int("thread.id", 20 + random.below(200));
    to.format(
        "thread.name",
        format_args!("{}-worker-{}", SERVICES[node.service].name, random.below(64)),
    );
    to.format("user.id", format_args!("{}", UserId(trace.user)));
    to.format("session.id", format_args!("{}", SessionId(trace.session)));
    to.format("app.product.id", format_args!("sku-{:05}", random.skewed(PRODUCTS)));
    to.int("app.items", random.skewed(40));
    to.flag("app.cache.hit", random.chance(0.8));
    if node.choice.is_multiple_of(2) {
        to.text("feature_flag.key", FLAGS[node.choice % 3]);
        to.text("feature_flag.result.variant", ["on", "off", "control"][node.choice % 3]);
    }
}

fn messaging(to: &mut Attributes<'_>, trace: &Trace, node: &Node, random: &mut Random) {
    let sent = matches!(node.role, Role::Producer { .. });
    let service = &SERVICES[node.service];
    let topic = if sent { topic(service.topic) } else { consumed(trace, node) };
    to.text("messaging.system", "kafka");
    to.text("messaging.destination.name", topic);
    to.text("messaging.operation.type", if sent { "send" } else { "process" });
    to.text("messaging.operation.name", if sent { "send" } else { "process" });
    to.format("messaging.client.id", format_args!("{}-{}", service.name, node.instance));
    to.format("messaging.destination.partition.id", format_args!("{}", random.below(24)));
    to.int("messaging.kafka.offset", 80_000_000 + trace.session % 1_000_000);
    to.format("messaging.kafka.message.key", format_args!("{}", UserId(trace.user)));
    to.int("messaging.message.body.size", 200 + random.skewed(4_000));
    if !sent {
        to.format("messaging.consumer.group.name", format_args!("{}-workers", service.name));
    }
    to.text("server.address", "kafka-bootstrap.shop-production-data.svc.cluster.local");
    to.int("server.port", 9092);
}
