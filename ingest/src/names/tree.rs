//! The names of one service's operations as a tree of their parts, which learns which positions
//! hold values.
//!
//! A position is a node; the parts that were seen there are its children. Parts of one class
//! ([`Class`]) that become many, half of them seen once or not for long, are values: they fold into
//! one child, with what lies below them. A part that is frequent stays. What is folded stays folded.

use std::borrow::Cow;

use ahash::AHashMap;

use super::segment::{Class, VALUE, skeleton};

/// How names are split, and what may fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Style {
    /// Paths: any part may be a value.
    Path,
    /// Names of topics, queues and subjects: words of the first part are names that people chose;
    /// numbers are values, and what surrounds them stays.
    Destination,
    /// Names of tables and collections: only numbers are values.
    Table,
}

/// Nodes of a tree. Where it is full, what is not known is cut.
const MAX_NODES: usize = 4096;
/// Positions of a name. What lies deeper is cut.
const MAX_DEPTH: usize = 12;
/// Groups of parts counted at a node.
const MAX_TALLIES: usize = 32;
/// Parts that are watched at a node, to find frequent ones among the values.
const MAX_WATCHED: usize = 32;

/// More different parts of a class than this are values, if half of them are rare.
const fn few(class: Class, has_values: bool) -> usize {
    match class {
        Class::Numbered | Class::Random => 3,
        Class::Word if has_values => 6,
        Class::Word => 24,
    }
}

/// More than this are values, however often they were seen.
const fn many(class: Class) -> usize {
    match class {
        Class::Numbered | Class::Random => 16,
        Class::Word => 128,
    }
}

/// A part that was seen this often is a literal ...
const FREQUENT: u32 = 8;
/// ... if it was at least this share of what was seen at its position (one in ...).
const FREQUENT_SHARE: u32 = 20;
/// The share where there are many parts that are not rare.
const FREQUENT_SHARE_OF_MANY: u32 = 1000;
/// Literals that are found among values are seen more often than this.
const FREQUENT_LATER: u32 = 50;

type NodeId = u32;
const ROOT: NodeId = 0;

#[derive(Debug)]
struct Child {
    node: NodeId,
    seen: u32,
    /// How much had been seen at its node when it was seen last.
    last: u32,
    /// Never folds: it stands for values, or is frequent.
    stays: bool,
}

impl Child {
    /// Seen once, or not for as long as half of the node's time.
    const fn is_rare(&self, seen_at_node: u32) -> bool {
        self.seen <= 1 || self.last < seen_at_node / 2
    }

    const fn is_frequent(&self, seen_at_node: u32, share: u32) -> bool {
        self.seen >= FREQUENT && self.seen.saturating_mul(share) >= seen_at_node
    }
}

/// Parts that fold together, into a child of this name.
#[derive(Debug)]
struct Tally {
    class: Class,
    target: Box<str>,
    parts: usize,
    folded: bool,
}

#[derive(Debug, Default)]
struct Node {
    children: AHashMap<Box<str>, Child>,
    tallies: Vec<Tally>,
    seen: u32,
    /// The parts that are most frequent among those that fold, with a lower bound of how often each
    /// was seen (Misra and Gries).
    watched: Vec<(Box<str>, u32)>,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Tree {
    style: Style,
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    /// Nodes that it may have.
    limit: usize,
}

/// The parts of a name with the separators after them.
fn parts(style: Style, name: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_end = move |byte: &u8| match style {
        Style::Path => *byte == b'/',
        Style::Destination | Style::Table => matches!(byte, b'.' | b'/' | b':' | b' '),
    };
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.as_bytes().iter().position(is_end) else {
            rest = None;
            return Some((text, ""));
        };
        rest = Some(&text[end + 1..]);
        Some((&text[..end], &text[end..=end]))
    })
}

/// Whether a part stands for values already, or for nothing.
fn is_fixed(part: &str) -> bool {
    part.is_empty() || part == "*" || part == "..." || part.contains('{')
}

