//! What header blocks say (RFC 9113, section 8.3), as requests and answers.

use std::borrow::Cow;

use spanwise_keys::{Carrier, SpanKey};

use super::grpc;
use super::names::{Name, TRACE_HEADERS};
use super::table::Knowledge;
use crate::formats::http::{self, Asked, Target, add, add_agent, add_server};
use crate::keys::{Keys, PathAndQuery};
use crate::sessions::{Answer, Attributes, Request, Tag};
use crate::trace_headers::TraceHeaders;

/// Says that fields of an exchange were unknown, or known only by inference, for
/// the connection is older than the agent or bytes of it were not captured.
const HPACK: &str = "spanwise.hpack";

/// Says how much is known, unless that is all.
pub(super) fn add_knowledge(attributes: &mut Attributes, known: Knowledge) {
    attributes.retain(|(key, _)| *key != HPACK);
    match known {
        Knowledge::Known => {}
        Knowledge::Inferred => add(attributes, HPACK, "inferred"),
        Knowledge::Partial => add(attributes, HPACK, "partial"),
    }
}

/// The fields of a block that a span shows.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) method: Option<String>,
    pub(super) scheme: Option<String>,
    authority: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    pub(super) path: Option<Vec<u8>>,
    pub(super) agent: Option<Vec<u8>>,
    length: Option<u64>,
    pub(super) status: Option<u16>,
    pub(super) is_grpc: bool,
    pub(super) grpc_status: Option<i32>,
    pub(super) grpc_message: Option<String>,
    pub(super) grpc_timeout_nano: Option<u64>,
    trace: TraceHeaders,
    /// Headers that may hold a key.
    key_headers: Vec<(usize, Vec<u8>)>,
    /// Numbers whose names are unknown.
    unnamed: Vec<i32>,
    /// There are fields of which nothing is known.
    unseen: bool,
}

/// What the program itself says that a stream asks for, where its head is not known.
#[derive(Debug)]
pub(super) struct Named {
    /// Empty: it is a gRPC call.
    method: Vec<u8>,
    path: Vec<u8>,
}

impl Named {
    pub(super) fn new(method: &[u8], path: &[u8]) -> Self {
        Self { method: method.to_vec(), path: path.to_vec() }
    }

