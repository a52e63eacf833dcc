//! Content of requests and responses, independent of the protocol.

use std::borrow::Cow;
use std::sync::LazyLock;

use spanwise_keys::SpanKey;
use spanwise_model::{AttributeValue, Kind, RowWriter};

use super::attributes::{Attributes, attributes_bytes};
use super::passed::PassedMessage;
use super::shared::{Shared, Tells};
use crate::redaction::{Hidden, prose};
use crate::trace_headers::TraceHeaders;

/// What a protocol must remember about a request to parse its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tag {
    /// Nothing.
    Plain,
    /// HTTP HEAD: the response has no body.
    Head,
    /// HTTP CONNECT: success makes the connection a tunnel.
    Connect,
    /// PostgreSQL's request for encryption: the response is one byte.
    Encryption,
    /// Memcached commands of which only the last one certainly gets a response.
    Batch,
}

/// How messages pass between the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The requesting side calls the responding side.
    Call,
    /// The requesting side publishes a message.
    Publish,
    /// The responding side delivers a message without a request, and the requesting side processes
    /// it.
    Deliver,
}

impl Manner {
    /// The span kind (OpenTelemetry semantic conventions for messaging: a broker's own spans have
    /// kind server and client).
    pub const fn kind(self, serving: bool) -> Kind {
        match (self, serving) {
            (Self::Publish, false) => Kind::Producer,
            (Self::Deliver, true) => Kind::Consumer,
            (_, true) => Kind::Server,
            (_, false) => Kind::Client,
        }
    }
}

/// Attributes that several requests share.
#[derive(Debug, Clone)]
pub struct Alike(pub Attributes);

impl Tells for Alike {
    fn attributes(&self) -> &Attributes {
        &self.0
    }
}

/// Content of a request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Span name.
    pub operation: String,
    /// Span attributes.
    pub attributes: Attributes,
    /// Additional attributes, shared with other requests.
    pub alike: Option<Shared<Alike>>,
    /// Trace headers.
    pub headers: TraceHeaders,
    /// Data for the protocol's own use.
    pub tag: Tag,
    /// The protocol's own number that pairs the request with its response, if responses may come in
    /// another order.
    pub stream: u64,
    /// How the message passes.
    pub manner: Manner,
    /// The messages for a broker that the request carries, or asks for.
    pub messages: Vec<PassedMessage>,
    /// Business keys, if rules found some in it or, if it asks a broker for messages, in those.
    pub keys: Vec<SpanKey>,
    /// A span is made only if the request fails.
    pub silent: bool,
    /// The operation was named before the agent saw the connection, or in data that the agent
    /// missed. The operation name is only what is known about it.
    pub unnamed: bool,
}

impl Request {
    /// A request with only an operation name.
    pub fn new(operation: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            attributes: Attributes::new(),
            alike: None,
            headers: TraceHeaders::default(),
            tag: Tag::Plain,
            stream: 0,
            manner: Manner::Call,
            messages: Vec::new(),
            keys: Vec::new(),
            silent: false,
            unnamed: false,
        }
    }

    /// Text bytes held, including those shared with other requests.
    pub fn held_bytes(&self) -> usize {
        let alike = self.alike.as_ref().map_or(0, |alike| attributes_bytes(&alike.0));
        let own = self.operation.len() + attributes_bytes(&self.attributes);
        let messages = self.messages.len() * size_of::<PassedMessage>();
        let keys: usize = self.keys.iter().map(SpanKey::held_bytes).sum();
        own + messages + keys + alike + self.headers.held_bytes()
    }

    /// All span attributes.
    pub fn all_attributes(&self) -> impl Iterator<Item = &(&'static str, AttributeValue)> {
        let alike = self.alike.as_ref().map_or(&[][..], |alike| &alike.0);
        self.attributes.iter().chain(alike)
    }

    /// Writes the request's attributes to a span.
    pub fn tell(request: &Shared<Self>, row: &mut RowWriter<'_>) {
        request.tell(row);
        if let Some(alike) = &request.alike {
            alike.tell(row);
        }
    }
}

impl Tells for Request {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `error.type`.
    pub kind: String,
    /// Text for people.
    pub message: String,
}

impl Failure {
    /// A failure whose kind is also its message.
    pub fn plain(kind: &str) -> Self {
        Self { kind: kind.to_owned(), message: kind.to_owned() }
    }

    /// The failure without secrets and without what the operator hides. Returns `None` if nothing
    /// changes.
    pub(super) fn shown(&self, hide: Hidden) -> Option<Self> {
        let kind = prose(&self.kind);
        let message = if hide.errors { kind.clone() } else { prose(&self.message) };
        let same = matches!(kind, Cow::Borrowed(_)) && message == self.message;
        (!same).then(|| Self { kind: kind.into_owned(), message: message.into_owned() })
    }
}

/// Content of a response.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The protocol's own status code.
    pub status_code: Option<i32>,
    /// Set if the response reports a failure.
    pub failure: Option<Failure>,
    /// Additional span attributes.
    pub attributes: Attributes,
    /// The messages of a broker that the response carries, or has given their places.
    pub messages: Vec<PassedMessage>,
    /// X-Request-ID of the response.
    pub request_id: Option<String>,
    /// The response was not seen, or may belong to another request.
    pub unseen: bool,
}

impl Answer {
    /// Number of text bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        attributes_bytes(&self.attributes) + self.messages.len() * size_of::<PassedMessage>()
    }

    /// Whether nothing is known about the response.
    pub fn says_nothing(&self) -> bool {
        let Self { status_code, failure, attributes, messages, request_id, unseen } = self;
        status_code.is_none()
            && failure.is_none()
            && attributes.is_empty()
            && messages.is_empty()
            && request_id.is_none()
            && !unseen
    }
}

impl Tells for Answer {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl Default for Shared<Answer> {
    /// The initial, shared value for requests without a response.
    fn default() -> Self {
        static NONE: LazyLock<Shared<Answer>> = LazyLock::new(|| Answer::default().into());
        NONE.clone()
    }
}
