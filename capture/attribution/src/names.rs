//! Names for tasks that are known by the address of an object: another may stand there
//! later, so whatever is made gets a number of its own.

use ahash::AHashMap;

use super::lineage::Recent;

/// No address, and no number that a runtime gives its tasks, has this bit.
const NAMED: u64 = 1 << 63;

/// Numbers for tasks whose addresses are used again.
#[derive(Debug, Default)]
pub struct Names {
    processes: AHashMap<u32, Recent<u64, u64>>,
    given: u64,
}

impl Names {
    /// A task is made at this address: its name, and that of the one which was there
    /// before, and has ended.
    pub fn made(&mut self, process: u32, address: u64) -> (u64, Option<u64>) {
        self.given += 1;
        let name = self.given | NAMED;
        let names = self.processes.entry(process).or_default();
        let former = names.get(&address);
        names.insert(address, name);
        (name, former)
    }

    /// The name of a task; what the kernel side says where it was not seen to be made.
    pub fn of(&mut self, process: u32, task: u64) -> u64 {
        if task == 0 || self.processes.is_empty() {
            return task;
        }
        let names = self.processes.get_mut(&process);
        names.and_then(|names| names.get(&task)).unwrap_or(task)
    }

    /// A process has ended, or runs another program.
    pub fn forget(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Events were lost, and there may be other tasks where those were that have names.
    pub fn forget_all(&mut self) {
        self.processes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_another_task_whenever_one_is_made_there() {
        let mut names = Names::default();
        assert_eq!(names.of(1, 0x50), 0x50);
        let (first, before) = names.made(1, 0x50);
        assert_eq!(before, None);
        assert_eq!([names.of(1, 0x50), names.of(2, 0x50), names.of(1, 0)], [first, 0x50, 0]);
        let (second, before) = names.made(1, 0x50);
        assert_ne!(first, second);
        assert_eq!(before, Some(first));
        assert_eq!(names.of(1, 0x50), second);
        names.forget(1);
        assert_eq!(names.of(1, 0x50), 0x50);
        names.made(2, 0x50);
        names.forget_all();
        assert_eq!(names.of(2, 0x50), 0x50);
    }
}