    pub(super) const fn is_call(&self) -> bool {
        self.method.is_empty()
    }

    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.method.capacity() + self.path.capacity()
    }

    /// Names a request whose head said less.
    pub(super) fn give_to(self, request: &mut Request) {
        let mut fields = Fields::default();
        let is_call = self.is_call();
        fields.learn(self);
        let Request { operation, attributes, .. } = fields.request(Knowledge::Known);
        let known = std::mem::replace(&mut request.attributes, attributes);
        for (key, value) in known {
            let is_http = key.starts_with("http.") || key.starts_with("url.");
            let is_new = request.attributes.iter().all(|(other, _)| *other != key);
            if is_new && !(is_call && is_http) {
                request.attributes.push((key, value));
            }
        }
        request.operation = operation;
        request.unnamed = false;
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Fields {
    /// Takes note of a field.
    pub(super) fn add(&mut self, name: Name, value: &[u8]) {
        match name {
            Name::Method => self.method = Some(crate::bytes::text(value, 32)),
            Name::Scheme => self.scheme = Some(crate::bytes::text(value, 16)),
            Name::Authority => self.authority = Some(value.to_vec()),
            Name::Host => self.host = Some(value.to_vec()),
            Name::Path => self.path = Some(value.to_vec()),
            Name::UserAgent => self.agent = Some(value.to_vec()),
            Name::ContentLength => self.length = number(value),
            Name::Status => self.status = number(value),
            Name::ContentType => self.is_grpc = grpc::is_content_type(value),
            Name::GrpcStatus => self.grpc_status = number(value),
            Name::GrpcMessage => self.grpc_message = Some(grpc::message(value)),
            Name::GrpcTimeout => self.grpc_timeout_nano = grpc::timeout_nano(value),
            Name::Unnamed => self.unnamed.extend(number::<i32>(value)),
            Name::Unseen => self.unseen = true,
            Name::Key(at) => self.key_headers.push((at, value.to_vec())),
            Name::Trace(at) => self.trace.header(TRACE_HEADERS[at].as_bytes(), value),
        }
    }

    /// The keys in it.
    pub(super) fn keys(&self, keys: &Keys) -> Vec<SpanKey> {
        if keys.is_empty() {
            return Vec::new();
        }
        let target = Target::of(None, self.path.as_deref().unwrap_or_default());
        let target = PathAndQuery { path: target.path, query: target.query };
        keys.of(&KeyFields { fields: self, wanted: keys.headers(), target })
    }

    /// Where a request goes; old clients say `host`.
    pub(super) fn authority(&self) -> Option<&[u8]> {
        self.authority.as_deref().or(self.host.as_deref())
    }

    /// `http` unless another is said.
    pub(super) fn scheme(&self) -> &str {
        self.scheme.as_deref().unwrap_or("http")
    }

    /// Whether it is a request's head, not trailers.
    pub(super) const fn asks(&self) -> bool {
        self.method.is_some() || self.path.is_some() || self.scheme.is_some()
    }

    /// Takes over what the program says of it.
    pub(super) fn learn(&mut self, name: Named) {
        if self.path.is_some() {
            return;
        }
        self.is_grpc |= name.is_call();
        if !name.is_call() {
            self.method = Some(crate::bytes::text(&name.method, 32));
        }
        self.path = Some(name.path);
    }

    /// The code in the block that ends a call. There is one, so it is the only
    /// number whose name is not known, if there is no other.
    pub(super) fn infer_status(&mut self) -> bool {
        let code = match (self.grpc_status, self.unseen, self.unnamed.as_slice()) {
            (None, false, [code @ 0..=16]) => Some(*code),
            _ => None,
        };
        self.grpc_status = self.grpc_status.or(code);
        code.is_some()
    }

    /// The request that it makes.
    pub(super) fn request(self, known: Knowledge) -> Request {
        // What connects to a host has no path (RFC 9113, section 8.5).
        let unnamed = known == Knowledge::Partial
            && self.path.is_none()
            && self.method.as_deref() != Some("CONNECT");
        let mut request = if self.is_grpc { self.grpc_request() } else { self.http_request() };
        request.unnamed = unnamed;
        request.headers = self.trace;
        add_knowledge(&mut request.attributes, known);
        request
    }

    fn grpc_request(&self) -> Request {
        let method = self.path.as_deref().map(grpc::method);
        let mut request = Request::new(method.clone().unwrap_or_else(|| "grpc".to_owned()));
        let attributes = &mut request.attributes;
        grpc::describe(attributes, method.as_deref());
        add_server(attributes, self.authority(), self.scheme());
        add_agent(attributes, self.agent.as_deref());
        add(attributes, "network.protocol.version", "2");
        request
    }

    fn http_request(&self) -> Request {
        let path = self.path.as_deref().unwrap_or_default();
        let asked = Asked {
            method: self.method.as_deref(),
            target: Target::of(self.authority(), path),
            scheme: self.scheme(),
            agent: self.agent.as_deref(),
            length: self.length,
            version: Some("2"),
        };
        http::request(&asked)
    }

    /// What it adds to the answer to a request that was `asked`. `serving` where the traced
    /// process sent it.
    pub(super) fn answer(self, asked: Tag, answer: &mut Answer, is_grpc: bool, serving: bool) {
        if !is_grpc && let Some(status) = self.status {
            *answer = http::answer(asked, status, self.length, serving);
        }
        if let Some(id) = self.trace.request_id {
            answer.request_id = Some(id);
        }
        if !is_grpc || answer.status_code.is_some() {
            return;
        }
        if let Some(code) = self.grpc_status {
            grpc::conclude(answer, code, self.grpc_message.as_deref(), serving);
        } else if let Some(status) = self.status.filter(|status| *status != 200) {
            let message = format!("HTTP {status}");
            grpc::conclude(answer, grpc::code_of_status(status), Some(&message), serving);
        }
    }
}

/// What may hold a key of a request's head.
struct KeyFields<'a> {
    fields: &'a Fields,
    /// What [`Name::Key`] counts.
    wanted: &'a [String],
    target: PathAndQuery<'a>,
}

impl Carrier for KeyFields<'_> {
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let at = self.wanted.iter().position(|wanted| wanted == name)?;
        let found = self.fields.key_headers.iter().find(|(header, _)| *header == at);
        match found {
            Some((_, value)) => std::str::from_utf8(value).ok().map(Cow::Borrowed),
            // It is kept as a trace header.
            None if name == "x-request-id" => {
                self.fields.trace.request_id.as_deref().map(Cow::Borrowed)
            }
            None => None,
        }
    }

    fn path(&self) -> Option<&str> {
        self.target.path()
    }

    fn query(&self) -> Option<&str> {
        self.target.query()
    }
}
