//! Where a business key is found.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::body;
use crate::carrier::Carrier;

/// The longest key in bytes. Longer texts are no keys.
pub const LONGEST_KEY: usize = 256;
/// The longest name of a header in bytes.
const LONGEST_HEADER: usize = 64;
/// What agents write instead of a secret. It is no key.
const REDACTED: &str = "REDACTED";

/// A place that can hold a key.
///
/// `header:x-order-id`, `query:order`, `path:/orders/{key}`, `body:order.id`, `baggage:order.id`,
/// `attribute:app.order.id` or `message-key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A request header, in lower case.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A segment of the path. `None` is the key; a star is any segment.
    Path(Vec<Option<String>>),
    /// A field of a JSON body, by the names down to it.
    Body(Vec<String>),
    /// A baggage entry.
    Baggage(String),
    /// A span attribute.
    Attribute(String),
    /// The key of a message.
    MessageKey,
}

/// Why a text is no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceError(String);

impl fmt::Display for PlaceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} is no place of a key; write header:NAME, query:NAME, path:/orders/{{key}}, \
             body:FIELD.FIELD, baggage:NAME, attribute:NAME or message-key",
            self.0
        )
    }
}

impl std::error::Error for PlaceError {}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = || PlaceError(text.to_owned());
        if text == "message-key" {
            return Ok(Self::MessageKey);
        }
        let (form, name) = text.split_once(':').ok_or_else(wrong)?;
        if name.is_empty() {
            return Err(wrong());
        }
        match form {
            "header" if name.len() <= LONGEST_HEADER => Ok(Self::Header(name.to_ascii_lowercase())),
            "query" => Ok(Self::Query(name.to_owned())),
            "baggage" => Ok(Self::Baggage(name.to_owned())),
            "attribute" => Ok(Self::Attribute(name.to_owned())),
            "body" if name.split('.').all(|field| !field.is_empty()) => {
                Ok(Self::Body(name.split('.').map(str::to_owned).collect()))
            }
            "path" => {
                let segments: Vec<Option<String>> = segments(name)
                    .map(|segment| (segment != "{key}").then(|| segment.to_owned()))
                    .collect();
                let keys = segments.iter().filter(|segment| segment.is_none()).count();
                if keys == 1 { Ok(Self::Path(segments)) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(out, "header:{name}"),
            Self::Query(name) => write!(out, "query:{name}"),
            Self::Path(segments) => {
                out.write_str("path:")?;
                segments.iter().try_for_each(|segment| {
                    write!(out, "/{}", segment.as_deref().unwrap_or("{key}"))
                })
            }
            Self::Body(fields) => write!(out, "body:{}", fields.join(".")),
            Self::Baggage(name) => write!(out, "baggage:{name}"),
            Self::Attribute(name) => write!(out, "attribute:{name}"),
            Self::MessageKey => out.write_str("message-key"),
        }
    }
}

/// A key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    /// The key.
    pub text: String,
    /// How it was written, if that differs.
    pub written: Option<String>,
}

impl FoundKey {
    fn of(text: Cow<'_, str>) -> Option<Self> {
        let text = trimmed(text)?.into_owned();
        Some(Self { text, written: None })
    }

    /// A key that was percent-encoded.
    fn encoded(written: &str, plus_is_space: bool) -> Option<Self> {
        let found = Self::of(decoded(written, plus_is_space)?)?;
        let written = (found.text != written).then(|| written.to_owned());
        Some(Self { written, ..found })
    }
}

impl Place {
    /// Whether this is a body, which comes after all else and costs most.
    pub(crate) const fn is_body(&self) -> bool {
        matches!(self, Self::Body(_))
    }

    /// The key in this.
    pub fn find(&self, carrier: &dyn Carrier) -> Option<FoundKey> {
        match self {
            Self::Header(name) => FoundKey::of(carrier.header(name)?),
            Self::Query(name) => FoundKey::encoded(parameter(carrier.query()?, name)?, true),
            Self::Path(places) => FoundKey::encoded(of_path(carrier.path()?, places)?, false),
            Self::Body(fields) => {
                let mut bodies = carrier.bodies().into_iter();
                FoundKey::of(bodies.find_map(|body| body::field(body, fields))?.into())
            }
            Self::Baggage(name) => match carrier.baggage(name) {
                Some(entry) => FoundKey::of(entry),
                None => FoundKey::encoded(baggage(&carrier.header("baggage")?, name)?, false),
            },
            Self::Attribute(name) => FoundKey::of(carrier.attribute(name)?),
            Self::MessageKey => FoundKey::of(carrier.message_key()?),
        }
    }
}

/// The key without spaces around it, if it can be one.
fn trimmed(key: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let length = key.trim().len();
    if length == 0 || length > LONGEST_KEY || key.contains(REDACTED) {
        None
    } else if length == key.len() {
        Some(key)
    } else {
        Some(Cow::Owned(key.trim().to_owned()))
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (decoded(key, true)? == name).then_some(value)
    })
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn of_path<'a>(path: &'a str, places: &[Option<String>]) -> Option<&'a str> {
    let mut key = None;
    let mut segments = segments(path);
    for place in places {
        let segment = segments.next()?;
        match place.as_deref() {
            None => key = Some(segment),
            Some("*") => {}
            Some(wanted) if wanted == segment => {}
            Some(_) => return None,
        }
    }
    key
}

fn baggage<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header.split(',').find_map(|entry| {
        let (key, value) = entry.split(';').next()?.split_once('=')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Without percent encoding; `None` if it is no UTF-8.
fn decoded(text: &str, plus_is_space: bool) -> Option<Cow<'_, str>> {
    let has_plus = plus_is_space && text.contains('+');
    if !has_plus && !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (*byte, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            (b'+', ..) if plus_is_space => bytes.push(b' '),
            (byte, ..) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
