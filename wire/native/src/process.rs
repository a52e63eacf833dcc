//! The file of a process: names, call sites, instruments, resource, clock.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::clock::{Anchor, Clock};
use crate::{u16_at, u32_at, u64_at};

const SITES_MAX: u32 = 4096;
const INSTRUMENTS_MAX: u32 = 1024;
const STRINGS_MAX: u32 = 16_384;
const ANCHORS_MAX: u64 = 65_536;
/// Larger files are not of this format.
pub(crate) const FILE_MAX_BYTES: u64 = 64 << 20;

/// A call site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// The span's name.
    pub name: String,
    /// Source file.
    pub file: String,
    /// Line in it.
    pub line: u32,
    /// OpenTelemetry's number of the span's kind.
    pub kind: u8,
    /// OpenTelemetry's severity number.
    pub level: u8,
    /// Whether it records at the moment.
    pub enabled: bool,
}

/// A metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instrument {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What it counts.
    pub description: String,
    /// 1 counter, 2 up-down counter, 3 gauge, 4 exponential histogram.
    pub kind: u8,
    /// Attributes of each of its points.
    pub attributes: Vec<(String, String)>,
}

/// A recorded process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start of the recording, in nanoseconds of Unix time.
    pub started_ns: u64,
    /// Whether it stopped recording itself. Otherwise it still runs, or was killed.
    pub stopped: bool,
    /// Threads that got no ring.
    pub threads_refused: u64,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Call sites; the first is none.
    pub sites: Vec<Site>,
    /// Instruments; the first is none.
    pub instruments: Vec<Instrument>,
    pub(crate) strings: Vec<String>,
    pub(crate) clock: Clock,
}

impl Process {
    /// Reads the bytes of a process file.
    ///
    /// # Errors
    /// What is wrong with its head. Other damage only empties names.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.get(..8) != Some(b"SPWNPROC") {
            return Err("is not the file of a process, or was cut at its start".to_owned());
        }
        let version = u32_at(bytes, 8);
        if version != 1 {
            return Err(format!(
                "has version {version} of the format; this program reads version 1"
            ));
        }
        let offset = |n: usize| u32_at(bytes, 600 + 4 * n) as usize;
        let strings: Vec<String> = (0..u32_at(bytes, 56).min(STRINGS_MAX) as usize)
            .map(|id| {
                let at = offset(4).saturating_add(u32_at(bytes, offset(3) + 4 * id) as usize);
                let length = usize::from(u16_at(bytes, at));
                let text = bytes.get(at.saturating_add(2)..).and_then(|rest| rest.get(..length));
                String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
            })
            .collect();
        let string = |id: u32| strings.get(id as usize).cloned().unwrap_or_default();
        let sites = (0..u32_at(bytes, 64).min(SITES_MAX) as usize).map(|id| {
            let at = offset(1) + 32 * id;
            Site {
                name: string(u32_at(bytes, at)),
                file: string(u32_at(bytes, at + 4)),
                line: u32_at(bytes, at + 8),
                kind: bytes.get(at + 12).copied().unwrap_or(0),
                level: bytes.get(at + 13).copied().unwrap_or(0),
                enabled: bytes.get(offset(0) + id).is_some_and(|byte| *byte != 0),
            }
        });
        let instruments = (0..u32_at(bytes, 68).min(INSTRUMENTS_MAX) as usize).map(|id| {
            let at = offset(2) + 32 * id;
            let pairs = bytes.get(at + 13).copied().unwrap_or(0).min(4);
            let pair = |n: usize| {
                let text = |at| string(u32::from(u16_at(bytes, at)));
                (text(at + 16 + 4 * n), text(at + 18 + 4 * n))
            };
            Instrument {
                name: string(u32_at(bytes, at)),
                unit: string(u32_at(bytes, at + 4)),
                description: string(u32_at(bytes, at + 8)),
                kind: bytes.get(at + 12).copied().unwrap_or(0),
                attributes: (0..usize::from(pairs)).map(pair).collect(),
            }
        });
        let taken = u64_at(bytes, 72);
        let anchors = (0..taken.min(ANCHORS_MAX))
            .map(|n| offset(5) + 24 * usize::try_from(n).unwrap_or(usize::MAX >> 6))
            .map(|at| Anchor { tick: u64_at(bytes, at), unix_ns: u64_at(bytes, at + 8) })
            .collect();
        let resource = (0..u32_at(bytes, 80).min(64) as usize)
            .map(|n| (string(u32_at(bytes, 88 + 8 * n)), string(u32_at(bytes, 92 + 8 * n))))
            .collect();
        let sites = sites.collect();
        let instruments = instruments.collect();
        Ok(Self {
            pid: u32_at(bytes, 16),
            started_ns: u64_at(bytes, 24),
            stopped: u32_at(bytes, 48) == 2,
            threads_refused: u64_at(bytes, 624),
            resource,
            sites,
            instruments,
            clock: Clock::new(anchors, u64_at(bytes, 32)),
            strings,
        })
    }

    /// Bytes of a process's file for [`Self::parse`]: only the parts that are in use, as most of
    /// the file is room.
    pub(crate) fn used_bytes(file: &File, head: &[u8]) -> std::io::Result<Vec<u8>> {
        let offset = |n: usize| u64::from(u32_at(head, 600 + 4 * n));
        let count = |at: usize, most: u32| u64::from(u32_at(head, at).min(most));
        let parts = [
            (offset(1), 32 * count(64, SITES_MAX)),
            (offset(2), 32 * count(68, INSTRUMENTS_MAX)),
            (offset(3), 4 * count(56, STRINGS_MAX)),
            (offset(4), u64::from(u32_at(head, 60))),
            (offset(5), 24 * u64_at(head, 72).min(ANCHORS_MAX)),
        ];
        let most = file.metadata()?.len().min(FILE_MAX_BYTES);
        let end = parts.iter().map(|(at, length)| at + length).max().unwrap_or(0).min(most);
        let mut bytes = vec![0; usize::try_from(end).unwrap_or(0).max(head.len())];
        bytes[..head.len()].copy_from_slice(head);
        for (at, length) in parts {
            let (from, to) = (at.max(head.len() as u64).min(end), (at + length).min(end));
            if from < to {
                file.read_exact_at(&mut bytes[from as usize..to as usize], from)?;
            }
        }
        Ok(bytes)
    }

    /// An interned string.
    pub fn string(&self, id: u16) -> &str {
        self.strings.get(usize::from(id)).map_or("", String::as_str)
    }
}
