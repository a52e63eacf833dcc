//! Ids and parents of spans, given the spans that are open at the end of their block.

use super::blocks::{Item, Open};
use super::{DEPTH_MAX, Decoded, REMOTE, Ring};
use crate::process::Process;
use crate::records::{LogRecord, Span};
use crate::{u32_at, u64_at};

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Ring {
    /// The spans that are open in the ring's head.
    pub(super) fn slots(&self) -> Vec<Open> {
        let depth = (u32_at(&self.header, 136) as usize).min(DEPTH_MAX);
        let mut slots: Vec<Open> = (0..depth)
            .map(|n| {
                let at = 4096 + 64 * n;
                let meta = u64_at(&self.header, at + 8);
                Open {
                    start: u64_at(&self.header, at),
                    site: meta as u16,
                    status: (meta >> 16) as u8,
                    kind: (meta >> 24) as u8,
                    remote: (meta >> 32) as u8 & REMOTE != 0,
                    trace_flags: (meta >> 40) as u8,
                    trace_id: u128::from(u64_at(&self.header, at + 16)) << 64
                        | u128::from(u64_at(&self.header, at + 24)),
                    parent_id: u64_at(&self.header, at + 32),
                    ..Open::default()
                }
            })
            .collect();
        // A span between its record and its slot is in both.
        if let Some(slot) = slots.last()
            && self.last_span == Some((slots.len() - 1, slot.start))
        {
            slots.pop();
        }
        slots
    }

    /// Ids and parents of the pending block, given the spans that were open at its end.
    pub(super) fn resolve(&mut self, process: &Process, open: &[Open]) -> Option<Decoded> {
        let mut pending = self.pending.take()?;
        // The enclosing span at each depth, with its ids.
        let mut around = [None::<Open>; DEPTH_MAX];
        for (depth, span) in open.iter().enumerate() {
            let above = if depth > 0 { around[depth - 1] } else { None };
            around[depth] = Some(self.identify(*span, above.as_ref()));
        }
        let mut decoded = Decoded {
            spans: Vec::with_capacity(pending.items.len()),
            metrics: std::mem::take(&mut pending.metrics),
            detached: std::mem::take(&mut pending.detached),
            ..Decoded::default()
        };
        for item in pending.items.iter_mut().rev() {
            match item {
                Item::Span(ended) => {
                    let depth = usize::from(ended.depth);
                    let above = if depth > 0 { around[depth - 1] } else { None };
                    let span = self.identify(
                        Open {
                            start: ended.start,
                            site: ended.site,
                            remote: ended.remote,
                            trace_flags: ended.trace_flags,
                            trace_id: ended.trace_id,
                            parent_id: ended.parent_id,
                            ..Open::default()
                        },
                        above.as_ref(),
                    );
                    around[depth] = Some(span);
                    let start_ns = process.clock.unix_ns(ended.start, &mut self.hint);
                    // The wall clock may go back between two anchors.
                    let end_ns = process.clock.unix_ns(ended.end, &mut self.hint).max(start_ns);
                    decoded.spans.push(Span {
                        trace_id: span.trace_id,
                        span_id: span.span_id,
                        parent_id: span.parent_id,
                        site: ended.site,
                        kind: ended.kind,
                        status: ended.status,
                        trace_flags: span.trace_flags,
                        remote_parent: ended.remote,
                        open: false,
                        start_ns,
                        end_ns,
                        extras: ended.extras,
                    });
                }
                Item::Log { depth, severity, tick, attributes } => {
                    let span = around.get(usize::from(*depth)).copied().flatten();
                    decoded.logs.push(LogRecord {
                        time_ns: process.clock.unix_ns(*tick, &mut self.hint),
                        severity: *severity,
                        trace_id: span.map_or(0, |span| span.trace_id),
                        span_id: span.map_or(0, |span| span.span_id),
                        attributes: std::mem::take(attributes),
                    });
                }
            }
        }
        decoded.spans.reverse();
        decoded.logs.reverse();
        decoded.extras = pending.extras;
        self.counts.read += decoded.spans.len() as u64;
        Some(decoded)
    }

    fn identify(&self, mut span: Open, above: Option<&Open>) -> Open {
        span.span_id = mix(self.salt.wrapping_add(span.start)).max(1);
        if span.remote {
            return span;
        }
        // What began later is not around it: the end of its parent was lost.
        if let Some(above) = above.filter(|above| above.start <= span.start) {
            span.trace_id = above.trace_id;
            span.parent_id = above.span_id;
            span.trace_flags = above.trace_flags;
        } else {
            let high = mix(self.salt ^ 0x9e37_79b9_7f4a_7c15) | 1;
            let low = mix((!self.salt).wrapping_add(span.start));
            span.trace_id = u128::from(high) << 64 | u128::from(low);
            span.parent_id = 0;
            span.trace_flags = 1;
        }
        span
    }

    /// The last block, and the spans that were open.
    pub(crate) fn finish(&mut self, process: &Process) -> Decoded {
        let slots = self.slots();
        let last_tick = self.pending.as_ref().map_or(self.base, |pending| pending.last_tick);
        let mut decoded = self.resolve(process, &slots).unwrap_or_default();
        let mut above: Option<Open> = None;
        for (depth, slot) in slots.iter().enumerate() {
            let span = self.identify(*slot, above.as_ref());
            let extras = self.take_extras(depth, &mut decoded.extras);
            let start_ns = process.clock.unix_ns(slot.start, &mut self.hint);
            let end_ns = process.clock.unix_ns(last_tick, &mut self.hint).max(start_ns);
            decoded.spans.push(Span {
                trace_id: span.trace_id,
                span_id: span.span_id,
                parent_id: span.parent_id,
                site: slot.site,
                kind: slot.kind & 7,
                status: slot.status & 3,
                trace_flags: span.trace_flags,
                remote_parent: slot.remote,
                open: true,
                start_ns,
                end_ns,
                extras,
            });
            self.counts.open += 1;
            above = Some(span);
        }
        decoded
    }
}
