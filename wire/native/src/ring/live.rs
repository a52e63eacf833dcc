//! A ring to which its program still writes: it is read on from a mark, as far as it has come.

use std::os::unix::fs::FileExt as _;

use super::{DEPTH_MAX, Decoded, HEADER_BYTES, Mark, Ring};
use crate::process::Process;
use crate::{u32_at, u64_at};

/// Attempts to see a running thread between two records.
const SNAPSHOTS_MAX: usize = 4;
const POLICY_DROP: u32 = 1;
const THREAD_ENDED: u32 = 2;

impl Ring {
    /// Reads where the program's thread is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn refresh(&mut self) -> std::io::Result<()> {
        // First the state: after a thread's end, its head no longer moves.
        let (mut state, mut rest) = ([0; 4], [0; 72]);
        self.file.read_exact_at(&mut state, 68)?;
        self.file.read_exact_at(&mut rest, 128)?;
        self.header[68..72].copy_from_slice(&state);
        self.header[128..200].copy_from_slice(&rest);
        self.head = self.head.max(u64_at(&rest, 0));
        Ok(())
    }

    /// Whether its thread has ended.
    pub(crate) fn thread_ended(&self) -> bool {
        u32_at(&self.header, 68) == THREAD_ENDED
    }

    pub(crate) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes that the program has committed, as of the last `refresh`.
    pub(crate) const fn committed(&self) -> u64 {
        self.head
    }

    /// Up to where everything has been given out.
    pub(crate) fn given_out(&self) -> u64 {
        match self.pending {
            Some(_) => self.mark.next.saturating_mul(self.block_bytes) + self.mark.at,
            None => self.place(),
        }
    }

    /// What is needed to go on behind what has been given out.
    pub(crate) fn mark(&mut self) -> &Mark {
        if self.pending.is_none() {
            self.set_mark();
        }
        &self.mark
    }

    /// Goes on from a mark.
    pub(crate) fn go_on(&mut self, mut mark: Mark) {
        mark.carried.resize(DEPTH_MAX, Vec::new());
        let first = self.next;
        self.next = mark.next;
        self.at = usize::try_from(mark.at.min(self.block_bytes)).unwrap_or(0);
        self.base = mark.base;
        self.expected_spans = mark.expected_spans;
        self.started = mark.started;
        self.last_span = mark.last_span.map(|(depth, start)| (depth as usize, start));
        self.carried.clone_from(&mark.carried);
        if self.next < first {
            (self.next, self.at, self.jumped) = (first, 0, true);
            self.carried.iter_mut().for_each(Vec::clear);
        }
        self.set_mark();
    }

    /// Spans that came to their end since the last call, of at most so many blocks. `true` if
    /// there is more to read.
    pub(crate) fn follow(&mut self, process: &Process, blocks_max: usize) -> (Vec<Decoded>, bool) {
        let mut found = Vec::new();
        for _ in 0..blocks_max {
            if self.place() >= self.head {
                found.extend(self.settle(process));
                return (found, false);
            }
            match self.read_on(process) {
                Ok(decoded) => found.extend(decoded),
                Err(problem) => {
                    self.jump(problem);
                    found.extend(self.cut(process));
                    self.set_mark();
                }
            }
        }
        (found, self.place() < self.head)
    }

    /// The rest, and the spans that are open: nothing writes to the ring any more.
    pub(crate) fn end(&mut self, process: &Process) -> Decoded {
        let mut header = vec![0; HEADER_BYTES];
        if self.file.read_exact_at(&mut header, 0).is_ok() {
            self.header = header;
        }
        let decoded = self.finish(process);
        self.set_mark();
        decoded
    }

    /// Behind a block that is gone.
    fn jump(&mut self, problem: String) {
        let (to, is_deleted) = self.behind();
        if !is_deleted && self.capacity == 0 {
            self.note(problem);
        }
        (self.next, self.at, self.jumped) = (to, 0, true);
    }

    /// Gives out the spans behind the last full block, if the thread can be seen between two
    /// records. A thread that cannot soon fills a block.
    fn settle(&mut self, process: &Process) -> Option<Decoded> {
        self.pending.as_ref()?;
        for _ in 0..SNAPSHOTS_MAX {
            let (mut before, mut after) = ([0; 72], [0; 72]);
            let mut slots = vec![0; DEPTH_MAX * 64];
            let read = (self.file.read_exact_at(&mut before, 128))
                .and_then(|()| self.file.read_exact_at(&mut slots, 4096))
                .and_then(|()| self.file.read_exact_at(&mut after, 128));
            if read.is_err() || u64_at(&before, 0) != self.head {
                return None;
            }
            // The ends that were dropped changed slots and not the head.
            if u64_at(&after, 0) == self.head && u64_at(&before, 48) == u64_at(&after, 48) {
                self.header[128..200].copy_from_slice(&before);
                self.header[4096..].copy_from_slice(&slots);
                let open = self.slots();
                return self.resolve(process, &open);
            }
        }
        None
    }

    /// With the policy drop: gives the program room up to what has been given out.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn give_room(&self, mark: &Mark) -> std::io::Result<()> {
        if u32_at(&self.header, 40) != POLICY_DROP {
            return Ok(());
        }
        let room = mark.next.saturating_mul(self.block_bytes);
        let mut known = [0; 8];
        self.file.read_exact_at(&mut known, 256)?;
        if u64::from_le_bytes(known) < room {
            self.file.write_all_at(&room.to_le_bytes(), 256)?;
        }
        Ok(())
    }
}
