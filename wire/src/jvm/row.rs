//! Converts a span of the JVM agent to a row, with OpenTelemetry's attributes.

use spanwise_model::{
    AttributeValue, Attributes, Capture, Kind, ResourceJson, Span, SpanId, Status, TraceId, grpc,
};

use crate::tags::FieldTags;

/// The process that a batch is from.
pub(super) struct Process {
    pub(super) service: String,
    pub(super) host: Option<String>,
    pub(super) process_id: Option<u32>,
    pub(super) resource: ResourceJson,
}

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    HttpServer,
    HttpClient,
    Database,
    Producer,
    Consumer,
    RpcClient,
    RpcServer,
    Cache,
    /// Work inside of the process, or what only a later agent knows.
    Internal,
}

impl Component {
    pub(super) const fn numbered(number: u8) -> Self {
        match number {
            1 => Self::HttpServer,
            2 => Self::HttpClient,
            3 => Self::Database,
            4 => Self::Producer,
            5 => Self::Consumer,
            6 => Self::RpcClient,
            7 => Self::RpcServer,
            8 => Self::Cache,
            _ => Self::Internal,
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::HttpServer | Self::RpcServer => Kind::Server,
            Self::HttpClient | Self::Database | Self::RpcClient | Self::Cache => Kind::Client,
            Self::Producer => Kind::Producer,
            Self::Consumer => Kind::Consumer,
            Self::Internal => Kind::Internal,
        }
    }
}

/// A decoded span.
#[derive(Debug)]
pub(super) struct JvmSpan<'a> {
    pub(super) component: Component,
    pub(super) failed: bool,
    pub(super) name: Option<&'a str>,
    pub(super) target: Option<&'a str>,
    pub(super) peer: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) status: Option<i32>,
    /// The port of whoever sent the request.
    pub(super) client_port: Option<u16>,
    pub(super) trace_id: TraceId,
    pub(super) id: SpanId,
    pub(super) parent_id: Option<SpanId>,
    pub(super) start_unix_nano: i64,
    pub(super) duration_nano: i64,
}

impl JvmSpan<'_> {
    pub(super) fn into_row(self, process: &Process) -> Span {
        let mut attributes: Attributes = Vec::with_capacity(6);
        let mut put = |key: &str, value: Option<AttributeValue>| {
            if let Some(value) = value {
                attributes.push((key.to_owned(), value));
            }
        };
        let text = |text: &str| Some(AttributeValue::from(text));
        let name = self.name.unwrap_or_default();
        let status = self.status.map(|status| AttributeValue::Int(status.into()));
        let target = self.target.and_then(text);
        let operation = match self.component {
            Component::HttpServer | Component::HttpClient => {
                put("http.request.method", text(name));
                put("url.path", target);
                put("http.response.status_code", status);
                let route = self.peer.filter(|_| self.component == Component::HttpServer);
                put("http.route", route.and_then(text));
                joined(name, route.or(self.target))
            }
            Component::Database | Component::Cache => {
                let (system, rest) = split_system(self.peer.unwrap_or_default());
                put("db.system.name", Some(system).filter(|it| !it.is_empty()).and_then(text));
                let key = if self.component == Component::Cache {
                    "db.namespace"
                } else {
                    "db.query.text"
                };
                put(key, target);
                put("db.operation.name", text(name));
                put_address(&mut put, rest);
                self.statement_name(name)
            }
            Component::RpcClient | Component::RpcServer => {
                put("rpc.system.name", text(name));
                put("rpc.method", target);
                let status = self.status.map(|code| status_name(name, code));
                put("rpc.response.status_code", status.as_deref().and_then(text));
                self.target.unwrap_or(name).to_owned()
            }
            Component::Producer | Component::Consumer => {
                let (place, facts) = split_facts(self.peer.unwrap_or_default());
                let (system, rest) = split_system(place);
                put("messaging.system", Some(system).filter(|it| !it.is_empty()).and_then(text));
                put("messaging.destination.name", target);
                put("messaging.operation.name", text(name));
                put("messaging.operation.type", text(self.operation_type(name)));
                put_address(&mut put, rest);
                put_facts(&mut put, system, facts);
                joined(name, self.target)
            }
            Component::Internal => {
                put("code.function.name", target);
                joined(name, None)
            }
        };
        match self.component {
            Component::HttpClient | Component::RpcClient => {
                put_address(&mut put, self.peer.unwrap_or_default());
            }
            _ => {}
        }
        put("network.peer.port", self.client_port.map(|port| AttributeValue::Int(port.into())));
        let error = self.error.filter(|error| !error.is_empty());
        put("error.type", error.and_then(text));
        let mut row = Span {
            trace_id: Some(self.trace_id),
            parent_span_id: self.parent_id,
            resource: process.resource.clone(),
            attributes,
            ..Span::new(
                self.id,
                Capture::Jvm,
                self.component.kind(),
                process.service.clone(),
                operation,
                self.start_unix_nano,
                self.duration_nano,
            )
        };
        FieldTags::default().fill(&mut row);
        if self.failed {
            row.status = Status::Error;
        }
        row.host.clone_from(&process.host);
        row.process_id = process.process_id;
        row
    }

    /// What a client of a message system calls its operation, as one of the conventions' types.
    fn operation_type(&self, name: &str) -> &'static str {
        match (self.component, name) {
            (Component::Producer, _) => "send",
            (_, "receive" | "poll") => "receive",
            _ => "process",
        }
    }

    /// The first words of a statement: `SELECT owners`.
    fn statement_name(&self, operation: &str) -> String {
        let words = self.target.unwrap_or_default().split_ascii_whitespace();
        let mut after = words.skip_while(|word| {
            !["FROM", "INTO", "UPDATE", "TABLE"].iter().any(|it| word.eq_ignore_ascii_case(it))
        });
        let table = after.nth(1).map(|table| {
            table.trim_matches(|at: char| !at.is_alphanumeric() && !matches!(at, '_' | '.'))
        });
        let table = match self.component {
            Component::Database => table.filter(|table| !table.is_empty()),
            _ => None,
        };
        joined(operation, table)
    }
}

