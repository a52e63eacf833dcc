//! Figures of a time in parts: a head, and for each entrance its chains, so that whoever asks for
//! one chain reads only these.

use std::collections::BTreeMap;

use super::bytes::{Reader, RollupError, Writer};
use super::minute::{Minute, VERSION};
use crate::chains::{Chains, PathId, ShapeId};

/// What a part of figures is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RollupPart {
    /// Totals, and which entrance has which shapes.
    Head,
    /// The chains of an entrance.
    Entrance(PathId),
    /// Operations and edges.
    Operations,
    /// Shapes that joined others, so that their ids find their chains.
    Joined,
}

impl RollupPart {
    /// Its name in numbers: what it is, and what it is about.
    pub const fn numbers(self) -> (u32, u64) {
        match self {
            Self::Head => (0, 0),
            Self::Entrance(PathId(id)) => (1, id),
            Self::Operations => (2, 0),
            Self::Joined => (3, 0),
        }
    }

    /// The part with these numbers; `None` of what only a later program writes.
    pub const fn of(kind: u32, id: u64) -> Option<Self> {
        match kind {
            0 => Some(Self::Head),
            1 => Some(Self::Entrance(PathId(id))),
            2 => Some(Self::Operations),
            3 => Some(Self::Joined),
            _ => None,
        }
    }
}

/// Totals of a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RollupHead {
    /// Runs that are counted in chains.
    pub runs: u64,
    /// Start of the first of them; the greatest number if there is none.
    pub first_unix_nano: i64,
    /// Shapes of each entrance.
    pub shapes: BTreeMap<PathId, Vec<ShapeId>>,
    /// What is not counted in chains.
    left_out: [u64; 6],
}

impl RollupHead {
    /// The entrance with a shape.
    pub fn entrance_of(&self, shape: ShapeId) -> Option<PathId> {
        let mut entrances = self.shapes.iter();
        entrances.find(|(_, shapes)| shapes.binary_search(&shape).is_ok()).map(|(root, _)| *root)
    }

    fn of(chains: &Chains) -> Self {
        let mut head = Self {
            runs: chains.runs(),
            first_unix_nano: chains.first_unix_nano().unwrap_or(i64::MAX),
            shapes: BTreeMap::new(),
            left_out: chains.left_out(),
        };
        for (shape, root) in chains.shape_ids() {
            head.shapes.entry(root).or_default().push(shape);
        }
        head
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.number(self.runs);
        out.signed(self.first_unix_nano);
        self.left_out.into_iter().for_each(|count| out.number(count));
        out.length(self.shapes.len());
        for (root, shapes) in &self.shapes {
            out.raw(&root.0.to_le_bytes());
            out.length(shapes.len());
            shapes.iter().for_each(|shape| out.raw(&shape.0.to_le_bytes()));
        }
        out.finish(VERSION)
    }

    /// The totals in these bytes.
    ///
    /// # Errors
    /// If a later program wrote them, or they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RollupError> {
        let from = &mut Reader::new(bytes, VERSION)?;
        let mut head =
            Self { runs: from.count()?, first_unix_nano: from.signed()?, ..Self::default() };
        for count in &mut head.left_out {
            *count = from.count()?;
        }
        for _ in 0..from.length()? {
            let root = PathId(u64::from_le_bytes(from.array()?));
            let mut shapes = Vec::new();
            for _ in 0..from.length()? {
                shapes.push(ShapeId(u64::from_le_bytes(from.array()?)));
            }
            shapes.sort_unstable();
            head.shapes.insert(root, shapes);
        }
        from.end()?;
        Ok(head)
    }
}

impl Minute {
    /// The figures in parts.
    pub fn to_parts(&self) -> Vec<(RollupPart, Vec<u8>)> {
        let mut parts = vec![(RollupPart::Head, RollupHead::of(self.chains()).to_bytes())];
        for (root, chains) in self.chains().by_entrance() {
            let mut out = Writer::default();
            chains.write(&mut out);
            parts.push((RollupPart::Entrance(root), out.finish(VERSION)));
        }
        let mut out = Writer::default();
        self.write_operations(&mut out);
        parts.push((RollupPart::Operations, out.finish(VERSION)));
        if !self.joined().is_empty() {
            let mut out = Writer::default();
            out.length(self.joined().len());
            for (shape, founder) in self.joined() {
                out.raw(&shape.0.to_le_bytes());
                out.raw(&founder.0.to_le_bytes());
            }
            parts.push((RollupPart::Joined, out.finish(VERSION)));
        }
        parts
    }

    /// Adds what a head says is not in chains.
    pub fn merge_head(&mut self, head: &RollupHead) {
        self.chains_mut().add_left_out(head.left_out);
    }

    /// The shape that another one joined, by the bytes of [`RollupPart::Joined`].
    ///
    /// # Errors
    /// If a later program wrote them, or they are damaged.
    pub fn joined_by(bytes: &[u8], shape: ShapeId) -> Result<Option<ShapeId>, RollupError> {
        let from = &mut Reader::new(bytes, VERSION)?;
        let mut found = None;
        for _ in 0..from.length()? {
            let joined = ShapeId(u64::from_le_bytes(from.array()?));
            let founder = ShapeId(u64::from_le_bytes(from.array()?));
            if joined == shape {
                found = Some(founder);
            }
        }
        from.end()?;
        Ok(found)
    }

    /// Adds what a part holds.
    ///
    /// # Errors
    /// If a later program wrote it, or it is damaged. What was added before stays.
    pub fn merge_part(&mut self, part: RollupPart, bytes: &[u8]) -> Result<(), RollupError> {
        match part {
            RollupPart::Head => self.merge_head(&RollupHead::from_bytes(bytes)?),
            RollupPart::Entrance(_) => {
                let from = &mut Reader::new(bytes, VERSION)?;
                let chains = Chains::read(from)?;
                from.end()?;
                self.chains_mut().merge_all(chains);
            }
            RollupPart::Operations => {
                let from = &mut Reader::new(bytes, VERSION)?;
                let mut other = Self::default();
                other.read_operations(from)?;
                from.end()?;
                self.merge(&other);
            }
            // It says nothing about figures.
            RollupPart::Joined => {}
        }
        Ok(())
    }
}
