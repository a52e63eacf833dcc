//! A cache of large traces, for their further pages: reading and assembling a trace takes
//! longer than writing a page of it.
//!
//! A tree is found only by its [`snapshot`](TraceTree::snapshot), which every page carries, so
//! that nobody gets an old tree without asking for it. It is kept for a short time, and is
//! dropped when anything is deleted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use spanwise_model::TraceId;

use super::tree::TraceTree;

/// How long a tree is kept.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The most memory of all trees.
const MAX_BYTES: usize = 256 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct TraceCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The oldest first, each with the id that was asked for.
    trees: Vec<(TraceId, Arc<TraceTree>)>,
    /// How often anything was deleted.
    deletions: u64,
}

/// A period without deletions. A tree that was read in an earlier one is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl TraceCache {
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.0.lock().deletions)
    }

    /// The tree of this trace with this snapshot.
    pub(super) fn get(&self, id: TraceId, snapshot: &str) -> Option<Arc<TraceTree>> {
        let entries = self.0.lock();
        let found = entries.trees.iter().find(|(of, tree)| *of == id && tree.snapshot == snapshot);
        found.map(|(_, tree)| Arc::clone(tree))
    }

    /// Keeps a tree, which was read in this epoch, for a while.
    pub(super) fn insert(self: &Arc<Self>, id: TraceId, tree: &Arc<TraceTree>, epoch: Epoch) {
        if !self.0.lock().insert(id, tree, epoch) {
            return;
        }
        let (cache, tree): (Weak<Self>, Weak<TraceTree>) =
            (Arc::downgrade(self), Arc::downgrade(tree));
        tokio::spawn(async move {
            tokio::time::sleep(MAX_AGE).await;
            if let Some(cache) = cache.upgrade() {
                let is_it = |other: &Arc<TraceTree>| Weak::ptr_eq(&Arc::downgrade(other), &tree);
                cache.0.lock().trees.retain(|(_, other)| !is_it(other));
            }
        });
    }

    /// Drops all trees, because something was deleted.
    pub(crate) fn clear(&self) {
        let mut entries = self.0.lock();
        entries.deletions += 1;
        entries.trees.clear();
    }
}

impl Entries {
    /// Returns whether the tree was inserted.
    fn insert(&mut self, id: TraceId, tree: &Arc<TraceTree>, epoch: Epoch) -> bool {
        if epoch != Epoch(self.deletions) || tree.bytes > MAX_BYTES {
            return false;
        }
        self.trees.retain(|(of, other)| *of != id || other.snapshot != tree.snapshot);
        self.trees.push((id, Arc::clone(tree)));
        let mut bytes: usize = self.trees.iter().map(|(_, tree)| tree.bytes).sum();
        while bytes > MAX_BYTES {
            bytes -= self.trees.remove(0).1.bytes;
        }
        true
    }
}
