//! Spans that any thread may end: their records are in several rings, which are read one after the
//! other. So an end may be read before what came before it.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::recording::Piece;
use crate::records::{Detached, Span};
use crate::state::{Reader, Writer};

/// Ids of ended spans that are remembered, so that late records make no second span.
const ENDED_MAX: usize = 1 << 16;
/// Spans of a followed process that are held until they end.
const HELD_MAX: usize = 1 << 17;
/// Words of their attributes.
const HELD_MAX_WORDS: usize = 1 << 22;

#[derive(Debug, Default)]
pub(crate) struct Held {
    begin: Option<Span>,
    end: Option<Span>,
    extras: Vec<u64>,
    /// The round in which its end was read.
    round: u64,
}

/// The detached spans of a process.
#[derive(Debug, Default)]
pub(crate) struct DetachedSpans {
    held: HashMap<u64, Held>,
    words: usize,
    ended: HashSet<u64>,
    ended_order: VecDeque<u64>,
    round: u64,
    bounded: bool,
    /// Attributes that came after their span's end had been given out, or of no span that is known.
    pub(crate) late_extras: u64,
    /// Begins and attributes beyond the bounds.
    pub(crate) beyond_bounds: u64,
}

impl DetachedSpans {
    /// For a recording, all of which is read before anything is given out.
    pub(crate) fn unbounded() -> Self {
        Self::default()
    }

    /// For a process that is followed.
    pub(crate) fn bounded() -> Self {
        Self { bounded: true, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn add(&mut self, record: Detached) {
        let full = self.bounded && self.held.len() >= HELD_MAX;
        match record {
            Detached::Span(span) if self.ended.contains(&span.span_id) => {}
            Detached::Span(span) if span.open => {
                if full && !self.held.contains_key(&span.span_id) {
                    self.beyond_bounds += 1;
                } else {
                    self.held.entry(span.span_id).or_default().begin = Some(span);
                }
            }
            // An end says all that its begin said, so it is never too much.
            Detached::Span(span) => {
                let held = self.held.entry(span.span_id).or_default();
                (held.end, held.round) = (Some(span), self.round);
            }
            Detached::Attributes(id, _) if self.ended.contains(&id) => self.late_extras += 1,
            Detached::Attributes(id, words) => {
                let known = self.held.contains_key(&id);
                if self.bounded && (self.words + words.len() > HELD_MAX_WORDS || (full && !known)) {
                    self.beyond_bounds += 1;
                    return;
                }
                self.words += words.len();
                self.held.entry(id).or_default().extras.extend(words);
            }
        }
    }

    /// All rings have been read up to where they were when the round began.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Spans that ended before the last round: whatever was written before their end is here.
    pub(crate) fn settled(&mut self, process: usize) -> Option<Piece> {
        let before = self.round.saturating_sub(1);
        let is = |held: &Held| held.end.is_some() && held.round < before;
        self.held.values().any(is).then(|| self.piece(process, is))
    }

    /// Those of the spans that `take` names.
    pub(crate) fn piece(&mut self, process: usize, take: impl Fn(&Held) -> bool) -> Piece {
        let mut piece = Piece { process, ..Piece::default() };
        let mut found: Vec<(u64, Held)> = self.held.extract_if(|_, held| take(held)).collect();
        let key = |held: &Held| held.end.or(held.begin).map(|span| (span.end_ns, span.span_id));
        found.sort_by_key(|(_, held)| key(held));
        for (id, held) in found {
            self.words -= held.extras.len();
            let Some(mut row) = held.end.or(held.begin) else {
                self.late_extras += 1;
                continue;
            };
            self.remember(id);
            let from = piece.extras.len() as u32;
            piece.extras.extend(held.extras);
            row.extras = (from, piece.extras.len() as u32);
            piece.spans.push(row);
        }
        piece
    }

    fn remember(&mut self, id: u64) {
        if self.ended.insert(id) {
            self.ended_order.push_back(id);
        }
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// For a checkpoint.
    pub(crate) fn write(&self, to: &mut Writer) {
        let mut ids: Vec<&u64> = self.held.keys().collect();
        ids.sort();
        to.number(ids.len() as u64);
        for id in ids {
            let held = &self.held[id];
            to.number(*id);
            for span in [held.begin, held.end] {
                to.number(u64::from(span.is_some()));
                if let Some(span) = span {
                    to.span(&span);
                }
            }
            to.words(&held.extras);
        }
        // Those that ended of late are enough: only records that were being written come late.
        let late = self.ended_order.len().saturating_sub(1024);
        let late: Vec<u64> = self.ended_order.iter().skip(late).copied().collect();
        to.words(&late);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut spans = Self::bounded();
        for _ in 0..from.number()? {
            let id = from.number()?;
            let begin = if from.number()? != 0 { Some(from.span()?) } else { None };
            let end = if from.number()? != 0 { Some(from.span()?) } else { None };
            let extras = from.words()?;
            spans.words += extras.len();
            spans.held.insert(id, Held { begin, end, extras, round: 0 });
        }
        for id in from.words()? {
            spans.remember(id);
        }
        Some(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u64, open: bool) -> Detached {
        Detached::Span(Span { span_id: id, open, ..Span::default() })
    }

    #[test]
    fn what_is_read_after_an_end_attaches_or_is_counted_and_makes_no_second_span() {
        let mut spans = DetachedSpans::bounded();
        spans.add(span(7, false));
        spans.next_round();
        assert!(spans.settled(0).is_none(), "another thread's records may still be unread");
        spans.add(Detached::Attributes(7, vec![1, 2]));
        spans.add(span(7, true));
        spans.next_round();
        let piece = spans.settled(0).expect("a span");
        assert_eq!(
            (piece.spans.len(), piece.spans[0].open, &piece.extras[..]),
            (1, false, &[1, 2][..])
        );
        spans.add(span(7, true));
        spans.add(Detached::Attributes(7, vec![3]));
        assert_eq!((spans.is_empty(), spans.late_extras), (true, 1));
    }

    #[test]
    fn a_checkpoint_holds_what_is_held() {
        let mut spans = DetachedSpans::bounded();
        spans.add(span(1, true));
        spans.add(Detached::Attributes(1, vec![5, 6]));
        spans.add(span(2, false));
        spans.next_round();
        spans.next_round();
        assert_eq!(spans.settled(0).expect("a span").spans.len(), 1);
        let mut writer = Writer::default();
        spans.write(&mut writer);
        let bytes = writer.bytes();
        let mut again = DetachedSpans::read(&mut Reader::new(&bytes)).expect("whole");
        again.add(span(2, true));
        let piece = again.piece(0, |_| true);
        assert_eq!((piece.spans.len(), piece.spans[0].span_id, piece.extras.len()), (1, 1, 2));
        assert!(DetachedSpans::read(&mut Reader::new(&bytes[..bytes.len() - 1])).is_none());
    }
}
