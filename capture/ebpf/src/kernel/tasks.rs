//! Tells the kernel side how to read the logical tasks of a process: writes `struct task_rule` of
//! `bpf/task.h`.

use libbpf_rs::{MapCore, MapFlags};

use super::{Kernel, objects};

/// Number of field offsets in a rule.
const OFFSETS: usize = 14;
/// Number of addresses in a rule.
const ADDRESSES: usize = 4;

/// The program that observes thread creation.
pub(super) const THREAD_MADE: &str = "thread_made";

/// The kind of logical tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum TaskKind {
    /// Goroutines.
    Go = 1,
    /// The current context of a Python thread, or its greenlet.
    Python = 2,
    /// Virtual threads of a JVM.
    Jvm = 3,
    /// Work items that the process itself reports.
    Told = 4,
}

/// How to find the current task of a process's thread in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskRule {
    pub(crate) kind: TaskKind,
    /// The runtime's file in `bpf/` defines their meaning.
    pub(crate) offsets: [i32; OFFSETS],
    /// Addresses in the process's memory, likewise.
    pub(crate) addresses: [u64; ADDRESSES],
}

impl TaskRule {
    /// A rule with these offsets and no addresses.
    pub(crate) fn new(kind: TaskKind, offsets: &[i32]) -> Self {
        let mut rule = Self { kind, offsets: [0; OFFSETS], addresses: [0; ADDRESSES] };
        rule.offsets.iter_mut().zip(offsets).for_each(|(to, from)| *to = *from);
        rule
    }

    fn layout(&self) -> Vec<u8> {
        let mut bytes = (self.kind as u32).to_ne_bytes().to_vec();
        bytes.extend(self.offsets.iter().flat_map(|offset| offset.to_ne_bytes()));
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(self.addresses.iter().flat_map(|address| address.to_ne_bytes()));
        bytes
    }
}

impl Kernel {
    /// Sets the rule for a process.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn set_task_rule(&self, process: u32, rule: &TaskRule) -> Result<(), String> {
        let map = self.object.maps().find(|map| map.name() == "task_rules");
        let map = map.ok_or_else(|| "it has no such map".to_owned())?;
        map.update(&process.to_ne_bytes(), &rule.layout(), MapFlags::ANY)
            .map_err(|error| format!("{error:#}"))?;
        // Sockets that remember that their process has no rule check again.
        let generation =
            self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".data.tasks"));
        let Some(generation) = generation else { return Ok(()) };
        let key = 0u32.to_ne_bytes();
        let now = generation.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
        let now = now.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let next = (now + 1) & u64::from(u32::MAX);
        generation
            .update(&key, &next.max(1).to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| format!("{error:#}"))
    }

    /// Reports thread creation in this process from now on, until it ends or executes another
    /// program.
    pub fn watch_threads(&self, process: u32) {
        let attached = &mut *self.thread_made.lock();
        if attached.is_none() {
            let tried = objects::attach(&self.object, &[THREAD_MADE]);
            if let Err(reason) = &tried {
                tracing::info!("by which other thread a thread is made stays unseen: {reason}");
            }
            *attached = Some(tried.unwrap_or_default());
        }
        let map = self.object.maps().find(|map| map.name() == "thread_makers");
        let told = map.map(|map| map.update(&process.to_ne_bytes(), &[1], MapFlags::ANY));
        if let Some(Err(error)) = told {
            tracing::debug!("threads of process {process} are not followed: {error}");
        }
    }

    /// Removes the rule of a process that has ended or executes another program.
    pub(crate) fn remove_task_rule(&self, process: u32) {
        if let Some(map) = self.object.maps().find(|map| map.name() == "task_rules") {
            // There may be no rule.
            let _ = map.delete(&process.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_laid_out_as_the_kernel_side_reads_it() {
        let mut rule = TaskRule::new(TaskKind::Go, &[-8, 152]);
        rule.addresses[3] = 7;
        let bytes = rule.layout();
        assert_eq!(bytes.len(), 96);
        assert_eq!(bytes[..12], [[1, 0, 0, 0], [0xf8, 0xff, 0xff, 0xff], [152, 0, 0, 0]].concat());
        assert_eq!(bytes[88..], 7_u64.to_ne_bytes());
    }
}
