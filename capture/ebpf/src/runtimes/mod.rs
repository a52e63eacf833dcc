//! Logical tasks: how the kernel side finds the goroutine, asyncio task or virtual thread that
//! makes a call. This depends on the runtime and its version. Nothing is guessed. If the layout is
//! unknown, there is no rule, and that is counted. A separate thread examines processes, because
//! programs can be large.

mod glibc;
mod go;
mod greenlets;
mod handoff;
mod jvm;
mod memory;
mod python;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::kernel::{Function, Kernel, TaskKind, TaskRule};
use crate::probed::{FileId, ProbedFiles, Set};
use spanwise_capture_host::processes::environment_variable;

/// A process is examined when it is first seen, and again after each of these times, because a
/// runtime may be loaded late. Most are during startup, because connections made before are
/// followed less well.
const LOOK_AGAIN: [Duration; 8] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(1500),
    Duration::from_millis(2500),
    Duration::from_millis(4000),
    Duration::from_millis(7000),
    Duration::from_secs(15),
];
/// Interval at which unused files with probes are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Interval at which processes that may start to report their tasks are checked.
const TELLS_EVERY: Duration = Duration::from_secs(3);
/// Maximum processes that wait to be examined.
const MAX_WAITING: usize = 16_384;

/// A process with this environment variable set to `off` gets no rule.
const SWITCH: &str = "SPANWISE_TASKS";

/// Functions of a file that are probed for a rule.
#[derive(Debug)]
pub(crate) struct Probes {
    pub(crate) file: FileId,
    /// Kept open, so that it is available after the process has ended.
    pub(crate) handle: File,
    /// Required for the rule.
    pub(crate) functions: Vec<Function>,
    /// Functions that create tasks. Probed only if it turns out to matter, because they are called
    /// often.
    pub(crate) births: Vec<Function>,
    /// Functions in which a task gives others what they wait for; likewise.
    pub(crate) gives: Vec<Function>,
    /// Probes of a library that belongs to it.
    pub(crate) also: Option<Box<Self>>,
    /// Why some kinds of tasks cannot be read.
    pub(crate) missing: Option<String>,
}

impl Probes {
    /// Probes of one file.
    pub(crate) const fn new(
        file: FileId,
        handle: File,
        functions: Vec<Function>,
        births: Vec<Function>,
    ) -> Self {
        Self { file, handle, functions, births, gives: Vec::new(), also: None, missing: None }
    }
}

/// What is known about the tasks of a process.
#[derive(Debug)]
pub(crate) enum Tasks {
    /// Its runtime has no tasks, or none that are supported. Only threads count.
    None,
    /// They cannot be read, for this reason.
    Unknown(String),
    /// They can be read by this rule.
    Known(TaskRule, Option<Probes>),
    /// Like the inner value, until the program itself starts to report its tasks, which may happen
    /// at any time.
    MayTell(Box<Tasks>),
}

/// State that is kept between processes.
#[derive(Default)]
pub(crate) struct Looker {
    go: go::Programs,
}

impl Looker {
    /// How to read the tasks of a process.
    pub(crate) fn tasks(&mut self, process: u32) -> Tasks {
        let Ok(executable) = File::open(format!("/proc/{process}/exe")) else {
            return Tasks::None;
        };
        let mapped = memory::mappings(process);
        let table = handoff::table(process, &mapped);
        let found = match self.go.tasks(executable) {
            Tasks::None => match python::tasks(process, &mapped) {
                Tasks::None => jvm::tasks(process, &mapped, table),
                found => found,
            },
            found => found,
        };
        let found = match (found, table) {
            (Tasks::None, Some(table)) => Tasks::Known(table.rule(), None),
            (found, _) => found,
        };
        if matches!(found, Tasks::Known(..) | Tasks::MayTell(_))
            && environment_variable(process, SWITCH).as_deref() == Some("off")
        {
            return Tasks::None;
        }
        found
    }
}

/// What is currently known about the tasks of all processes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Survey {
    /// Number of processes whose tasks are read, by kind.
    pub followed: BTreeMap<&'static str, usize>,
    /// Number of processes whose tasks should be read but cannot be, by reason.
    pub unknown: BTreeMap<String, usize>,
}

