//! Names of header fields: those that a span shows, and the static table of HPACK
//! (RFC 7541, appendix A).

/// A field that a span shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    Host,
    ContentType,
    ContentLength,
    UserAgent,
    GrpcStatus,
    GrpcMessage,
    GrpcTimeout,
    /// A trace header: this name, in [`TRACE_HEADERS`].
    Trace(usize),
    /// A header that may hold a key: this one of those that are wanted.
    Key(usize),
    /// The name refers to what was not seen; the value is a short number.
    Unnamed,
    /// All of the field refers to what was not seen.
    Unseen,
}

const NAMES: [(&str, Name); 12] = [
    (":method", Name::Method),
    (":scheme", Name::Scheme),
    (":authority", Name::Authority),
    (":path", Name::Path),
    (":status", Name::Status),
    ("host", Name::Host),
    ("content-type", Name::ContentType),
    ("content-length", Name::ContentLength),
    ("user-agent", Name::UserAgent),
    ("grpc-status", Name::GrpcStatus),
    ("grpc-message", Name::GrpcMessage),
    ("grpc-timeout", Name::GrpcTimeout),
];

/// Names of the fields that name traces.
pub(super) const TRACE_HEADERS: [&str; 6] =
    ["traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-request-id"];

/// RFC 7541, appendix A.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// A name, as a number by which it is told from others; 0 is none. Names are of a few words.
pub(super) const fn number_of(name: &[u8]) -> u32 {
    // FNV-1a.
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    while at < name.len() {
        hash = (hash ^ name[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    if hash == 0 { 1 } else { hash }
}

/// The numbers of the names in the static table.
pub(super) const STATIC_NUMBERS: [u32; STATIC.len()] = {
    let mut numbers = [0; STATIC.len()];
    let mut at = 0;
    while at < STATIC.len() {
        numbers[at] = number_of(STATIC[at].0.as_bytes());
        at += 1;
    }
    numbers
};

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Known(Name),
    /// Known, and of no interest.
    Other,
    /// It refers to what was not seen.
    Unknown,
}

impl Named {
    /// What a name is. `wanted` are headers that may hold a key.
    pub(super) fn of(name: &[u8], wanted: &[String]) -> Self {
        if let Some((_, known)) = NAMES.iter().find(|(text, _)| text.as_bytes() == name) {
            return Self::Known(*known);
        }
        let trace = TRACE_HEADERS.iter().position(|text| text.as_bytes() == name);
        if let Some(at) = trace {
            return Self::Known(Name::Trace(at));
        }
        let key = wanted.iter().position(|text| text.as_bytes() == name);
        key.map_or(Self::Other, |at| Self::Known(Name::Key(at)))
    }
}
