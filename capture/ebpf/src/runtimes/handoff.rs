//! The table in which a program itself reports what its threads work on: a mapped file with a known
//! name. docs/task-table.md specifies it for programs that write one.

use super::memory::{Mapping, Memory};
use crate::kernel::{TaskKind, TaskRule};

/// Prefix of the file's name. The last number is the version of the format.
const NAME: &str = "spanwise-tasks-1.";
/// First bytes of the file.
const MAGIC: [u8; 8] = *b"spanwise";
/// Number of bits of an index in the table.
const BITS: std::ops::RangeInclusive<u32> = 4..=20;
/// Bytes of a slot: at most as many hops as the kernel side reads.
const SLOT_BYTES: std::ops::RangeInclusive<u32> = 16..=4096;
/// Additional keys at the end of the table.
const BEYOND: u64 = 4;

/// The location of a process's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    bits: u32,
    slot_bytes: u32,
    keys: u64,
    slots: u64,
    /// Where in a slot the current span is; 0: nowhere.
    span: u32,
}

/// The table of a process; `None` if it has none.
pub(super) fn table(process: u32, mapped: &[Mapping]) -> Option<Table> {
    let named = |mapping: &&Mapping| {
        let name = mapping.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        mapping.offset == 0 && name.starts_with(NAME)
    };
    let mapping = mapped.iter().find(named)?;
    let memory = Memory::open(process).ok()?;
    Table::read(&memory.bytes::<32>(mapping.start)?, mapping.start, mapping.end)
}

impl Table {
    /// Parses the header of a table that is mapped from `start` to `end`.
    fn read(header: &[u8; 32], start: u64, end: u64) -> Option<Self> {
        let number = |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
        if header[..8] != MAGIC {
            return None;
        }
        let (bits, slot_bytes) = (number(8)?, number(12)?);
        let (keys, slots) = (u64::from(number(16)?), u64::from(number(20)?));
        if !BITS.contains(&bits) || !SLOT_BYTES.contains(&slot_bytes) {
            return None;
        }
        // Tables of programs without spans have a zero there.
        let span = number(24)?;
        if span != 0 && (span < 16 || !span.is_multiple_of(8) || span > slot_bytes - 8) {
            return None;
        }
        let places = (1_u64 << bits) + BEYOND;
        let fits = |offset: u64, bytes: u64| offset + places * bytes <= end - start;
        (fits(keys, 8) && fits(slots, slot_bytes.into())).then_some(Self {
            bits,
            slot_bytes,
            keys: start + keys,
            slots: start + slots,
            span,
        })
    }

    /// A rule for a process with no other source of tasks.
    pub(super) fn rule(self) -> TaskRule {
        self.with(TaskRule::new(TaskKind::Told, &[]))
    }

    /// Adds the table to a rule. The indexes are those of `bpf/task_told.h`.
    pub(super) fn with(self, mut rule: TaskRule) -> TaskRule {
        rule.offsets[10] = i32::try_from(self.bits).unwrap_or(0);
        rule.offsets[11] = i32::try_from(self.slot_bytes).unwrap_or(0);
        rule.offsets[12] = i32::try_from(self.span).unwrap_or(0);
        rule.addresses[0] = self.keys;
        rule.addresses[1] = self.slots;
        rule
    }
}

/// Whether a rule includes a table.
pub(super) const fn is_part_of(rule: &TaskRule) -> bool {
    rule.offsets[10] != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(numbers: [u32; 4]) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&MAGIC);
        for (to, number) in bytes[8..].chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_table_is_taken_only_where_it_fits_what_is_mapped() {
        let whole = header([4, 64, 64, 256]);
        let table = Table::read(&whole, 0x1000, 0x1000 + 256 + 20 * 64);
        let table = table.expect("a table");
        assert_eq!((table.keys, table.slots), (0x1040, 0x1100));
        assert_eq!(table.rule().offsets[10..12], [4, 64]);
        assert_eq!(Table::read(&whole, 0x1000, 0x1000 + 255 + 20 * 64), None);
        for numbers in [
            [3, 64, 64, 256],
            [21, 64, 64, 256],
            [4, 8, 64, 256],
            [4, 1 << 20, 64, 256],
            [4, 64, u32::MAX, 256],
            [4, 64, 64, u32::MAX],
        ] {
            assert_eq!(Table::read(&header(numbers), 0x1000, 0x3000), None, "{numbers:?}");
        }
        let mut with_span = whole;
        for (span, taken) in [(56_u32, true), (57, false), (8, false), (60, false), (64, false)] {
            with_span[24..28].copy_from_slice(&span.to_ne_bytes());
            let table = Table::read(&with_span, 0x1000, 0x3000);
            let offset = table.map(|table| table.rule().offsets[12]);
            assert_eq!(offset, taken.then_some(56), "{span}");
        }
        let mut other = whole;
        other[0] = b'S';
        assert_eq!(Table::read(&other, 0x1000, 0x3000), None);
    }
}
