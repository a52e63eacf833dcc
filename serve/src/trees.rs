//! Trees of large traces, kept from one page to the next: to read and assemble a
//! trace takes longer than to write a page of it.
//!
//! A tree is only found by the name of its [`snapshot`](Tree::snapshot), which
//! pages carry, so that nobody is shown an old tree who did not ask for that one;
//! not for long; and not after anything was deleted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::tree::Tree;

/// How long a tree is kept.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Memory for all of them.
const MOST_BYTES: usize = 256 << 20;

/// See the module.
#[derive(Default)]
pub(crate) struct Trees(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Oldest first, each with what was asked for.
    trees: Vec<(String, Arc<Tree>)>,
    /// How often anything was deleted.
    deletions: u64,
}

/// A moment; what was read from then on may be kept, if nothing is deleted
/// meanwhile.
pub(crate) struct Moment(u64);

impl Trees {
    /// Now.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.0.lock().deletions)
    }

    /// The tree of this trace with this name.
    pub(crate) fn get(&self, id: &str, snapshot: &str) -> Option<Arc<Tree>> {
        let kept = self.0.lock();
        let is_it = |(of, tree): &&(String, Arc<Tree>)| of == id && tree.snapshot() == snapshot;
        kept.trees.iter().find(is_it).map(|(_, tree)| Arc::clone(tree))
    }

    /// Keeps a tree that was read from a moment on, for a while.
    pub(crate) fn keep(self: &Arc<Self>, id: &str, tree: &Arc<Tree>, read_from: &Moment) {
        if !self.0.lock().put(id, tree, read_from) {
            return;
        }
        let (trees, tree): (Weak<Self>, Weak<Tree>) = (Arc::downgrade(self), Arc::downgrade(tree));
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            if let Some(trees) = trees.upgrade() {
                let is_it = |kept: &Arc<Tree>| Weak::ptr_eq(&Arc::downgrade(kept), &tree);
                trees.0.lock().trees.retain(|(_, kept)| !is_it(kept));
            }
        });
    }

    /// Forgets all of them: something was deleted.
    pub(crate) fn forget(&self) {
        let mut kept = self.0.lock();
        kept.deletions += 1;
        kept.trees.clear();
    }
}

impl Kept {
    /// Whether it was put.
    fn put(&mut self, id: &str, tree: &Arc<Tree>, Moment(deletions): &Moment) -> bool {
        if *deletions != self.deletions || tree.bytes > MOST_BYTES {
            return false;
        }
        self.trees.retain(|(of, kept)| of != id || kept.snapshot() != tree.snapshot());
        self.trees.push((id.to_owned(), Arc::clone(tree)));
        let mut bytes: usize = self.trees.iter().map(|(_, tree)| tree.bytes).sum();
        while bytes > MOST_BYTES {
            bytes -= self.trees.remove(0).1.bytes;
        }
        true
    }
}