/// Examines all running processes.
pub fn survey() -> Survey {
    let mut survey = Survey::default();
    let mut looker = Looker::default();
    for process in running() {
        let tasks = match looker.tasks(process) {
            Tasks::MayTell(tasks) => *tasks,
            tasks => tasks,
        };
        match tasks {
            Tasks::None | Tasks::MayTell(_) => {}
            Tasks::Known(rule, probes) => {
                for kind in kinds(&rule) {
                    *survey.followed.entry(kind.name()).or_default() += 1;
                }
                if let Some(reason) = probes.and_then(|probes| probes.missing) {
                    *survey.unknown.entry(reason).or_default() += 1;
                }
            }
            Tasks::Unknown(reason) => *survey.unknown.entry(reason).or_default() += 1,
        }
    }
    survey
}

fn running() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The kinds of tasks that a rule reads.
fn kinds(rule: &TaskRule) -> impl Iterator<Item = TaskKind> {
    let tells = rule.kind == TaskKind::Jvm && handoff::is_part_of(rule);
    [Some(rule.kind), tells.then_some(TaskKind::Told)].into_iter().flatten()
}

/// A process to examine, and whether only for its own task table.
type Asked = (u32, bool);

/// Examines processes until the channel closes.
fn look(asked: &Receiver<Asked>, seen: &Sender<(u32, Tasks)>, done: &AtomicU64) {
    let mut looker = Looker::default();
    while let Ok((process, only_told)) = asked.recv() {
        let due = !only_told || handoff::table(process, &memory::mappings(process)).is_some();
        let told = if due { seen.send((process, looker.tasks(process))) } else { Ok(()) };
        done.fetch_add(1, Ordering::Release);
        if told.is_err() {
            return;
        }
    }
}

/// Functions that are called often, and probed only if it turns out to matter.
#[derive(Debug, Default)]
struct OnDemand {
    births: Vec<Function>,
    gives: Vec<Function>,
}

/// The state of a process.
#[derive(Debug)]
enum Followed {
    Asked,
    /// Also the functions of its executable that are probed only if it matters.
    Known(TaskRule, OnDemand),
    Unknown,
}

/// Makes the kernel side read the tasks of processes.
pub struct TaskRules {
    ask: Sender<Asked>,
    /// Number of requested and of completed examinations.
    asked: u64,
    done: Arc<AtomicU64>,
    seen: Receiver<(u32, Tasks)>,
    waiting: Vec<(Instant, u32)>,
    processes: HashMap<u32, Followed>,
    /// Files with probes, and those with probes on task creation.
    probed: ProbedFiles,
    births: ProbedFiles,
    /// Files with probes on the handing over of work.
    gives: ProbedFiles,
    swept: Instant,
    /// Processes that may start to report their tasks, and when they were last checked.
    may_tell: HashSet<u32>,
    may_tell_looked: Instant,
    /// Processes that have ended since the last tick.
    gone: Vec<u32>,
    /// Reasons that were already logged.
    said: HashSet<String>,
}

