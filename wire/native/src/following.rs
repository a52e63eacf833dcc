//! Follows programs while they record. Each committed record is given out once; a checkpoint says
//! how far, so that another process can go on.
//!
//! A ring is read in rounds. What a thread committed before a round is given out in it, unless the
//! thread cannot be seen between two records: then it soon fills a block, whose spans are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::detached::DetachedSpans;
use crate::process::Process;
use crate::recording::Piece;
use crate::ring::{Decoded, Mark, Ring};
use crate::state::{Reader, Writer};
use crate::u64_at;

const MAGIC: u64 = u64::from_le_bytes(*b"SPWNDRN1");
const HEAD_BYTES: usize = 4096;
/// Blocks that are read at a time, of one ring and of all.
const RING_BLOCKS_MAX: usize = 8;
const BLOCKS_MAX: usize = 32;
const PROBLEMS_MAX: usize = 100;
/// A program that runs takes an anchor every second. Without one for so long, it may be dead.
const QUIET: Duration = Duration::from_secs(2);
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(16);
const LIST_PAUSE: Duration = Duration::from_secs(1);
/// Directories changed so recently may change again without another time.
const MTIME_GRAIN: Duration = Duration::from_millis(100);

/// What became of the records of programs that are or were followed, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowCounts {
    /// Complete spans that were given out.
    pub spans: u64,
    /// Spans that were open when their thread or process ended.
    pub open: u64,
    /// Overwritten or deleted before they were read.
    pub overwritten: u64,
    /// In blocks that are damaged.
    pub damaged: u64,
    /// Not started, because the ring was full.
    pub dropped_full: u64,
    /// Not started, because 64 were open.
    pub dropped_depth: u64,
    /// Made by a signal handler in the middle of a record.
    pub dropped_signal: u64,
    /// Ends without room.
    pub dropped_ends: u64,
    /// Attributes, events, links, logs and metrics without room.
    pub dropped_extras: u64,
    /// Spans ended twice, or by another thread.
    pub misused: u64,
    /// Attributes that came after the end of their detached span, or of none that is known.
    pub late_extras: u64,
    /// Begins and attributes of detached spans beyond 131,072 open ones or 32 MiB.
    pub beyond_bounds: u64,
    /// Threads that got no ring.
    pub threads_refused: u64,
    /// Processes that are followed.
    pub processes: u64,
    /// Their rings.
    pub rings: u64,
}

impl FollowCounts {
    fn add_ring(&mut self, ring: &Ring) {
        let counts = ring.counts();
        self.spans += counts.read;
        self.open += counts.open;
        self.overwritten += counts.overwritten;
        self.damaged += counts.damaged;
        self.dropped_full += counts.dropped_full;
        self.dropped_depth += counts.dropped_depth;
        self.dropped_signal += counts.dropped_signal;
        self.dropped_ends += counts.dropped_ends;
        self.dropped_extras += counts.dropped_extras;
        self.misused += counts.misused;
    }

    fn add_process(&mut self, followed: &Followed) {
        self.spans += followed.detached_spans;
        self.open += followed.detached_open;
        self.late_extras += followed.detached.late_extras;
        self.beyond_bounds += followed.detached.beyond_bounds;
        self.threads_refused += followed.process.threads_refused;
    }
}

struct FollowedRing {
    ring: Ring,
    /// Where it was when the round began.
    target: u64,
}

/// A process that is followed.
struct Followed {
    file: File,
    head: Vec<u8>,
    process: Process,
    rings: BTreeMap<String, FollowedRing>,
    /// Where rings are to be read from that have not been found yet.
    marks: BTreeMap<String, Mark>,
    /// The ring that was read last.
    turn: String,
    /// Rings that have ended and are given out.
    ended: BTreeSet<String>,
    detached: DetachedSpans,
    detached_spans: u64,
    detached_open: u64,
    /// When it last took an anchor.
    heard: Instant,
    check_at: Instant,
    check_pause: Duration,
    dead: bool,
}