impl Tree {
    pub(super) fn new(style: Style) -> Self {
        Self { style, nodes: vec![Node::default()], free: Vec::new(), limit: MAX_NODES }
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Learns from a name that was seen so often. Zero: it exists, and is counted elsewhere. There
    /// is room for so many nodes more.
    pub(super) fn learn(&mut self, name: &str, times: u32, room: usize) {
        self.limit = self.len().saturating_add(room).min(MAX_NODES);
        let mut node = ROOT;
        for (depth, (part, _)) in parts(self.style, name).enumerate().take(MAX_DEPTH) {
            let Some(next) = self.step(node, depth, part, times) else { return };
            node = next;
        }
    }

    /// The name with values taken out, as far as it was learned.
    pub(super) fn name(&self, name: &str) -> String {
        let mut shown = String::with_capacity(name.len());
        let mut node = Some(ROOT);
        for (depth, (part, separator)) in parts(self.style, name).enumerate() {
            let Some(at) = node.filter(|_| depth < MAX_DEPTH) else {
                shown.push('*');
                break;
            };
            let (class, target) = self.sort(at, part);
            let at = &self.nodes[at as usize];
            let folded = || at.is_folded(class, &target);
            let (text, child) = match at.children.get_key_value(part) {
                Some((text, child)) => (&**text, child),
                None if folded()
                    && let Some(child) = at.children.get(&*target) =>
                {
                    (&*target, child)
                }
                // There was no room for it.
                None => {
                    shown.push('*');
                    break;
                }
            };
            shown.push_str(text);
            shown.push_str(separator);
            node = Some(child.node);
        }
        shown
    }

    /// The class of a part, and what it folds into at a node.
    fn sort<'a>(&self, at: NodeId, part: &'a str) -> (Class, Cow<'a, str>) {
        let class = Class::of(part);
        if self.style == Style::Path || class != Class::Numbered {
            return (class, VALUE.into());
        }
        let target = skeleton(part);
        let node = &self.nodes[at as usize];
        let has_room = node.tallies.len() < MAX_TALLIES || node.tally(class, &target).is_some();
        (class, if has_room { target.into() } else { VALUE.into() })
    }

    /// Whether parts of a class may fold there.
    fn may_fold(&self, depth: usize, class: Class) -> bool {
        match self.style {
            Style::Path => true,
            Style::Destination => class == Class::Numbered || depth > 0,
            Style::Table => class == Class::Numbered,
        }
    }

    /// The child of a node for a part. `None` if there is no room for it.
    fn step(&mut self, at: NodeId, depth: usize, part: &str, times: u32) -> Option<NodeId> {
        let node = &mut self.nodes[at as usize];
        node.seen = node.seen.saturating_add(times);
        if let Some(child) = node.children.get_mut(part) {
            child.seen = child.seen.saturating_add(times);
            child.last = node.seen;
            return Some(child.node);
        }
        if is_fixed(part) {
            return self.add(at, part, times, true);
        }
        let (class, target) = self.sort(at, part);
        let node = &mut self.nodes[at as usize];
        if node.is_folded(class, &target) {
            if node.watch(part, times) {
                return self.add(at, part, times, true);
            }
            let child = node.children.get_mut(&*target)?;
            child.seen = child.seen.saturating_add(times);
            return Some(child.node);
        }
        let next = self.add(at, part, times, false)?;
        let is_many = self.nodes[at as usize].count(class, &target);
        if is_many && self.may_fold(depth, class) {
            self.fold(at, depth, class, &target);
            let children = &self.nodes[at as usize].children;
            return children.get(part).or_else(|| children.get(&*target)).map(|child| child.node);
        }
        Some(next)
    }

    fn add(&mut self, at: NodeId, part: &str, seen: u32, stays: bool) -> Option<NodeId> {
        let node = match self.free.pop() {
            Some(node) => node,
            None if self.nodes.len() < self.limit => {
                self.nodes.push(Node::default());
                NodeId::try_from(self.nodes.len() - 1).ok()?
            }
            None => return None,
        };
        let parent = &mut self.nodes[at as usize];
        let child = Child { node, seen, last: parent.seen, stays };
        parent.children.insert(part.into(), child);
        Some(node)
    }

    /// Folds the parts of a class at a node, except frequent ones.
    fn fold(&mut self, at: NodeId, depth: usize, class: Class, target: &str) {
        let Node { children, seen, .. } = &self.nodes[at as usize];
        // Where words are values, everything is.
        let folds = |other| other == class || class == Class::Word;
        let mine = |part: &str| {
            let (other, into) = self.sort(at, part);
            folds(other) && into == target
        };
        let mut mine: Vec<(Box<str>, bool)> = children
            .iter()
            .filter(|(part, child)| !child.stays && mine(part))
            .map(|(part, child)| (part.clone(), child.is_rare(*seen)))
            .collect();
        // The outcome does not depend on the order of a hash map.
        mine.sort_unstable();
        let rare = mine.iter().filter(|(_, is_rare)| *is_rare).count();
        let share = if rare * 2 >= mine.len() { FREQUENT_SHARE } else { FREQUENT_SHARE_OF_MANY };
        let node = &mut self.nodes[at as usize];
        for tally in &mut node.tallies {
            tally.folded |= folds(tally.class) && *tally.target == *target;
        }
        for (part, _) in mine {
            let node = &mut self.nodes[at as usize];
            let seen = node.seen;
            match node.children.get_mut(&part) {
                Some(child) if child.is_frequent(seen, share) => child.stays = true,
                _ => self.fold_part(at, depth, &part, target),
            }
        }
    }

