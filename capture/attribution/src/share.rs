//! How often something was right and how often wrong, as far as it is remembered.

/// When so many were counted, they count half: programs change their ways.
const MANY: f32 = 512.0;
/// What has faded to less is forgotten: one that was wrong, after some thousand that
/// were right.
const FADED: f32 = 0.3;
/// The share that must be right of what is believed.
const BELIEVED: f32 = 0.9;

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    right: f32,
    wrong: f32,
}

impl Share {
    pub(crate) fn count(&mut self, right: bool) {
        if self.total() >= MANY {
            self.halve();
        }
        *if right { &mut self.right } else { &mut self.wrong } += 1.0;
    }

    /// One that was taken for wrong was right.
    pub(crate) fn mend(&mut self) {
        if self.wrong >= 1.0 {
            self.wrong -= 1.0;
            self.right += 1.0;
        }
    }

    /// What was seen counts half; `false` where nothing is left of it.
    pub(crate) fn halve(&mut self) -> bool {
        self.right /= 2.0;
        self.wrong /= 2.0;
        self.total() >= FADED
    }

    pub(crate) const fn total(&self) -> f32 {
        self.right + self.wrong
    }

    pub(crate) const fn wrong(&self) -> f32 {
        self.wrong
    }

    /// Nothing wrong is remembered.
    pub(crate) const fn is_clean(&self) -> bool {
        self.wrong < FADED
    }

    /// The share that is right; of nothing seen, all.
    pub(crate) fn right(&self) -> f32 {
        if self.total() > 0.0 { self.right / self.total() } else { 1.0 }
    }

    /// Whether nearly all was right.
    pub(crate) fn is_believed(&self) -> bool {
        self.right() >= BELIEVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_once_is_forgotten_after_long() {
        let mut share = Share::default();
        assert!(share.is_clean() && share.is_believed());
        share.count(false);
        assert!(!share.is_clean() && !share.is_believed());
        for _ in 0..20 {
            share.count(true);
        }
        assert!(share.is_believed() && !share.is_clean());
        for _ in 0..1500 {
            share.count(true);
        }
        assert!(share.is_clean());
    }

    #[test]
    fn ways_that_change_are_noticed() {
        let mut share = Share::default();
        for _ in 0..100_000 {
            share.count(true);
        }
        for _ in 0..100 {
            share.count(false);
        }
        assert!(!share.is_believed());
    }
}
