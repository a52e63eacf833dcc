//! What requests and answers say, whatever protocol they are of.

use std::borrow::Cow;
use std::sync::LazyLock;

use spanwise_model::{AttributeValue, Kind, RowWriter};

use super::attributes::{Attributes, attributes_bytes};
use super::shared::{Shared, Tells};
use crate::redaction::{Hidden, prose};
use crate::trace_headers::TraceHeaders;

/// What a protocol must remember of a request to understand its response.
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
    /// Memcached's commands of which only the last is surely answered.
    Batch,
}

/// What passes between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The asking side calls the answering one.
    Call,
    /// The asking side hands over a message.
    Publish,
    /// The answering side hands over a message, unasked: the asking side is the
    /// one that serves it.
    Deliver,
}

impl Manner {
    /// The span's kind (OpenTelemetry semantic conventions for messaging: a
    /// broker's own spans are those of a server and of a client).
    pub const fn kind(self, serving: bool) -> Kind {
        match (self, serving) {
            (Self::Publish, false) => Kind::Producer,
            (Self::Deliver, true) => Kind::Consumer,
            (_, true) => Kind::Server,
            (_, false) => Kind::Client,
        }
    }
}

/// What several requests say alike, whatever else they say.
#[derive(Debug, Clone)]
pub struct Alike(pub Attributes);

impl Tells for Alike {
    fn attributes(&self) -> &Attributes {
        &self.0
    }
}

/// What a request says.
#[derive(Debug, Clone)]
pub struct Request {
    /// The span's name.
    pub operation: String,
    /// The span's attributes.
    pub attributes: Attributes,
    /// Further ones, which others have, too.
    pub alike: Option<Shared<Alike>>,
    /// Trace headers.
    pub headers: TraceHeaders,
    /// For the protocol's own use.
    pub tag: Tag,
    /// What pairs it with its response, where responses may come in another
    /// order: the protocol's own number.
    pub stream: u64,
    /// What passes.
    pub manner: Manner,
    /// Makes a span only if it fails.
    pub silent: bool,
    /// What it asks for was said before the agent saw the connection, or in what it did not see:
    /// the operation is only what is known of it.
    pub unnamed: bool,
}

impl Request {
    /// A request with this operation and nothing more known.
    pub fn new(operation: impl Into<String>) -> Self {
        Self {
            operation: operation.into(),
            attributes: Attributes::new(),
            alike: None,
            headers: TraceHeaders::default(),
            tag: Tag::Plain,
            stream: 0,
            manner: Manner::Call,
            silent: false,
            unnamed: false,
        }
    }

    /// Bytes of text that it holds, some of them with others.
    pub fn held_bytes(&self) -> usize {
        let alike = self.alike.as_ref().map_or(0, |alike| attributes_bytes(&alike.0));
        let own = self.operation.len() + attributes_bytes(&self.attributes);
        own + alike + self.headers.held_bytes()
    }

    /// All of the span's attributes.
    pub fn all_attributes(&self) -> impl Iterator<Item = &(&'static str, AttributeValue)> {
        let alike = self.alike.as_ref().map_or(&[][..], |alike| &alike.0);
        self.attributes.iter().chain(alike)
    }

    /// Writes its attributes to a span.
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
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure whose kind says it all.
    pub fn plain(kind: &str) -> Self {
        Self { kind: kind.to_owned(), message: kind.to_owned() }
    }

    /// The same without its secrets and what the operator wants left out; `None` where it
    /// stays as it is.
    pub(super) fn shown(&self, hide: Hidden) -> Option<Self> {
        let kind = prose(&self.kind);
        let message = if hide.errors { kind.clone() } else { prose(&self.message) };
        let same = matches!(kind, Cow::Borrowed(_)) && message == self.message;
        (!same).then(|| Self { kind: kind.into_owned(), message: message.into_owned() })
    }
}

/// What a response says.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The protocol's own number.
    pub status_code: Option<i32>,
    /// Set where it says that the request failed.
    pub failure: Option<Failure>,
    /// The span's further attributes.
    pub attributes: Attributes,
    /// X-Request-ID of the response.
    pub request_id: Option<String>,
    /// It was not seen, or is not known to be this request's.
    pub unseen: bool,
}

impl Answer {
    /// Bytes of text that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        attributes_bytes(&self.attributes)
    }

    /// Whether nothing is known of it.
    pub fn says_nothing(&self) -> bool {
        let Self { status_code, failure, attributes, request_id, unseen } = self;
        status_code.is_none()
            && failure.is_none()
            && attributes.is_empty()
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
    /// That of all requests until they get one.
    fn default() -> Self {
        static NONE: LazyLock<Shared<Answer>> = LazyLock::new(|| Answer::default().into());
        NONE.clone()
    }
}
