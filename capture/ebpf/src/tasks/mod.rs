//! Logical tasks: how the kernel side finds out which goroutine, asyncio task or virtual
//! thread makes a call. What is looked for differs between runtimes and their versions: it
//! is never guessed, and where it is not known there is no rule, which is counted. The
//! looking is done on a thread of its own, for programs can be large.

mod go;
mod memory;
mod probes;
mod python;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::kernel::{Kernel, TaskKind, TaskRule};
use crate::processes::environment_variable;
use probes::{Probed, Probes};

/// A process is looked at when it is heard of, and again after each of these, for a
/// runtime may be loaded late.
const LOOK_AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];
/// Most processes that wait to be looked at.
const MAX_WAITING: usize = 16_384;

/// A process that has this variable with the value `off` has no rule.
const SWITCH: &str = "SPANWISE_TASKS";

/// What is known of the tasks of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// Its runtime has none, or none that is known of: threads are all there is.
    None,
    /// They cannot be read, for this reason.
    Unknown(TaskKind, String),
    /// They can.
    Known(TaskRule),
    /// They can, and by which others they are made is heard of at these places.
    Probed(TaskRule, Probes),
}

/// What is remembered from one process to the next.
#[derive(Default)]
pub(crate) struct Looker {
    go: go::Programs,
}

impl Looker {
    /// How the tasks of a process are read.
    pub(crate) fn tasks(&mut self, process: u32) -> Tasks {
        let Ok(executable) = File::open(format!("/proc/{process}/exe")) else {
            return Tasks::None;
        };
        let found = match self.go.tasks(&executable) {
            Tasks::None => python::tasks(process),
            found => found,
        };
        if matches!(found, Tasks::Known(_) | Tasks::Probed(..))
            && environment_variable(process, SWITCH).as_deref() == Some("off")
        {
            return Tasks::None;
        }
        found
    }
}

/// Looks at processes until nobody asks any more.
fn look(asked: &Receiver<u32>, seen: &Sender<(u32, Tasks)>, done: &AtomicU64) {
    let mut looker = Looker::default();
    while let Ok(process) = asked.recv() {
        let told = seen.send((process, looker.tasks(process)));
        done.fetch_add(1, Ordering::Release);
        if told.is_err() {
            return;
        }
    }
}

/// What became of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Asked,
    Known(TaskKind),
    Unknown(TaskKind),
}

/// Has the tasks of processes read.
pub(crate) struct TaskRules {
    ask: Sender<u32>,
    /// How many processes were asked for, and how many of these looked at.
    asked: u64,
    done: Arc<AtomicU64>,
    seen: Receiver<(u32, Tasks)>,
    waiting: Vec<(Instant, u32)>,
    processes: HashMap<u32, Followed>,
    probed: Probed,
    /// Processes that have ended since the last tick.
    gone: Vec<u32>,
    /// Reasons that were given already.
    said: HashSet<String>,
}

impl TaskRules {
    /// Looks at all processes that run now.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (ask, asked) = channel();
        let (tell, seen) = channel();
        let done = Arc::new(AtomicU64::new(0));
        std::thread::Builder::new().name("tasks".to_owned()).spawn({
            let done = Arc::clone(&done);
            move || look(&asked, &tell, &done)
        })?;
        let mut rules = Self {
            ask,
            asked: 0,
            done,
            seen,
            waiting: Vec::new(),
            processes: HashMap::new(),
            probed: Probed::start()?,
            gone: Vec::new(),
            said: HashSet::new(),
        };
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                rules.ask(process);
            }
        }
        Ok(rules)
    }

    fn ask(&mut self, process: u32) {
        let waiting = self.asked - self.done.load(Ordering::Acquire);
        if waiting < MAX_WAITING as u64 && self.ask.send(process).is_ok() {
            self.asked += 1;
            self.processes.entry(process).or_insert(Followed::Asked);
        }
    }

    /// A process runs a new program.
    pub(crate) fn started(&mut self, process: u32) {
        self.ended(process);
        self.look(process);
    }

    /// A process was heard of, which may have been forked by another one.
    pub(crate) fn met(&mut self, process: u32) {
        if !self.processes.contains_key(&process) {
            self.look(process);
        }
    }

    fn look(&mut self, process: u32) {
        self.ask(process);
        if self.waiting.len() < MAX_WAITING {
            let now = Instant::now();
            self.waiting.extend(LOOK_AGAIN.map(|pause| (now + pause, process)));
        }
    }

    /// A process has ended, or runs another program.
    pub(crate) fn ended(&mut self, process: u32) {
        if self.processes.remove(&process).is_some() {
            self.probed.ended(process);
            self.gone.push(process);
        }
    }

    /// Gives rules to the kernel side as far as that is due.
    pub(crate) fn tick(&mut self, kernel: &Kernel) {
        for process in self.gone.drain(..) {
            kernel.remove_task_rule(process);
        }
        self.probed.tick();
        let now = Instant::now();
        let (due, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let due: Vec<(Instant, u32)> = due;
        for (_, process) in due {
            if matches!(self.processes.get(&process), Some(Followed::Asked)) {
                self.ask(process);
            }
        }
        while let Ok((process, tasks)) = self.seen.try_recv() {
            // It may have ended meanwhile.
            if matches!(self.processes.get(&process), Some(Followed::Asked)) {
                self.found(kernel, process, tasks);
            }
        }
    }

    fn found(&mut self, kernel: &Kernel, process: u32, tasks: Tasks) {
        let followed = match tasks {
            Tasks::None => return,
            Tasks::Known(rule) => self.set(kernel, process, &rule),
            Tasks::Probed(rule, probes) => match self.probed.set(kernel, process, &probes) {
                Ok(()) => self.set(kernel, process, &rule),
                Err(reason) => self.unknown(process, rule.kind, reason),
            },
            Tasks::Unknown(kind, reason) => self.unknown(process, kind, reason),
        };
        self.processes.insert(process, followed);
    }

    fn set(&mut self, kernel: &Kernel, process: u32, rule: &TaskRule) -> Followed {
        match kernel.set_task_rule(process, rule) {
            Ok(()) => Followed::Known(rule.kind),
            Err(reason) => self.unknown(process, rule.kind, reason),
        }
    }

    fn unknown(&mut self, process: u32, kind: TaskKind, reason: String) -> Followed {
        if self.said.len() < MAX_WAITING && !self.said.contains(&reason) {
            tracing::warn!(
                "requests inside process {process} are linked where only one is open: {reason}"
            );
            self.said.insert(reason);
        }
        Followed::Unknown(kind)
    }

    /// How many processes have rules, and how many should have, by counters' names.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::from([
            ("processes_with_goroutines_followed", 0),
            ("processes_with_tasks_unknown", 0),
        ]);
        for followed in self.processes.values() {
            let name = match followed {
                Followed::Asked => continue,
                Followed::Known(kind) => kind.counter(),
                Followed::Unknown(_) => "processes_with_tasks_unknown",
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

impl TaskKind {
    /// Counts processes whose tasks are read.
    const fn counter(self) -> &'static str {
        match self {
            Self::Go => "processes_with_goroutines_followed",
            Self::Python => "processes_with_python_contexts_followed",
            Self::Jvm => "processes_with_virtual_threads_followed",
        }
    }
}