/// `UNAVAILABLE` for gRPC's 14, and the number where codes have no names.
fn status_name(system: &str, code: i32) -> String {
    let known = usize::try_from(code).ok().filter(|_| system == "grpc");
    let known = known.and_then(|code| grpc::CODES.get(code));
    known.map_or_else(|| code.to_string(), |known| (*known).to_owned())
}

fn joined(first: &str, second: Option<&str>) -> String {
    match second {
        Some(second) if !second.is_empty() => format!("{first} {second}"),
        _ => first.to_owned(),
    }
}

/// `postgresql://host:5432/name` is a system and what follows.
fn split_system(peer: &str) -> (&str, &str) {
    peer.split_once(':').unwrap_or((peer, ""))
}

/// `kafka://host:9092?partition=0&key=x` is a peer and what is known of one message.
fn split_facts(peer: &str) -> (&str, &str) {
    peer.split_once('?').unwrap_or((peer, ""))
}

/// Facts that precede a key. A key is the last one, because it may have any character.
fn put_facts(put: &mut impl FnMut(&str, Option<AttributeValue>), system: &str, mut facts: &str) {
    while !facts.is_empty() {
        let is_key = facts.starts_with("key=") || facts.starts_with("routing_key=");
        let (fact, rest) =
            if is_key { (facts, "") } else { facts.split_once('&').unwrap_or((facts, "")) };
        facts = rest;
        let Some((name, value)) = fact.split_once('=') else { continue };
        let number = || value.parse().ok().map(AttributeValue::Int);
        let text = || Some(AttributeValue::from(value));
        match (name, system) {
            ("partition", _) => put("messaging.destination.partition.id", text()),
            ("group", _) => put("messaging.consumer.group.name", text()),
            ("id", _) => put("messaging.message.id", text()),
            ("count", _) => put("messaging.batch.message_count", number()),
            ("offset", "kafka") => put("messaging.kafka.offset", number()),
            ("key", "kafka") => put("messaging.kafka.message.key", text()),
            ("key", "rocketmq") => {
                let keys: serde_json::Value = value.split_ascii_whitespace().collect();
                put(
                    "messaging.rocketmq.message.keys",
                    Some(AttributeValue::Json(keys.to_string())),
                );
            }
            ("routing_key", _) => put("messaging.rabbitmq.destination.routing_key", text()),
            // Of a later agent.
            _ => {}
        }
    }
}

/// Host and port of `host:port`, `//host:port/name`, or nothing if there is no host.
fn put_address(put: &mut impl FnMut(&str, Option<AttributeValue>), peer: &str) {
    let Some(authority) = (match peer.strip_prefix("//") {
        Some(rest) => rest.split('/').next(),
        // A file or a database in memory.
        None if peer.contains('/') => None,
        None => Some(peer),
    }) else {
        return;
    };
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => return,
        },
        _ => (authority, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return;
    }
    put("server.address", Some(AttributeValue::from(host)));
    put("server.port", port.map(|port: u16| AttributeValue::Int(port.into())));
}