    fn fold_part(&mut self, at: NodeId, depth: usize, part: &str, target: &str) {
        let children = &mut self.nodes[at as usize].children;
        let Some(gone) = children.remove(part) else { return };
        match children.get_mut(target) {
            Some(into) => {
                into.seen = into.seen.saturating_add(gone.seen);
                let into = into.node;
                self.merge(into, gone.node, depth + 1);
            }
            None => {
                children.insert(target.into(), Child { stays: true, ..gone });
            }
        }
    }

    /// Moves everything below one node to another.
    fn merge(&mut self, into: NodeId, from: NodeId, depth: usize) {
        let gone = std::mem::take(&mut self.nodes[from as usize]);
        self.free.push(from);
        for (part, child) in gone.children {
            let next = if child.stays {
                match self.nodes[into as usize].children.get_mut(&part) {
                    Some(known) => {
                        known.seen = known.seen.saturating_add(child.seen);
                        known.stays = true;
                        Some(known.node)
                    }
                    None => self.add(into, &part, child.seen, true),
                }
            } else {
                self.step(into, depth, &part, child.seen)
            };
            match next {
                Some(next) => self.merge(next, child.node, depth + 1),
                None => self.discard(child.node),
            }
        }
    }

    /// Frees a node and everything below it.
    fn discard(&mut self, node: NodeId) {
        let gone = std::mem::take(&mut self.nodes[node as usize]);
        self.free.push(node);
        for child in gone.children.into_values() {
            self.discard(child.node);
        }
    }
}

impl Node {
    fn tally(&self, class: Class, target: &str) -> Option<&Tally> {
        self.tallies.iter().find(|tally| tally.class == class && *tally.target == *target)
    }

    /// Whether such parts fold.
    fn is_folded(&self, class: Class, target: &str) -> bool {
        let folded = |tally: &Tally| {
            tally.folded
                && *tally.target == *target
                && (tally.class == class || tally.class == Class::Word)
        };
        self.tallies.iter().any(folded)
    }

    /// Counts a new part. Returns whether the parts of its tally have become many.
    fn count(&mut self, class: Class, target: &str) -> bool {
        let is_this = |tally: &Tally| tally.class == class && *tally.target == *target;
        let at = self.tallies.iter().position(is_this).unwrap_or_else(|| {
            self.tallies.push(Tally { class, target: target.into(), parts: 0, folded: false });
            self.tallies.len() - 1
        });
        let parts = &mut self.tallies[at].parts;
        *parts += 1;
        let parts = *parts;
        if parts > many(class) {
            return true;
        }
        if parts <= few(class, self.children.contains_key(VALUE)) {
            return false;
        }
        // Of all classes: a look at the parts themselves would cost more, and says the same.
        let open = self.children.values().filter(|child| !child.stays);
        open.filter(|child| child.is_rare(self.seen)).count() * 2 >= parts
    }

    /// Counts a part that folds. Returns whether it is frequent enough to be a literal.
    fn watch(&mut self, part: &str, times: u32) -> bool {
        if times == 0 {
            return false;
        }
        if let Some(at) = self.watched.iter().position(|(known, _)| **known == *part) {
            let (_, seen) = &mut self.watched[at];
            *seen = seen.saturating_add(times);
            let is_frequent =
                *seen > FREQUENT_LATER && seen.saturating_mul(FREQUENT_SHARE) >= self.seen;
            if is_frequent {
                self.watched.swap_remove(at);
            }
            return is_frequent;
        }
        if self.watched.len() < MAX_WATCHED {
            self.watched.push((part.into(), times));
        } else {
            self.watched.retain_mut(|(_, seen)| {
                *seen = seen.saturating_sub(times);
                *seen > 0
            });
        }
        false
    }
}

#[cfg(test)]
mod tests;