/// How far a process was given out, by a checkpoint.
struct Restored {
    detached: DetachedSpans,
    marks: BTreeMap<String, Mark>,
    ended: BTreeSet<String>,
}

/// Programs that record to a directory.
pub struct Following {
    dir: PathBuf,
    resource: Vec<(String, String)>,
    processes: BTreeMap<String, Followed>,
    /// Processes that have ended and are given out.
    done: BTreeSet<String>,
    restored: BTreeMap<String, Restored>,
    listed: Option<(Instant, SystemTime)>,
    list_again: bool,
    turn: usize,
    gone: FollowCounts,
    problems: Vec<String>,
}

/// What a process of a [`Following`] gave out.
#[derive(Debug)]
pub struct Given {
    /// Spans, logs and metrics.
    pub piece: Piece,
    /// Name of the process.
    pub process: String,
}

impl Following {
    /// Follows programs that record to a directory, from a checkpoint on. Attributes of `resource`
    /// are added to processes that have no such ones.
    ///
    /// # Errors
    /// If the checkpoint is damaged.
    pub fn open(
        dir: &Path,
        resource: Vec<(String, String)>,
        checkpoint: Option<&[u8]>,
    ) -> Result<Self, String> {
        let mut following = Self {
            dir: dir.to_owned(),
            resource,
            processes: BTreeMap::new(),
            done: BTreeSet::new(),
            restored: BTreeMap::new(),
            listed: None,
            list_again: false,
            turn: 0,
            gone: FollowCounts::default(),
            problems: Vec::new(),
        };
        if let Some(bytes) = checkpoint {
            following.restore(bytes).ok_or("is damaged, or not a checkpoint")?;
        }
        Ok(following)
    }

    fn restore(&mut self, bytes: &[u8]) -> Option<()> {
        let mut from = Reader::new(bytes);
        if from.number()? != MAGIC {
            return None;
        }
        for _ in 0..from.number()? {
            self.done.insert(from.text()?);
        }
        for _ in 0..from.number()? {
            let name = from.text()?;
            let mut restored = Restored {
                detached: DetachedSpans::read(&mut from)?,
                marks: BTreeMap::new(),
                ended: BTreeSet::new(),
            };
            for _ in 0..from.number()? {
                restored.ended.insert(from.text()?);
            }
            for _ in 0..from.number()? {
                let ring = from.text()?;
                restored.marks.insert(ring, from.mark()?);
            }
            self.restored.insert(name, restored);
        }
        Some(())
    }

    /// How far everything has been given out.
    pub fn checkpoint(&mut self) -> Vec<u8> {
        let mut to = Writer::default();
        to.number(MAGIC);
        to.number(self.done.len() as u64);
        self.done.iter().for_each(|name| to.text(name));
        to.number((self.processes.len() + self.restored.len()) as u64);
        for (name, followed) in &mut self.processes {
            to.text(name);
            followed.detached.write(&mut to);
            to.number(followed.ended.len() as u64);
            followed.ended.iter().for_each(|ring| to.text(ring));
            to.number((followed.rings.len() + followed.marks.len()) as u64);
            for (ring, one) in &mut followed.rings {
                to.text(ring);
                to.mark(one.ring.mark());
            }
            for (ring, mark) in &followed.marks {
                to.text(ring);
                to.mark(mark);
            }
        }
        // Those whose files cannot be read at the moment.
        for (name, restored) in &self.restored {
            to.text(name);
            restored.detached.write(&mut to);
            to.number(restored.ended.len() as u64);
            restored.ended.iter().for_each(|ring| to.text(ring));
            to.number(restored.marks.len() as u64);
            for (ring, mark) in &restored.marks {
                to.text(ring);
                to.mark(mark);
            }
        }
        to.bytes()
    }

