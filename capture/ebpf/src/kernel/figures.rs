//! Figures of processes that are counted in the kernel: `bpf/figures.bpf.c`.

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::objects;

/// Waits of at most 1, 2, 4 … 2^23 microseconds, and longer ones.
const BUCKETS: usize = 25;
/// Bytes of `struct process_figures`.
const FIGURES_BYTES: usize = 8 * (BUCKETS + 3);

const WAITS: &[&str] = &["woken", "woken_first", "switched"];
/// Best first.
const BYTES: [&[&str]; 2] = [
    &["length_sent", "length_received"],
    &["inet_sent", "inet6_sent", "inet_received", "inet6_received"],
];

/// What the threads of a process did since the counting began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// How often a thread that could run waited for a processor, by how long: the n-th of them
    /// longer than 2^(n-1) and at most 2^n microseconds.
    pub waits: [u64; BUCKETS],
    /// How long they waited, in nanoseconds.
    pub waited_nano: u64,
    /// Bytes received and sent over TCP and UDP; `None` if the kernel does not let them be counted.
    pub network_bytes: Option<[u64; 2]>,
}

/// What was not counted, because there were too many processes or threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FiguresLost {
    /// Waits.
    pub waits: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The programs that count. Dropping it detaches them.
pub struct KernelFigures {
    _links: Vec<Link>,
    object: Object,
    /// Why bytes are not counted.
    without_network: Option<String>,
}

impl KernelFigures {
    /// Upper bounds of all buckets but the last, in seconds.
    pub fn bounds_seconds() -> impl Iterator<Item = f64> {
        (0..BUCKETS as i32 - 1).map(|n| 2_f64.powi(n) * 1e-6)
    }

    /// Begins to count.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn attach() -> Result<Self, String> {
        let mut reason = String::new();
        for bytes in BYTES {
            match Self::attach_programs(&[WAITS, bytes].concat(), None) {
                Ok(figures) => return Ok(figures),
                Err(refusal) if reason.is_empty() => reason = refusal,
                Err(_) => {}
            }
        }
        Self::attach_programs(WAITS, Some(reason))
    }

    fn attach_programs(programs: &[&str], without: Option<String>) -> Result<Self, String> {
        let object = objects::load(objects::FIGURES, programs, &[], |_, _| Ok(()))?;
        let links = objects::attach(&object, programs)?;
        Ok(Self { _links: links, object, without_network: without })
    }

    /// Why bytes are not counted, if they are not.
    pub fn without_network(&self) -> Option<&str> {
        self.without_network.as_deref()
    }

    /// The figures of all processes that did anything, by process id.
    pub fn read(&self) -> Vec<(u32, ProcessFigures)> {
        let Some(map) = self.object.maps().find(|map| map.name() == "figures") else {
            return Vec::new();
        };
        let of = |key: Vec<u8>| {
            let process = u32::from_ne_bytes(key.try_into().ok()?);
            let value = map.lookup(&process.to_ne_bytes(), MapFlags::ANY).ok()??;
            Some((process, self.figures(&value)?))
        };
        map.keys().filter_map(of).collect()
    }

    fn figures(&self, value: &[u8]) -> Option<ProcessFigures> {
        if value.len() < FIGURES_BYTES {
            return None;
        }
        let word =
            |n: usize| value[8 * n..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let network = [word(BUCKETS + 1), word(BUCKETS + 2)];
        Some(ProcessFigures {
            waits: std::array::from_fn(word),
            waited_nano: word(BUCKETS),
            network_bytes: self.without_network.is_none().then_some(network),
        })
    }

    /// A process has ended: its place is for others.
    pub fn forget(&self, process: u32) {
        if let Some(map) = self.object.maps().find(|map| map.name() == "figures") {
            // It may never have had one.
            let _ = map.delete(&process.to_ne_bytes());
        }
    }

    /// What was not counted.
    pub fn lost(&self) -> FiguresLost {
        let is = |name: &str| name.ends_with(".data.lost");
        let map = self.object.maps().find(|map| is(&map.name().to_string_lossy()));
        let value = map.and_then(|map| map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?);
        let word = |n: usize| {
            let bytes = value.as_deref()?.get(8 * n..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        FiguresLost { waits: word(0).unwrap_or(0), bytes: word(1).unwrap_or(0) }
    }
}
