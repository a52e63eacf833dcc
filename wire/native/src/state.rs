//! A checkpoint's numbers and texts as bytes.

use crate::records::Span;
use crate::ring::Mark;
use crate::u64_at;

/// More open spans than a thread can have.
const CARRIED_MAX: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn words(&mut self, words: &[u64]) {
        self.number(words.len() as u64);
        words.iter().for_each(|word| self.number(*word));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn span(&mut self, span: &Span) {
        let bits = u64::from(span.site)
            | u64::from(span.kind) << 16
            | u64::from(span.status) << 24
            | u64::from(span.trace_flags) << 32
            | u64::from(span.remote_parent) << 40
            | u64::from(span.open) << 41;
        let trace = [(span.trace_id >> 64) as u64, span.trace_id as u64];
        let rest = [span.span_id, span.parent_id, bits, span.start_ns, span.end_ns];
        trace.into_iter().chain(rest).for_each(|word| self.number(word));
    }

    pub(crate) fn mark(&mut self, mark: &Mark) {
        let (depth, start) = mark.last_span.unwrap_or((u64::MAX, 0));
        for word in [
            mark.next,
            mark.at,
            mark.base,
            mark.expected_spans,
            u64::from(mark.started),
            depth,
            start,
            mark.carried.len() as u64,
        ] {
            self.number(word);
        }
        mark.carried.iter().for_each(|words| self.words(words));
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_at_checked(8)?;
        self.0 = rest;
        Some(u64_at(first, 0))
    }

    pub(crate) fn words(&mut self) -> Option<Vec<u64>> {
        let count = usize::try_from(self.number()?).ok()?;
        let (words, rest) = self.0.split_at_checked(count.checked_mul(8)?)?;
        self.0 = rest;
        Some(words.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let count = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    pub(crate) fn span(&mut self) -> Option<Span> {
        let mut words = [0; 7];
        for word in &mut words {
            *word = self.number()?;
        }
        let [high, low, span_id, parent_id, bits, start_ns, end_ns] = words;
        Some(Span {
            trace_id: u128::from(high) << 64 | u128::from(low),
            span_id,
            parent_id,
            site: bits as u16,
            kind: (bits >> 16) as u8,
            status: (bits >> 24) as u8,
            trace_flags: (bits >> 32) as u8,
            remote_parent: bits >> 40 & 1 != 0,
            open: bits >> 41 & 1 != 0,
            start_ns,
            end_ns,
            extras: (0, 0),
        })
    }

    pub(crate) fn mark(&mut self) -> Option<Mark> {
        let mut words = [0; 8];
        for word in &mut words {
            *word = self.number()?;
        }
        let [next, at, base, expected_spans, started, depth, start, carried] = words;
        if carried > CARRIED_MAX {
            return None;
        }
        Some(Mark {
            next,
            at,
            base,
            expected_spans,
            started: started != 0,
            last_span: (depth != u64::MAX).then_some((depth, start)),
            carried: (0..carried).map(|_| self.words()).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let span = Span {
            trace_id: 1 << 100 | 7,
            span_id: 2,
            parent_id: 3,
            site: 4,
            kind: 5,
            status: 2,
            trace_flags: 1,
            remote_parent: true,
            open: true,
            start_ns: 8,
            end_ns: 9,
            extras: (0, 0),
        };
        let mark = Mark {
            next: 1,
            at: 2,
            base: 3,
            expected_spans: 4,
            started: true,
            last_span: Some((6, 7)),
            carried: vec![vec![1, 2], Vec::new()],
        };
        let mut writer = Writer::default();
        writer.span(&span);
        writer.mark(&mark);
        writer.text("a name");
        let bytes = writer.bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.span(), Some(span));
        assert_eq!(reader.mark(), Some(mark));
        assert_eq!(reader.text().as_deref(), Some("a name"));
        assert_eq!(reader.number(), None);
    }
}
