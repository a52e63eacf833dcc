//! Parses ids as people find them: in log lines, headers and other tools.

use crate::{SpanId, TraceId};

/// What an id refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenId {
    /// A trace, by a 128-bit id.
    Trace(TraceId),
    /// A trace by a 64-bit id, as Zipkin's and older tracers generate them, with leading zeros; or
    /// a span.
    TraceOrSpan(TraceId, SpanId),
}

impl WrittenId {
    /// The accepted forms, for error messages.
    pub const FORMS: &'static str = "a trace id (32 hexadecimal digits, or 16 of one of 64 bits) \
                                     or a span id (16)";

    /// Parses an id in any common form: digits of either case, with quotes, white space or `0x`
    /// around; without leading zeros, as Jaeger writes it; with hyphens, as UUIDs and AWS X-Ray
    /// have them; or inside a `traceparent`, `b3` or `uber-trace-id` header. `None` if the text is
    /// no id.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let parts: Vec<&str> = text.splitn(6, ['-', ':']).collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let digits = match lengths.as_slice() {
            [_] => text.to_owned(),
            // traceparent: version, trace, span, flags.
            [2, 32, 16, 2] => parts[1].to_owned(),
            // X-Ray: version, time, random.
            [1, 8, 24] if parts[0] == "1" => parts[1..].concat(),
            [8, 4, 4, 4, 12] => parts.concat(),
            // b3: trace, span, and optionally the sampling state and the parent; Jaeger's header:
            // trace, span, parent, flags.
            [1..=32, 1..=16, ..] if parts.len() <= 4 => parts[0].to_owned(),
            _ => return None,
        };
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hexadecimal || !(1..=32).contains(&digits.len()) {
            return None;
        }
        let trace: TraceId = format!("{digits:0>32}").parse().ok()?;
        let is_short = digits.len() <= 16 && parts.len() == 1;
        match SpanId::from_bytes(&trace.0[8..]).filter(|_| is_short) {
            Some(span) => Some(Self::TraceOrSpan(trace, span)),
            None => Some(Self::Trace(trace)),
        }
    }

    /// The trace id, if it is one.
    pub const fn trace(self) -> TraceId {
        match self {
            Self::Trace(trace) | Self::TraceOrSpan(trace, _) => trace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_found() {
        let whole = "4bf92f3577b34da6a3ce929d0e0e4736";
        for text in [
            whole,
            " 4BF92F3577B34DA6A3CE929D0E0E4736\n",
            "\"4bf92f3577b34da6a3ce929d0e0e4736\",",
            "0x4bf92f3577b34da6a3ce929d0e0e4736",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "4bf92f35-77b3-4da6-a3ce-929d0e0e4736",
            "1-4bf92f35-77b34da6a3ce929d0e0e4736",
            "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "4bf92f3577b34da6a3ce929d0e0e4736:00f067aa0ba902b7:0:1",
        ] {
            let read = WrittenId::read(text);
            assert_eq!(read, Some(WrittenId::Trace(whole.parse().unwrap())), "{text}");
        }
        let short = WrittenId::read("a7890b687652000e").unwrap();
        assert_eq!(short.trace().to_string(), "0000000000000000a7890b687652000e");
        assert_eq!(
            short,
            WrittenId::TraceOrSpan(short.trace(), "a7890b687652000e".parse().unwrap())
        );
        assert_eq!(WrittenId::read("'0xA7890B687652000E'"), Some(short));
        // Without leading zeros.
        let cut = WrittenId::read("8efff798038103d269b633813fc7aa").unwrap();
        assert_eq!(cut.trace().to_string(), "008efff798038103d269b633813fc7aa");
        let cut = WrittenId::read("b7").unwrap();
        assert_eq!(cut, WrittenId::TraceOrSpan(cut.trace(), SpanId::from_u64(0xb7).unwrap()));
    }

    #[test]
    fn what_is_no_id_is_not_taken_for_one() {
        let long = "1".repeat(33);
        for text in ["", "xyz", "0", &"0".repeat(32), &long, "a b", "1-2-3-4-5-6-7", "é", "--"] {
            assert_eq!(WrittenId::read(text), None, "{text}");
        }
    }
}
