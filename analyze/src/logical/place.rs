//! Where a business key is found in a span's attributes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use spanwise_model::AttributeValue;

use super::body;

/// The longest key in bytes. Longer texts are no keys.
pub const LONGEST_KEY: usize = 256;

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
            "header" => Ok(Self::Header(name.to_ascii_lowercase())),
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

type Attribute = (String, AttributeValue);

impl Place {
    /// The key in these attributes of a span.
    pub fn find<'a>(&self, attributes: &'a [Attribute]) -> Option<Cow<'a, str>> {
        let found = match self {
            Self::Header(name) => header(attributes, name),
            Self::Query(name) => query(attributes).and_then(|query| parameter(query, name)),
            Self::Path(places) => path(attributes).and_then(|path| of_path(path, places)),
            Self::Body(fields) => {
                let names =
                    ["http.request.body", "http.request.body.content", "messaging.message.body"];
                let bodies = names.iter().filter_map(|name| text(attributes, name));
                bodies
                    .into_iter()
                    .find_map(|body| body::field(body.as_bytes(), fields))
                    .map(Cow::Owned)
            }
            Self::Baggage(name) => text_with(attributes, "baggage.", name)
                .or_else(|| baggage(&header(attributes, "baggage")?, name)),
            Self::Attribute(name) => any_text(attributes, name),
            Self::MessageKey => {
                ["messaging.kafka.message.key", "messaging.message.conversation_id"]
                    .iter()
                    .find_map(|name| any_text(attributes, name))
            }
        };
        found.and_then(trimmed)
    }
}

/// The key without spaces around it, if it can be one.
fn trimmed(key: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let length = key.trim().len();
    if length == 0 || length > LONGEST_KEY {
        None
    } else if length == key.len() {
        Some(key)
    } else {
        Some(Cow::Owned(key.trim().to_owned()))
    }
}

fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a AttributeValue> {
    attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn text<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    find(attributes, name)?.as_str()
}

fn any_text<'a>(attributes: &'a [Attribute], name: &str) -> Option<Cow<'a, str>> {
    as_text(find(attributes, name)?)
}

fn as_text(value: &AttributeValue) -> Option<Cow<'_, str>> {
    match value {
        AttributeValue::String(text) => Some(Cow::Borrowed(text)),
        AttributeValue::Int(number) => Some(Cow::Owned(number.to_string())),
        // A header is an array of values.
        AttributeValue::Json(json) => body::first(json.as_bytes()).map(Cow::Owned),
        AttributeValue::Double(_) | AttributeValue::Bool(_) | AttributeValue::Bytes(_) => None,
    }
}

/// The attribute with this name after a prefix.
fn text_with<'a>(attributes: &'a [Attribute], prefix: &str, name: &str) -> Option<Cow<'a, str>> {
    let is =
        |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest.eq_ignore_ascii_case(name));
    attributes.iter().find(|(key, _)| is(key)).and_then(|(_, value)| as_text(value))
}

fn header<'a>(attributes: &'a [Attribute], name: &str) -> Option<Cow<'a, str>> {
    let with = |prefix, name: &str| text_with(attributes, prefix, name);
    with("http.request.header.", name)
        // An older form.
        .or_else(|| with("http.request.header.", &name.replace('-', "_")))
        .or_else(|| with("rpc.grpc.request.metadata.", name))
}

/// A path with its query, and where the path begins in it.
fn target(attributes: &[Attribute]) -> Option<&str> {
    text(attributes, "http.target").or_else(|| {
        let url = text(attributes, "url.full").or_else(|| text(attributes, "http.url"))?;
        let after = url.split_once("://").map_or(url, |(_, after)| after);
        after.find(['/', '?']).map(|start| &after[start..])
    })
}

fn query(attributes: &[Attribute]) -> Option<&str> {
    let target = || Some(target(attributes)?.split_once('?')?.1);
    let query = text(attributes, "url.query").or_else(target)?;
    query.trim_start_matches('?').split('#').next()
}

fn path(attributes: &[Attribute]) -> Option<&str> {
    let target = || target(attributes)?.split(['?', '#']).next();
    text(attributes, "url.path").or_else(target)
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (decoded(key, true)? == name).then(|| decoded(value, true))?
    })
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn of_path<'a>(path: &'a str, places: &[Option<String>]) -> Option<Cow<'a, str>> {
    let mut key = None;
    let mut segments = segments(path);
    for place in places {
        let segment = segments.next()?;
        match place.as_deref() {
            None => key = decoded(segment, false),
            Some("*") => {}
            Some(wanted) if wanted == segment => {}
            Some(_) => return None,
        }
    }
    key
}

fn baggage(header: &str, name: &str) -> Option<Cow<'static, str>> {
    header.split(',').find_map(|entry| {
        let (key, value) = entry.split(';').next()?.split_once('=')?;
        (key.trim() == name)
            .then(|| Some(Cow::Owned(decoded(value.trim(), false)?.into_owned())))?
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
