//! Trace headers: W3C Trace Context, B3 (single and multiple headers) and X-Request-ID. They are
//! read but never written.

use spanwise_model::{SpanId, TraceId};

use crate::bytes::text;
use crate::redaction;

const MAX_STATE_BYTES: usize = 512;
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Trace headers of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceHeaders {
    w3c: Option<(TraceId, SpanId)>,
    b3: Option<(TraceId, SpanId)>,
    b3_trace: Option<TraceId>,
    b3_span: Option<SpanId>,
    state: Option<String>,
    /// Value of X-Request-ID.
    pub request_id: Option<String>,
}

impl TraceHeaders {
    /// Records a header if it is a trace header. `name` is case-insensitive.
    pub fn header(&mut self, name: &[u8], value: &[u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("traceparent") {
            self.w3c = traceparent(value);
        } else if is("tracestate") {
            let state = redaction::identifier(text(value, MAX_STATE_BYTES));
            self.state = Some(state).filter(|state| !state.is_empty());
        } else if is("b3") {
            self.b3 = b3_single(value);
        } else if is("x-b3-traceid") {
            self.b3_trace = b3_trace_id(value);
        } else if is("x-b3-spanid") {
            self.b3_span = span_id(value);
        } else if is("x-request-id") {
            let id = redaction::identifier(text(value, MAX_REQUEST_ID_BYTES));
            self.request_id = Some(id).filter(|id| !id.is_empty());
        }
    }

    /// The trace id, and the id of the span that sent the request. W3C takes precedence over B3.
    pub fn parent(&self) -> Option<(TraceId, SpanId)> {
        self.w3c.or(self.b3).or_else(|| Some((self.b3_trace?, self.b3_span?)))
    }

    /// The `tracestate` value; it is only valid together with `traceparent`.
    pub fn trace_state(&self) -> Option<&str> {
        self.w3c.and(self.state.as_deref())
    }

    /// Number of text bytes held.
    pub fn held_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, String::len) + self.request_id.as_ref().map_or(0, String::len)
    }
}

/// W3C Trace Context, section 3.2: `version-traceid-parentid-flags`. Versions above 00 may add
/// fields after another dash.
fn traceparent(value: &[u8]) -> Option<(TraceId, SpanId)> {
    let value = std::str::from_utf8(value).ok()?;
    let mut parts = value.split('-');
    let version = parts.next()?;
    let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let hexadecimal = |part: &str| {
        part.len() == 2 && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    if !hexadecimal(version) || version == "ff" || !hexadecimal(flags) {
        return None;
    }
    if version == "00" && parts.next().is_some() {
        return None;
    }
    Some((trace.parse().ok()?, span.parse().ok()?))
}

/// B3 single header: `traceid-spanid[-sampled[-parentspanid]]`. A sampling state alone names no
/// span.
fn b3_single(value: &[u8]) -> Option<(TraceId, SpanId)> {
    let mut parts = value.split(|byte| *byte == b'-');
    Some((b3_trace_id(parts.next()?)?, span_id(parts.next()?)?))
}

/// B3 trace ids have 128 or 64 bits.
fn b3_trace_id(value: &[u8]) -> Option<TraceId> {
    let value = std::str::from_utf8(value).ok()?;
    match value.len() {
        32 => value.parse().ok(),
        16 => format!("{value:0>32}").parse().ok(),
        _ => None,
    }
}

fn span_id(value: &[u8]) -> Option<SpanId> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent_of(headers: &[(&str, &str)]) -> Option<String> {
        let mut found = TraceHeaders::default();
        for (name, value) in headers {
            found.header(name.as_bytes(), value.as_bytes());
        }
        found.parent().map(|(trace, span)| format!("{trace}/{span}"))
    }

    #[test]
    fn each_form_names_trace_and_parent() {
        let expected = Some(format!("{TRACE}/{SPAN}"));
        let w3c = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(parent_of(&[("TraceParent", &w3c)]), expected);
        let future = format!("01-{TRACE}-{SPAN}-01-more");
        assert_eq!(parent_of(&[("traceparent", &future)]), expected);
        assert_eq!(parent_of(&[("b3", &format!("{TRACE}-{SPAN}-1"))]), expected);
        assert_eq!(parent_of(&[("X-B3-TraceId", TRACE), ("X-B3-SpanId", SPAN)]), expected);
    }

    #[test]
    fn short_b3_trace_ids_are_filled_with_zeros() {
        let found = parent_of(&[("b3", "a3ce929d0e0e4736-00f067aa0ba902b7")]);
        assert_eq!(found.unwrap(), format!("0000000000000000a3ce929d0e0e4736/{SPAN}"));
    }

    #[test]
    fn malformed_headers_name_nothing() {
        let zero = "0".repeat(32);
        for value in [
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{zero}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-"),
            "00-é-é-01".to_owned(),
            String::new(),
        ] {
            assert_eq!(parent_of(&[("traceparent", &value)]), None, "{value}");
        }
        assert_eq!(parent_of(&[("b3", "0")]), None);
        assert_eq!(parent_of(&[("X-B3-TraceId", TRACE)]), None);
    }

    #[test]
    fn w3c_goes_before_b3() {
        let w3c = format!("00-{TRACE}-{SPAN}-01");
        let found =
            parent_of(&[("b3", "1111111111111111-2222222222222222"), ("traceparent", &w3c)]);
        assert_eq!(found, Some(format!("{TRACE}/{SPAN}")));
    }
}
