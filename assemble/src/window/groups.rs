//! Groups of rows that surely belong together: a slab whose places, and lists
//! of rows, are used again.

use crate::slot::Slot;

/// Names a group; a group that is gone is not taken for one that has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId {
    place: u32,
    serial: u32,
}

/// A group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) slots: Vec<Slot>,
    pub(super) last_row_nano: u64,
    /// Since when there is something to look at.
    pub(super) untold_since_nano: Option<u64>,
    /// Not to be looked at before, as something is still to be found out.
    pub(super) held_until_nano: u64,
    serial: u32,
}

/// The longest list of rows that is kept for the next group at its place.
const KEPT_CAPACITY: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
}

impl Groups {
    /// The group, where it is still there.
    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.place as usize).filter(|group| group.serial == id.serial)
    }

    /// The group, where it is still there.
    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id.place as usize).filter(|group| group.serial == id.serial)
    }

    /// A new group, without rows yet.
    pub(super) fn add(&mut self) -> GroupId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            // There are no more groups than rows.
            (self.groups.len() - 1) as u32
        });
        GroupId { place, serial: self.groups[place as usize].serial }
    }

    /// Ends a group. Its list of rows may be given back to [`Self::give_back`].
    pub(super) fn remove(&mut self, id: GroupId) -> Option<Group> {
        let group = self.get_mut(id)?;
        let serial = group.serial.wrapping_add(1);
        let gone = std::mem::replace(group, Group { serial, ..Group::default() });
        self.free.push(id.place);
        Some(gone)
    }

    /// Keeps a list's memory for the next group.
    pub(super) fn give_back(&mut self, mut slots: Vec<Slot>) {
        if let Some(place) = self.free.last()
            && slots.capacity() <= KEPT_CAPACITY
        {
            slots.clear();
            self.groups[*place as usize].slots = slots;
        }
    }

    /// Number of groups.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.len() - self.free.len()
    }
}
