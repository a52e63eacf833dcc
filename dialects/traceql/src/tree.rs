//! The tree of a trace's spans, numbered so that relations are found by comparing numbers: a span
//! is a descendant of another if its numbers lie between the other's ([nested
//! sets](https://grafana.com/docs/tempo/latest/traceql/construct-traceql-queries/#structural)).
//!
//! A span whose parent is missing is the top of a separate tree. Spans in a cycle have no parents.

use std::collections::HashMap;

use crate::ast::{Kind, Relation};
use crate::trace::Span;

/// The numbers of each span, by its index in the trace.
pub(crate) struct Tree {
    parents: Vec<Option<u32>>,
    /// Spans with the same parent have the same number, and so do all roots.
    siblings: Vec<u32>,
    roots: Vec<bool>,
    children: Vec<u32>,
    left: Vec<u32>,
    right: Vec<u32>,
}

impl Tree {
    pub(crate) fn new(spans: &[Span]) -> Self {
        let parents = uncircled(found_parents(spans));
        let mut children = vec![0_u32; spans.len()];
        for parent in parents.iter().flatten() {
            children[*parent as usize] += 1;
        }
        let roots: Vec<bool> = spans.iter().map(|span| span.parent_id.is_none()).collect();
        let (left, right) = numbered(&parents, &children, &roots);
        let siblings = sibling_groups(spans, &parents);
        Tree { parents, siblings, roots, children, left, right }
    }

    pub(crate) fn parent(&self, span: usize) -> Option<usize> {
        self.parents[span].map(|parent| parent as usize)
    }

    pub(crate) fn child_count(&self, span: usize) -> i64 {
        i64::from(self.children[span])
    }

    pub(crate) fn left(&self, span: usize) -> i64 {
        i64::from(self.left[span])
    }

    pub(crate) fn right(&self, span: usize) -> i64 {
        i64::from(self.right[span])
    }

    /// The parent's left number; -1 for a root; 0 if the parent is missing.
    pub(crate) fn parent_number(&self, span: usize) -> i64 {
        match self.parents[span] {
            Some(parent) => self.left(parent as usize),
            None if self.roots[span] => -1,
            None => 0,
        }
    }

    /// For each span of `right`, whether a span of `left` has this relation to it: for
    /// [`Relation::Child`], whether it is a child of one of them. Both lists are ascending. Takes
    /// `n log n` time.
    pub(crate) fn related(&self, relation: Relation, left: &[u32], right: &[u32]) -> Vec<bool> {
        match relation {
            Relation::Child => right
                .iter()
                .map(|span| {
                    self.parents[*span as usize]
                        .is_some_and(|parent| left.binary_search(&parent).is_ok())
                })
                .collect(),
            Relation::Parent => {
                let mut parents: Vec<u32> =
                    left.iter().filter_map(|span| self.parents[*span as usize]).collect();
                parents.sort_unstable();
                right.iter().map(|span| parents.binary_search(span).is_ok()).collect()
            }
            Relation::Descendant => self.below(left, right),
            Relation::Ancestor => {
                let mut numbers: Vec<u32> =
                    left.iter().map(|span| self.left[*span as usize]).collect();
                numbers.sort_unstable();
                right
                    .iter()
                    .map(|span| {
                        let (from, to) = (self.left[*span as usize], self.right[*span as usize]);
                        let next = numbers.partition_point(|number| *number <= from);
                        numbers.get(next).is_some_and(|number| *number < to)
                    })
                    .collect()
            }
            Relation::Sibling => {
                let group = |span: &u32| self.siblings[*span as usize];
                let mut groups: Vec<u32> = left.iter().map(group).collect();
                groups.sort_unstable();
                right
                    .iter()
                    .map(|span| {
                        let own = group(span);
                        let from = groups.partition_point(|group| *group < own);
                        let to = groups.partition_point(|group| *group <= own);
                        to - from > usize::from(left.binary_search(span).is_ok())
                    })
                    .collect()
            }
        }
    }

    /// For each span of `right`, whether it is a descendant of a span of `left`. Intervals either
    /// contain each other or are disjoint. So a span that began before and ends after contains it.
    fn below(&self, left: &[u32], right: &[u32]) -> Vec<bool> {
        let mut above: Vec<(u32, u32)> = left
            .iter()
            .map(|span| (self.left[*span as usize], self.right[*span as usize]))
            .collect();
        above.sort_unstable();
        let mut order: Vec<usize> = (0..right.len()).collect();
        order.sort_unstable_by_key(|place| self.left[right[*place] as usize]);
        let mut below = vec![false; right.len()];
        let (mut next, mut furthest) = (0, 0);
        for place in order {
            let span = right[place] as usize;
            while let Some((_, end)) = above.get(next).filter(|(start, _)| *start < self.left[span])
            {
                furthest = furthest.max(*end);
                next += 1;
            }
            below[place] = furthest > self.right[span];
        }
        below
    }
}

