//! Encodes spans with OpenTelemetry's names, as SDKs send them.

use std::borrow::Cow;

use crate::attributes::Attributes;
use crate::pods;
use crate::profile::Profile;
use crate::protobuf::{bytes, fixed64, message, number};
use crate::random::Random;
use crate::runtimes::{Runtime, Scope};
use crate::services::{Endpoint, SERVICES};
use crate::shop;
use crate::tags::{Tags, write_tags};
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

/// The instrumentation library of spans with this role.
pub(crate) const fn scope(role: Role) -> Scope {
    match role {
        Role::Server | Role::Consumer => Scope::Server,
        Role::Client { .. } | Role::Producer { .. } => Scope::Client,
        Role::Store => Scope::Store,
        Role::App => Scope::App,
    }
}

/// Encodes spans.
#[derive(Debug, Default)]
pub(crate) struct SpanWriter {
    scratch: String,
    path: String,
    profile: Profile,
    /// For each instance, the encoded attributes of all of its spans.
    tags: Vec<Vec<u8>>,
}

impl SpanWriter {
    /// An encoder with these additional labels.
    pub(crate) fn new(profile: Profile, tags: Tags) -> Self {
        let Tags::OfSpans(count) = tags else {
            return Self { profile, ..Self::default() };
        };
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
            // `flags`, a fixed32 with number 16: sampled, and whether the parent is remote is
            // known.
            let remote =
                matches!(node.role, Role::Server | Role::Consumer) && node.parent.is_some();
            into.extend_from_slice(&[0x85, 1, 1, if remote { 3 } else { 1 }, 0, 0]);
        });
    }

    fn name(&mut self, into: &mut Vec<u8>, trace: &Trace, node: &Node) {
        self.scratch.clear();
        let service = &SERVICES[node.service];
        match node.role {
            Role::Server => match endpoint(node.service, node) {
                Endpoint::Http(method, route) => self.put(&[method, " ", route]),
                Endpoint::Rpc(package, method) => self.put(&[package, "/", method]),
            },
            Role::Client { callee } => match endpoint(callee, node) {
                Endpoint::Http(method, _) => self.put(&[method]),
                Endpoint::Rpc(package, method) => self.put(&[package, "/", method]),
            },
            Role::Store => {
                let [operation, collection] = match self.profile {
                    Profile::Shop => shop::statement_name(node),
                    Profile::Pods => pods::statement_name(node),
                };
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
        let Self { scratch, path, profile, .. } = self;
        let mut to = Attributes::new(into, field::ATTRIBUTES, scratch);
        match profile {
            Profile::Shop => shop::attributes(&mut to, path, trace, node, random),
            Profile::Pods => pods::attributes(&mut to, path, trace, node, random),
        }
    }

    fn failure(&mut self, into: &mut Vec<u8>, node: &Node, random: &mut Random) {
        let Self { scratch, path: stack, profile, .. } = self;
        let Exception { kind, message: text, recording } = match profile {
            Profile::Shop => shop::exception(stack, node, random),
            Profile::Pods => pods::exception(stack, node, random),
        };
        Attributes::new(into, field::ATTRIBUTES, scratch).text("error.type", kind);
        if recording != Recording::Not {
            message(into, field::EVENTS, |into| {
                fixed64(into, 1, (node.end_unix_nano() - 10_000).cast_unsigned());
                bytes(into, 2, b"exception");
                let mut to = Attributes::new(into, 3, scratch);
                to.text("exception.type", kind);
                to.text("exception.message", &text);
                to.text("exception.stacktrace", stack);
                if recording == Recording::NotEscaped {
                    to.flag("exception.escaped", false);
                }
            });
        }
        message(into, field::STATUS, |into| {
            bytes(into, 2, text.as_bytes());
            number(into, 3, 2);
        });
    }
}

/// An exception.
pub(crate) struct Exception {
    pub(crate) kind: &'static str,
    pub(crate) message: Cow<'static, str>,
    pub(crate) recording: Recording,
}

/// Whether the library also records the exception as an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    Not,
    Plain,
    /// With the attribute that says that the exception did not escape the span.
    NotEscaped,
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

pub(crate) fn function(node: &Node) -> (&'static str, &'static str) {
    let functions = SERVICES[node.service].runtime.functions();
    functions[node.choice % functions.len()]
}

const fn topic(topic: Option<(&'static str, usize)>) -> &'static str {
    match topic {
        Some((name, _)) => name,
        None => "events",
    }
}

/// The topic of a consumed message.
fn consumed(trace: &Trace, node: &Node) -> &'static str {
    topic(node.parent.and_then(|sender| SERVICES[trace.nodes[sender].service].topic))
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

pub(crate) fn ephemeral(random: &mut Random) -> u64 {
    32_768 + random.below(28_232)
}

/// Attributes of both sides of a gRPC call.
pub(crate) fn rpc(
    to: &mut Attributes<'_>,
    package: &str,
    method: &str,
    node: &Node,
    random: &mut Random,
) {
    to.text("rpc.system", "grpc");
    to.text("rpc.service", package);
    to.text("rpc.method", method);
    to.int("rpc.grpc.status_code", if node.failed { *random.of(&[2, 4, 13, 14]) } else { 0 });
}

/// The location of a node's code, and its thread.
pub(crate) fn code(to: &mut Attributes<'_>, node: &Node, random: &mut Random) {
    let (function, file) = function(node);
    to.text("code.function.name", function);
    to.text("code.file.path", file);
    to.int("code.line.number", 20 + (node.choice % 40) as u64 * 7);
    to.int("thread.id", 20 + random.below(200));
}

/// Attributes that Java's agent adds to all spans: one of a number of threads.
pub(crate) fn java_thread(
    to: &mut Attributes<'_>,
    node: &Node,
    (first, count): (u64, u64),
    random: &mut Random,
) {
    if SERVICES[node.service].runtime == Runtime::Java {
        let thread = random.below(count);
        to.int("thread.id", first + thread);
        to.format("thread.name", format_args!("http-nio-8080-exec-{thread}"));
    }
}

/// Attributes of both sides of a message. Returns whether this is the sender.
pub(crate) fn message_of(to: &mut Attributes<'_>, trace: &Trace, node: &Node) -> bool {
    let sent = matches!(node.role, Role::Producer { .. });
    let topic = if sent { topic(SERVICES[node.service].topic) } else { consumed(trace, node) };
    let operation = if sent { "send" } else { "process" };
    to.text("messaging.system", "kafka");
    to.text("messaging.destination.name", topic);
    to.text("messaging.operation.type", operation);
    to.text("messaging.operation.name", operation);
    sent
}