impl TaskRules {
    /// Examines all running processes.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start() -> std::io::Result<Self> {
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
            probed: ProbedFiles::start()?,
            births: ProbedFiles::start()?,
            gives: ProbedFiles::start()?,
            swept: Instant::now(),
            may_tell: HashSet::new(),
            may_tell_looked: Instant::now(),
            gone: Vec::new(),
            said: HashSet::new(),
        };
        running().for_each(|process| rules.ask(process, false));
        Ok(rules)
    }

    fn ask(&mut self, process: u32, only_told: bool) {
        let waiting = self.asked - self.done.load(Ordering::Acquire);
        if waiting < MAX_WAITING as u64 && self.ask.send((process, only_told)).is_ok() {
            self.asked += 1;
            self.processes.entry(process).or_insert(Followed::Asked);
        }
    }

    /// A process executes a new program.
    pub fn started(&mut self, process: u32) {
        self.ended(process);
        self.look(process);
    }

    /// A process was seen, which may have been forked.
    pub fn met(&mut self, process: u32) {
        if !self.processes.contains_key(&process) {
            self.look(process);
        }
    }

    fn look(&mut self, process: u32) {
        self.ask(process, false);
        if self.waiting.len() < MAX_WAITING {
            let now = Instant::now();
            self.waiting.extend(LOOK_AGAIN.map(|pause| (now + pause, process)));
        }
    }

    /// A process has ended, or executes another program.
    pub fn ended(&mut self, process: u32) {
        self.may_tell.remove(&process);
        if self.processes.remove(&process).is_some() {
            self.gone.push(process);
        }
    }

    /// Others may be wanted from now on.
    pub fn wanted_anew(&mut self) {
        running().for_each(|process| self.met(process));
    }

    /// Gives rules to the kernel side as far as that is due, of processes that are `wanted`.
    pub fn tick(&mut self, kernel: &Kernel, mut wanted: impl FnMut(u32) -> bool) {
        for process in self.gone.drain(..) {
            kernel.remove_task_rule(process);
        }
        let now = Instant::now();
        let (due, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let due: Vec<(Instant, u32)> = due;
        for (_, process) in due {
            if self.may_change(process) {
                self.ask(process, false);
            }
        }
        if now - self.may_tell_looked >= TELLS_EVERY {
            self.may_tell_looked = now;
            for process in self.may_tell.iter().copied().collect::<Vec<_>>() {
                self.ask(process, true);
            }
        }
        while let Ok((process, tasks)) = self.seen.try_recv() {
            // It may have ended meanwhile.
            if !self.may_change(process) {
                continue;
            }
            if wanted(process) {
                self.found(kernel, process, tasks);
            } else {
                // It is looked at again when it has a connection that is.
                self.processes.remove(&process);
            }
        }
        if now - self.swept >= SWEEP_EVERY {
            self.swept = now;
            self.probed.sweep();
            self.births.sweep();
            self.gives.sweep();
        }
    }

    /// Whether the result for a process may change: it has not been examined, or may load a
    /// library.
    fn may_change(&self, process: u32) -> bool {
        match self.processes.get(&process) {
            Some(Followed::Asked) => true,
            Some(Followed::Known(rule, _)) => match rule.kind {
                TaskKind::Python => true,
                TaskKind::Jvm => !handoff::is_part_of(rule),
                TaskKind::Go | TaskKind::Told => false,
            },
            // It may just have started.
            Some(Followed::Unknown) => true,
            None => false,
        }
    }

    fn found(&mut self, kernel: &Kernel, process: u32, tasks: Tasks) {
        let tasks = match tasks {
            Tasks::MayTell(tasks) => {
                self.may_tell.insert(process);
                *tasks
            }
            tasks => {
                self.may_tell.remove(&process);
                tasks
            }
        };
        let followed = match tasks {
            Tasks::None | Tasks::MayTell(_) => return,
            Tasks::Known(rule, probes) => match self.follow(kernel, process, &rule, &probes) {
                Ok(true) => {
                    if let Some(reason) = probes.as_ref().and_then(|probes| probes.missing.clone())
                    {
                        self.say(process, reason);
                    }
                    let later =
                        probes.map(|Probes { births, gives, .. }| OnDemand { births, gives });
                    Followed::Known(rule, later.unwrap_or_default())
                }
                Ok(false) => {
                    self.waiting.push((Instant::now() + LOOK_AGAIN[0], process));
                    return;
                }
                Err(reason) => self.unknown(process, reason),
            },
            Tasks::Unknown(reason) => self.unknown(process, reason),
        };
        self.processes.insert(process, followed);
    }

    /// Attaches the probes of a rule, then sets the rule. Returns `false` if that must wait.
    fn follow(
        &mut self,
        kernel: &Kernel,
        process: u32,
        rule: &TaskRule,
        probes: &Option<Probes>,
    ) -> Result<bool, String> {
        let mut next = probes.as_ref();
        while let Some(Probes { file, handle, functions, also, .. }) = next {
            next = also.as_deref();
            if functions.is_empty() {
                continue;
            }
            match self.probed.set(kernel, process, *file, handle, functions) {
                Set::Now | Set::Before => {}
                Set::Later => return Ok(false),
                Set::Refused(reason) => return Err(reason),
            }
        }
        kernel.set_task_rule(process, rule).map(|()| true)
    }

    /// A process has made calls in tasks with an unknown creator. From now on, the creation of
    /// tasks is observed.
    pub fn watch_births(&mut self, kernel: &Kernel, process: u32) {
        let Some(Followed::Known(rule, OnDemand { births, .. })) = self.processes.get_mut(&process)
        else {
            return;
        };
        if births.is_empty() {
            return;
        }
        let Ok(executable) = File::open(format!("/proc/{process}/exe")) else { return };
        let Ok(file) = FileId::of(&executable) else { return };
        match self.births.set(kernel, process, file, &executable, births) {
            // The caller retries.
            Set::Later => return,
            Set::Now | Set::Before => {
                *rule = go::with_births(rule);
                if let Err(reason) = kernel.set_task_rule(process, rule) {
                    tracing::debug!("tasks of process {process} are followed less far: {reason}");
                }
            }
            Set::Refused(reason) => {
                tracing::debug!("tasks of process {process} are followed less far: {reason}");
            }
        }
        births.clear();
    }

    /// Tasks of a process go on with the work of others. From now on, it is observed who gives it
    /// to them.
    pub fn watch_gifts(&mut self, kernel: &Kernel, process: u32) {
        let Some(Followed::Known(rule, OnDemand { gives, .. })) = self.processes.get_mut(&process)
        else {
            return;
        };
        if gives.is_empty() {
            return;
        }
        let Ok(executable) = File::open(format!("/proc/{process}/exe")) else { return };
        let Ok(file) = FileId::of(&executable) else { return };
        match self.gives.set(kernel, process, file, &executable, gives) {
            // The caller retries.
            Set::Later => return,
            Set::Now | Set::Before => {
                *rule = go::with_gifts(rule);
                if let Err(reason) = kernel.set_task_rule(process, rule) {
                    tracing::debug!(
                        "who gives work to tasks of process {process} is not told: {reason}"
                    );
                }
            }
            Set::Refused(reason) => {
                tracing::debug!(
                    "who gives work to tasks of process {process} is not seen: {reason}"
                );
            }
        }
        gives.clear();
    }

    fn unknown(&mut self, process: u32, reason: String) -> Followed {
        self.say(process, reason);
        Followed::Unknown
    }

    fn say(&mut self, process: u32, reason: String) {
        if self.said.len() < MAX_WAITING && !self.said.contains(&reason) {
            tracing::warn!(
                "requests inside process {process} are linked where only one is open: {reason}"
            );
            self.said.insert(reason);
        }
    }

    /// Counters: number of processes with rules, and of those that should have one.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::from([
            ("processes_with_goroutines_followed", 0),
            ("processes_with_tasks_unknown", 0),
        ]);
        for followed in self.processes.values() {
            match followed {
                Followed::Asked => {}
                Followed::Known(rule, _) => {
                    for kind in kinds(rule) {
                        *counts.entry(kind.counter()).or_default() += 1;
                    }
                }
                Followed::Unknown => {
                    *counts.entry("processes_with_tasks_unknown").or_default() += 1;
                }
            }
        }
        counts
    }
}

impl TaskKind {
    /// The kind of task, for display.
    const fn name(self) -> &'static str {
        match self {
            Self::Go => "goroutines",
            Self::Python => "Python contexts and greenlets",
            Self::Jvm => "virtual threads",
            Self::Told => "work handed between threads",
        }
    }

    /// The counter of processes whose tasks of this kind are read.
    const fn counter(self) -> &'static str {
        match self {
            Self::Go => "processes_with_goroutines_followed",
            Self::Python => "processes_with_python_contexts_followed",
            Self::Jvm => "processes_with_virtual_threads_followed",
            Self::Told => "processes_with_handed_work_followed",
        }
    }
}