    /// What was given out is safe: programs with the policy drop get their room back.
    pub fn accepted(&mut self) {
        for (name, followed) in &mut self.processes {
            for one in followed.rings.values_mut() {
                let mark = one.ring.mark().clone();
                if let Err(error) = one.ring.give_room(&mark) {
                    let problem = format!("{name}: cannot give it room: {error}");
                    if self.problems.len() < PROBLEMS_MAX {
                        self.problems.push(problem);
                    }
                }
            }
        }
    }

    /// The attributes that processes get.
    pub fn resource(&self) -> &[(String, String)] {
        &self.resource
    }

    /// The process of what was given out by the last [`Self::poll`].
    pub fn process(&self, name: &str) -> Option<&Process> {
        self.processes.get(name).map(|followed| &followed.process)
    }

    /// What was counted.
    pub fn counts(&self) -> FollowCounts {
        let mut sum = self.gone;
        for followed in self.processes.values() {
            sum.add_process(followed);
            followed.rings.values().for_each(|one| sum.add_ring(&one.ring));
            sum.rings += followed.rings.len() as u64;
        }
        sum.processes = self.processes.len() as u64;
        sum
    }

    /// What could not be read, once.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// What was committed since the last call, and whether there is more. `lives` says whether a
    /// process still has its files, given its process id and name; it is asked of those that seem
    /// dead.
    pub fn poll(&mut self, lives: &mut dyn FnMut(u32, &str) -> bool) -> (Vec<Given>, bool) {
        let finished: Vec<String> = (self.processes.iter())
            .filter(|(_, followed)| followed.dead && followed.rings.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in finished {
            if let Some(followed) = self.processes.remove(&name) {
                self.gone.add_process(&followed);
                self.done.insert(name);
            }
        }
        self.list();
        let now = Instant::now();
        let mut died = false;
        for (name, followed) in &mut self.processes {
            if let Err(error) = followed.refresh_head(now) {
                note(&mut self.problems, format!("{name}.process: {error}"));
            }
            let silent = followed.process.stopped || now - followed.heard >= QUIET;
            if !followed.dead && silent && now >= followed.check_at {
                followed.dead = !lives(followed.process.pid, name);
                followed.check_pause = (followed.check_pause * 2).min(CHECK_PAUSE_MAX);
                followed.check_at = now + followed.check_pause;
                died |= followed.dead;
            }
        }
        if died {
            // Rings that it made at its end.
            self.listed = None;
            self.list();
        }
        let (mut given, mut more, mut blocks) = (Vec::new(), false, BLOCKS_MAX);
        // Another is the first each time, so that none waits for ever.
        self.turn = self.turn.wrapping_add(1);
        let mut names: Vec<String> = self.processes.keys().cloned().collect();
        let count = names.len().max(1);
        names.rotate_left(self.turn % count);
        for name in &names {
            let Some(followed) = self.processes.get_mut(name) else { continue };
            let (pieces, left) = followed.read(
                name,
                &self.resource,
                &mut blocks,
                &mut self.gone,
                &mut self.problems,
            );
            more |= left;
            given.extend(pieces.into_iter().map(|piece| Given { piece, process: name.clone() }));
        }
        (given, more)
    }

    /// Finds new processes and rings.
    fn list(&mut self) {
        let now = Instant::now();
        let changed = std::fs::metadata(&self.dir).and_then(|found| found.modified());
        let Ok(changed) = changed else {
            // It may not have been made yet.
            return;
        };
        if let Some((at, known)) = self.listed
            && known == changed
            && !(self.list_again && now - at >= LIST_PAUSE)
        {
            return;
        }
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        // Files may still be made at this very time.
        let is_fresh = changed.elapsed().is_ok_and(|age| age < MTIME_GRAIN);
        self.list_again = false;
        self.listed = (!is_fresh).then_some((now, changed));
        let mut rings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut found = BTreeSet::new();
        for entry in entries.flatten() {
            let file = entry.file_name();
            let Some(file) = file.to_str() else { continue };
            if let Some(name) = file.strip_suffix(".process") {
                found.insert(name.to_owned());
            } else if let Some(ring) = file.strip_suffix(".ring")
                && let Some((process, _)) = ring.split_once('.')
            {
                rings.entry(process.to_owned()).or_default().push(ring.to_owned());
            }
        }
        self.done.retain(|name| found.contains(name));
        self.restored.retain(|name, _| found.contains(name));
        for name in found.iter().filter(|name| !self.done.contains(*name)) {
            if !self.processes.contains_key(name) {
                match Followed::open(&self.dir, name, &self.resource) {
                    Ok(mut followed) => {
                        if let Some(restored) = self.restored.remove(name) {
                            followed.detached = restored.detached;
                            followed.ended = restored.ended;
                            followed.marks = restored.marks;
                        }
                        self.processes.insert(name.clone(), followed);
                    }
                    // It may be about to be made.
                    Err(_) => {
                        self.list_again = true;
                        continue;
                    }
                }
            }
            let Some(followed) = self.processes.get_mut(name) else { continue };
            for ring in rings.remove(name).unwrap_or_default() {
                if followed.rings.contains_key(&ring) || followed.ended.contains(&ring) {
                    continue;
                }
                match open_ring(&self.dir, &ring) {
                    Ok(mut opened) => {
                        if let Some(mark) = followed.marks.remove(&ring) {
                            opened.go_on(mark);
                        }
                        let target = opened.committed();
                        followed.rings.insert(ring, FollowedRing { ring: opened, target });
                    }
                    Err(problem) if followed.dead => {
                        note(&mut self.problems, format!("{ring}.ring {problem}"));
                    }
                    Err(_) => self.list_again = true,
                }
            }
        }
    }
}

fn note(problems: &mut Vec<String>, problem: String) {
    if problems.len() < PROBLEMS_MAX {
        problems.push(problem);
    }
}

fn open_ring(dir: &Path, name: &str) -> Result<Ring, String> {
    let path = dir.join(format!("{name}.ring"));
    // Room is given back in the file; without that right it is only read.
    if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
        return Err("is not a file".to_owned());
    }
    let file = OpenOptions::new().read(true).write(true).open(&path);
    let file = file.or_else(|_| File::open(&path)).map_err(|error| error.to_string())?;
    Ring::open(dir, name.to_owned(), file, crate::ring::segments_of(dir, name))
}

