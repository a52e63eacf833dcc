//! What all versions of HTTP share (RFC 9110): what a request and a response
//! mean, whatever bytes say it.

pub(crate) mod operation;
pub(crate) mod queue;

use spanwise_model::AttributeValue;

use crate::bytes::text;
use crate::redaction::{self, host_of};
use crate::sessions::{Answer, Attributes, Failure, Request, Tag};

const MAX_PATH_BYTES: usize = 1024;
const MAX_QUERY_BYTES: usize = 1024;
const MAX_HOST_BYTES: usize = 256;
const MAX_AGENT_BYTES: usize = 256;
/// As many as there are with all the usual headers.
const USUAL_ATTRIBUTES: usize = 6;

/// Methods of RFC 9110, section 9, and PATCH (RFC 5789): those that the
/// semantic conventions take as they are. Others are `_OTHER`.
pub(crate) const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Where a request goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Target<'a> {
    /// Host and port.
    pub(crate) authority: Option<&'a [u8]>,
    /// Empty where there is none, or none is known.
    pub(crate) path: &'a [u8],
    /// What follows the question mark.
    pub(crate) query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// A target of a path and perhaps a query.
    pub(crate) fn of(authority: Option<&'a [u8]>, path_and_query: &'a [u8]) -> Self {
        match memchr::memchr(b'?', path_and_query) {
            Some(mark) => Self {
                authority,
                path: &path_and_query[..mark],
                query: Some(&path_and_query[mark + 1..]),
            },
            None => Self { authority, path: path_and_query, query: None },
        }
    }
}

/// What a request's head says that a span shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    /// `None` where it is not known.
    pub(crate) method: Option<&'a str>,
    /// Where it goes.
    pub(crate) target: Target<'a>,
    /// `http` or `https`.
    pub(crate) scheme: &'a str,
    /// User-Agent.
    pub(crate) agent: Option<&'a [u8]>,
    /// Content-Length.
    pub(crate) length: Option<u64>,
    /// `1.1`, `2`.
    pub(crate) version: Option<&'a str>,
}

/// Host and port of a `Host` header or an authority.
fn host_and_port(authority: &[u8]) -> (String, Option<u16>) {
    let mut host = text(host_of(authority), MAX_HOST_BYTES);
    let mut port = None;
    if let Some(colon) = memchr::memrchr(b':', host.as_bytes()) {
        let before = &host[..colon];
        // An IPv6 address has colons of its own.
        if before.ends_with(']') || memchr::memchr(b':', before.as_bytes()).is_none() {
            port = host[colon + 1..].parse().ok();
            host.truncate(colon);
        }
    }
    if host.starts_with('[') || host.ends_with(']') {
        host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    }
    (host, port)
}

/// Adds an attribute.
pub(crate) fn add(
    attributes: &mut Attributes,
    key: &'static str,
    value: impl Into<AttributeValue>,
) {
    attributes.push((key, value.into()));
}

fn add_length(attributes: &mut Attributes, key: &'static str, length: Option<u64>) {
    if let Some(length) = length {
        add(attributes, key, i64::try_from(length).unwrap_or(i64::MAX));
    }
}

/// Adds `server.address` and `server.port`.
pub(crate) fn add_server(attributes: &mut Attributes, authority: Option<&[u8]>, scheme: &str) {
    if let Some(authority) = authority.filter(|authority| !authority.is_empty()) {
        let (host, port) = host_and_port(authority);
        let usual = if scheme == "https" { 443 } else { 80 };
        add(attributes, "server.address", host);
        add(attributes, "server.port", i64::from(port.unwrap_or(usual)));
    }
}

/// Adds `user_agent.original`.
pub(crate) fn add_agent(attributes: &mut Attributes, agent: Option<&[u8]>) {
    if let Some(agent) = agent {
        let agent = redaction::owned(text(agent, MAX_AGENT_BYTES), redaction::client_name);
        add(attributes, "user_agent.original", agent);
    }
}

/// Says that a request's head is longer than what was captured of it: headers may be missing, among
/// them those that name its trace.
pub(crate) fn cut(attributes: &mut Attributes) {
    add(attributes, "spanwise.request.head", "cut");
}

fn known_method(method: Option<&str>) -> Option<&str> {
    method.filter(|method| METHODS.contains(method))
}

/// What a request says beside path and query.
pub(crate) fn alike(asked: &Asked<'_>) -> Attributes {
    let mut attributes = Attributes::with_capacity(USUAL_ATTRIBUTES);
    if let Some(method) = asked.method {
        let known = known_method(asked.method);
        add(&mut attributes, "http.request.method", known.unwrap_or("_OTHER"));
        if known.is_none() {
            let plain = method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
            let original = if plain { method } else { redaction::REDACTED };
            add(&mut attributes, "http.request.method_original", text(original.as_bytes(), 32));
        }
    }
    add(&mut attributes, "url.scheme", asked.scheme);
    add_server(&mut attributes, asked.target.authority, asked.scheme);
    add_agent(&mut attributes, asked.agent);
    add_length(&mut attributes, "http.request.body.size", asked.length);
    if let Some(version) = asked.version {
        add(&mut attributes, "network.protocol.version", version);
    }
    attributes
}

/// The request with this method to this target, of which only path and query are told.
pub(crate) fn request_to(method: Option<&str>, target: &Target<'_>) -> Request {
    let path = redaction::owned(text(target.path, MAX_PATH_BYTES), redaction::path);
    let known = known_method(method).unwrap_or("HTTP");
    let mut request = Request::new(operation::name(known, &path));
    if !path.is_empty() {
        add(&mut request.attributes, "url.path", path);
    }
    if let Some(query) = target.query {
        let query = redaction::owned(text(query, MAX_QUERY_BYTES), redaction::query);
        add(&mut request.attributes, "url.query", query);
    }
    request.tag = match method {
        Some("HEAD") => Tag::Head,
        Some("CONNECT") => Tag::Connect,
        _ => Tag::Plain,
    };
    request
}

/// The request of an exchange.
pub(crate) fn request(asked: &Asked<'_>) -> Request {
    let mut request = request_to(asked.method, &asked.target);
    request.attributes.extend(alike(asked));
    request
}

/// What a response to a request says. `serving` where the traced process sent it:
/// then only 5xx is a failure, else 4xx is one too (semantic conventions for HTTP
/// spans).
pub(crate) fn answer(asked: Tag, status: u16, length: Option<u64>, serving: bool) -> Answer {
    let length = length.filter(|_| has_body(asked, status));
    let mut answer = Answer { status_code: Some(i32::from(status)), ..Answer::default() };
    add(&mut answer.attributes, "http.response.status_code", i64::from(status));
    add_length(&mut answer.attributes, "http.response.body.size", length);
    if status >= 500 || (status >= 400 && !serving) {
        answer.failure =
            Some(Failure { kind: status.to_string(), message: format!("HTTP {status}") });
    }
    answer
}

/// Whether a response has a body, by its request and its status (RFC 9110,
/// section 6.4.1). Where it has none, Content-Length tells of another's.
pub(crate) fn has_body(asked: Tag, status: u16) -> bool {
    asked != Tag::Head && !matches!(status, 100..200 | 204 | 304)
}