/// The parent of each span. If two spans have the parent's id, the parent of a server span is the
/// client, and the parent of any other span is the server.
fn found_parents(spans: &[Span]) -> Vec<Option<u32>> {
    let mut by_id: HashMap<[u8; 8], Vec<u32>> = HashMap::with_capacity(spans.len());
    for (index, span) in spans.iter().enumerate() {
        by_id.entry(span.id).or_default().push(index as u32);
    }
    let parent = |span: &Span| match by_id.get(&span.parent_id?)?.as_slice() {
        [one] => Some(*one),
        [one, other] => {
            let wanted = if span.kind == Kind::Server { Kind::Client } else { Kind::Server };
            [*one, *other].into_iter().find(|index| spans[*index as usize].kind == wanted)
        }
        _ => None,
    };
    spans.iter().map(parent).collect()
}

/// Removes the parents of spans in cycles.
fn uncircled(mut parents: Vec<Option<u32>>) -> Vec<Option<u32>> {
    // The walk that reached each span; 0 for none.
    let mut walks = vec![0_u32; parents.len()];
    let mut circled = Vec::new();
    for start in 0..parents.len() {
        let walk = start as u32 + 1;
        let mut span = start;
        while walks[span] == 0 {
            walks[span] = walk;
            match parents[span] {
                Some(parent) => span = parent as usize,
                None => break,
            }
        }
        if walks[span] == walk && parents[span].is_some() {
            // Reached twice in one walk, so the span is in a cycle.
            let first = span;
            loop {
                circled.push(span);
                span = parents[span].map_or(first, |parent| parent as usize);
                if span == first {
                    break;
                }
            }
        }
    }
    for span in circled {
        parents[span] = None;
    }
    parents
}

/// Left and right numbers from 1. Roots come first; children are in the order of spans.
fn numbered(parents: &[Option<u32>], children: &[u32], roots: &[bool]) -> (Vec<u32>, Vec<u32>) {
    let count = parents.len();
    let mut ends: Vec<u32> = children
        .iter()
        .scan(0, |end, children| {
            *end += children;
            Some(*end)
        })
        .collect();
    let mut listed = vec![0_u32; ends.last().map_or(0, |end| *end as usize)];
    for (span, parent) in parents.iter().enumerate().rev() {
        if let Some(parent) = parent {
            ends[*parent as usize] -= 1;
            listed[ends[*parent as usize] as usize] = span as u32;
        }
    }
    // `ends` now contains the start of each list.
    let mut next = ends;
    let last: Vec<u32> =
        next.iter().zip(children).map(|(start, children)| start + children).collect();
    let (mut left, mut right) = (vec![0; count], vec![0; count]);
    let mut number = 0;
    let mut counted = || {
        number += 1;
        number
    };
    let tops = (0..count).filter(|span| parents[*span].is_none());
    let (first, rest): (Vec<usize>, Vec<usize>) = tops.partition(|span| roots[*span]);
    for top in first.into_iter().chain(rest) {
        let mut span = top;
        left[span] = counted();
        loop {
            if next[span] < last[span] {
                let child = listed[next[span] as usize] as usize;
                next[span] += 1;
                span = child;
                left[span] = counted();
                continue;
            }
            right[span] = counted();
            match parents[span] {
                Some(parent) => span = parent as usize,
                None => break,
            }
        }
    }
    (left, right)
}

/// Siblings are spans that have the same parent, that are all roots, or that name the same missing
/// parent.
fn sibling_groups(spans: &[Span], parents: &[Option<u32>]) -> Vec<u32> {
    #[derive(PartialEq, Eq, Hash)]
    enum Parent {
        None,
        Span(u32),
        Missing([u8; 8]),
    }
    let mut groups = HashMap::new();
    spans
        .iter()
        .zip(parents)
        .map(|(span, parent)| {
            let key = match (parent, span.parent_id) {
                (Some(parent), _) => Parent::Span(*parent),
                (None, Some(id)) => Parent::Missing(id),
                (None, None) => Parent::None,
            };
            let new = groups.len() as u32;
            *groups.entry(key).or_insert(new)
        })
        .collect()
}