impl Followed {
    fn open(dir: &Path, name: &str, resource: &[(String, String)]) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let path = dir.join(format!("{name}.process"));
        if !std::fs::symlink_metadata(&path).map_err(text)?.is_file() {
            return Err("is not a file".to_owned());
        }
        let file = File::open(path).map_err(text)?;
        let mut head = vec![0; HEAD_BYTES];
        file.read_exact_at(&mut head, 0).map_err(text)?;
        let bytes = Process::used_bytes(&file, &head).map_err(text)?;
        let process = with(Process::parse(&bytes)?, resource);
        let now = Instant::now();
        Ok(Self {
            file,
            head,
            process,
            rings: BTreeMap::new(),
            marks: BTreeMap::new(),
            turn: String::new(),
            ended: BTreeSet::new(),
            detached: DetachedSpans::bounded(),
            detached_spans: 0,
            detached_open: 0,
            heard: now,
            check_at: now,
            check_pause: Duration::from_millis(500),
            dead: false,
        })
    }

    fn refresh_head(&mut self, now: Instant) -> std::io::Result<()> {
        let mut head = vec![0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, 0)?;
        if u64_at(&head, 72) != u64_at(&self.head, 72) {
            self.heard = now;
        }
        // Its names are read only when records are there that need them.
        self.head[72..80].copy_from_slice(&head[72..80]);
        self.process.stopped = crate::u32_at(&head, 48) == 2;
        self.process.threads_refused = u64_at(&head, 624);
        Ok(())
    }

    fn refresh_names(&mut self, resource: &[(String, String)]) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let mut head = vec![0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, 0).map_err(text)?;
        let bytes = Process::used_bytes(&self.file, &head).map_err(text)?;
        self.process = with(Process::parse(&bytes)?, resource);
        self.head = head;
        Ok(())
    }

    fn read(
        &mut self,
        name: &str,
        resource: &[(String, String)],
        blocks: &mut usize,
        gone: &mut FollowCounts,
        problems: &mut Vec<String>,
    ) -> (Vec<Piece>, bool) {
        let (mut pieces, mut more, mut news) = (Vec::new(), false, self.dead);
        for (ring, one) in &mut self.rings {
            if let Err(error) = one.ring.refresh() {
                note(problems, format!("{ring}.ring: {error}"));
            }
            news |= one.ring.given_out() < one.ring.committed() || one.ring.thread_ended();
        }
        // After the heads: the names of what is before them are there.
        if news && let Err(problem) = self.refresh_names(resource) {
            note(problems, format!("{name}.process {problem}"));
        }
        let mut ended = Vec::new();
        let mut order: Vec<String> = self.rings.keys().cloned().collect();
        let after = order.partition_point(|ring| *ring <= self.turn);
        order.rotate_left(after);
        for ring in &order {
            let Some(one) = self.rings.get_mut(ring) else { continue };
            if *blocks == 0 {
                more = true;
                break;
            }
            self.turn.clone_from(ring);
            let before = one.ring.given_out();
            let (found, left) = one.ring.follow(&self.process, RING_BLOCKS_MAX.min(*blocks));
            let read = one.ring.given_out().saturating_sub(before).div_ceil(one.ring.block_bytes());
            *blocks = blocks.saturating_sub(usize::try_from(read).unwrap_or(usize::MAX));
            for decoded in found {
                take(decoded, &mut self.detached, &mut pieces);
            }
            more |= left;
            if !left && (self.dead || one.ring.thread_ended()) {
                take(one.ring.end(&self.process), &mut self.detached, &mut pieces);
                ended.push(ring.clone());
            }
            for problem in one.ring.problems.drain(..) {
                note(problems, format!("{ring}: {problem}"));
            }
        }
        for ring in ended {
            if let Some(one) = self.rings.remove(&ring) {
                gone.add_ring(&one.ring);
                self.ended.insert(ring);
            }
        }
        if self.rings.values().all(|one| one.ring.given_out() >= one.target) {
            self.detached.next_round();
            for one in self.rings.values_mut() {
                one.target = one.ring.committed();
            }
        }
        let detached = if self.dead && self.rings.is_empty() {
            (!self.detached.is_empty()).then(|| self.detached.piece(0, |_| true))
        } else {
            self.detached.settled(0)
        };
        if let Some(piece) = detached {
            let open = piece.spans.iter().filter(|span| span.open).count() as u64;
            self.detached_open += open;
            self.detached_spans += piece.spans.len() as u64 - open;
            pieces.push(piece);
        }
        pieces.retain(|piece| {
            !(piece.spans.is_empty() && piece.logs.is_empty() && piece.metrics.is_empty())
        });
        (pieces, more)
    }
}

fn take(decoded: Decoded, detached: &mut DetachedSpans, pieces: &mut Vec<Piece>) {
    decoded.detached.into_iter().for_each(|record| detached.add(record));
    pieces.push(Piece {
        process: 0,
        spans: decoded.spans,
        logs: decoded.logs,
        metrics: decoded.metrics,
        extras: decoded.extras,
    });
}

fn with(mut process: Process, resource: &[(String, String)]) -> Process {
    for (key, value) in resource {
        if process.resource.iter().all(|(known, _)| known != key) {
            process.resource.push((key.clone(), value.clone()));
        }
    }
    process
}
