//! Groups of rows that certainly belong together: a slab whose entries and lists are reused.

use crate::slot::Slot;

/// Identifies a group. The id of a removed group never matches a later group in the same entry.
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
    /// The time of the first unreported change.
    pub(super) untold_since_nano: Option<u64>,
    /// The group is not examined before this time, because a decision is pending.
    pub(super) held_until_nano: u64,
    serial: u32,
}

/// Maximum capacity of a row list that is kept for the next group in the entry.
const KEPT_CAPACITY: usize = 64;

/// All groups. See the module's description.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    free: Vec<u32>,
}

impl Groups {
    /// The group, if it still exists.
    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.place as usize).filter(|group| group.serial == id.serial)
    }

    /// The group, if it still exists.
    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id.place as usize).filter(|group| group.serial == id.serial)
    }

    /// Adds an empty group.
    pub(super) fn add(&mut self) -> GroupId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            // There are at most as many groups as rows.
            (self.groups.len() - 1) as u32
        });
        GroupId { place, serial: self.groups[place as usize].serial }
    }

    /// Removes a group. Its list of rows can be returned to [`Self::give_back`].
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
