//! Python contexts. The current context of `contextvars` is different for every asyncio task and
//! callback, and for every call that `to_thread` moves to a thread, whatever loop runs them.
//! CPython keeps it in the state of the thread (`PyThreadState.context`), also while the
//! interpreter's lock is released for a system call. The state is found in the C library's
//! thread-specific data, as `PyGILState_Ensure` does.
//!
//! Greenlets count where no context is entered: `greenlets.rs`.
//!
//! None of this is a stable interface. So offsets are listed by version (from CPython's headers,
//! for 64-bit machines), and verified in each process: each of its thread states must be found in
//! the data of the thread that it names, and the assumed context must be an object of that type.
//! Builds without the lock and debug builds have other offsets, and get no rule.
//!
//! Bytes are read in the context of a connection's reader, and requests are handled in other
//! contexts. `capture/attribution` (`lineage.rs`) relates them. If a socket is full, the rest is
//! sent in a callback that was created by the task that wrote first.

use std::path::{Path, PathBuf};

use super::glibc::{place_of_state, threads};
use super::greenlets::{Greenlets, greenlets};
use super::memory::{Image, Mapping, Memory};
use super::{Probes, Tasks};
use crate::kernel::{Function, ProbeKind, TaskKind, TaskRule};
use crate::probed::FileId;

/// Offsets, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// `_PyRuntimeState.interpreters.head`.
    interpreters: u64,
    /// `PyInterpreterState.next`.
    next_interpreter: u64,
    /// `PyInterpreterState`'s list of thread states.
    states: u64,
    /// `PyThreadState.thread_id`, which is what `pthread_self` says.
    thread_id: u64,
    /// `PyThreadState.context`.
    context: u64,
}

/// By the minor version of Python 3.
const LAYOUTS: &[(u32, Layout)] = &[
    (8, layout(32, 0, 8, 176, 240)),
    (9, layout(32, 0, 8, 176, 240)),
    (10, layout(32, 0, 8, 176, 240)),
    (11, layout(40, 0, 16, 152, 224)),
    (12, layout(40, 0, 72, 136, 208)),
    (13, layout(632, 7264, 7344, 152, 208)),
];

const fn layout(
    interpreters: u64,
    next_interpreter: u64,
    states: u64,
    thread_id: u64,
    context: u64,
) -> Layout {
    Layout { interpreters, next_interpreter, states, thread_id, context }
}

/// `PyThreadState.next`, in all of these versions.
const NEXT_STATE: u64 = 8;
/// `PyObject.ob_type`.
const TYPE: u64 = 8;
/// `PyContext.ctx_entered`, in all of these versions.
const ENTERED: u64 = 40;
/// `PyTypeObject.tp_methods`, and the size of an entry of that array.
const METHODS: u64 = 232;
const METHOD_BYTES: u64 = 32;

/// Maximum thread states and interpreters that are checked.
const MAX_STATES: usize = 64;
const MAX_INTERPRETERS: usize = 16;
/// Functions that create a context.
const MAKERS: &[&str] = &["PyContext_CopyCurrent", "PyContext_Copy", "PyContext_New"];

/// Prefix of the file name of a Python library.
const LIBRARY: &str = "libpython";
const PROGRAM: &str = "python";

/// How to read the contexts of a process; none if it does not run Python.
pub(super) fn tasks(process: u32, mapped: &[Mapping]) -> Tasks {
    let Some((path, minor)) = interpreter(mapped) else { return Tasks::None };
    match rule(process, mapped, &path, minor) {
        Ok((rule, probes)) => Tasks::Known(rule, Some(probes)),
        Err(Refusal::Later) => Tasks::None,
        Err(Refusal::Never(reason)) => Tasks::Unknown(reason),
    }
}

/// Why there is no rule.
enum Refusal {
    /// The interpreter has not started yet.
    Later,
    Never(String),
}

/// The file that contains the interpreter, and the minor version of Python 3 in its name.
fn interpreter(mapped: &[Mapping]) -> Option<(PathBuf, u32)> {
    let version = |mapping: &Mapping, prefix: &str| {
        let name = mapping.path.file_name()?.to_str()?;
        Some((mapping.path.clone(), minor_version(name.strip_prefix(prefix)?)?))
    };
    let library = mapped.iter().find_map(|mapping| version(mapping, LIBRARY));
    library.or_else(|| mapped.iter().find_map(|mapping| version(mapping, PROGRAM)))
}

/// Parses `3.11`, `3.11.so.1.0` and the like.
fn minor_version(text: &str) -> Option<u32> {
    let text = text.strip_prefix("3.")?;
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn rule(
    process: u32,
    mapped: &[Mapping],
    path: &Path,
    minor: u32,
) -> Result<(TaskRule, Probes), Refusal> {
    let never = |reason: String| Refusal::Never(format!("{}: {reason}", path.display()));
    if !cfg!(target_arch = "x86_64") {
        return Err(never("contexts of Python are followed on x86-64 only".to_owned()));
    }
    let layout = LAYOUTS.iter().find(|(version, _)| *version == minor).map(|(_, layout)| layout);
    let layout =
        layout.ok_or_else(|| never(format!("the places of Python 3.{minor} are not known")))?;
    let image = Image::open(process, mapped, path).ok_or(Refusal::Later)?;
    let Some((runtime, context_type)) =
        image.address("_PyRuntime").zip(image.address("PyContext_Type"))
    else {
        // The symbols are in the program's library, which is loaded first of all.
        let is_library = path
            .file_name()
            .is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with(LIBRARY)));
        let reason = "it does not export _PyRuntime and PyContext_Type".to_owned();
        return Err(if is_library { never(reason) } else { Refusal::Later });
    };
    let memory = Memory::open(process)
        .map_err(|error| never(format!("its memory cannot be read: {error}")))?;
    let states = states(&memory, runtime, layout);
    if states.is_empty() {
        return Err(Refusal::Later);
    }
    let library = threads(process, mapped)
        .ok_or_else(|| never("its C library does not say where a thread's data is".to_owned()))?;
    let (block, state) = place_of_state(&memory, &library, &states)
        .ok_or_else(|| never("its thread states are not where they should be".to_owned()))?;
    for (state, _) in &states {
        let Some(context) = memory.word(state + layout.context).filter(|context| *context != 0)
        else {
            continue;
        };
        if memory.word(context + TYPE) != Some(context_type) {
            return Err(never("its contexts are not where they should be".to_owned()));
        }
    }
    let mut offsets = vec![block, state, layout.context, TYPE, ENTERED];
    let (begin, end) = event_loop(mapped).unwrap_or_default();
    let mut addresses = [context_type, begin, end, 0];
    let mut probes = probes(&memory, image, context_type)
        .ok_or_else(|| never("it cannot be probed".to_owned()))?;
    let threads: Vec<u64> = states.iter().map(|(_, thread)| *thread).collect();
    match greenlets(process, mapped, &memory, &threads) {
        Ok(None) => {}
        Ok(Some(Greenlets { vector, module, variable, kind, probes: made })) => {
            offsets.extend([vector, module, variable]);
            addresses[3] = kind;
            probes.also = Some(Box::new(made));
        }
        Err(reason) => probes.missing = Some(reason),
    }
    let offsets: Vec<i32> =
        offsets.into_iter().map(|offset| i32::try_from(offset).unwrap_or(i32::MAX)).collect();
    let mut rule = TaskRule::new(TaskKind::Python, &offsets);
    rule.addresses = addresses;
    Ok((rule, probes))
}

/// The code range of uvloop. It reads in no context, and runs callbacks of protocols in one that
/// all connections share. What is created in such a callback is found from the stack.
fn event_loop(mapped: &[Mapping]) -> Option<(u64, u64)> {
    let is_loop = |mapping: &&Mapping| {
        let name = mapping.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of_uvloop = mapping.path.parent().is_some_and(|parent| parent.ends_with("uvloop"));
        mapping.executable && of_uvloop && name.starts_with("loop.")
    };
    mapped.iter().find(is_loop).map(|mapping| (mapping.start, mapping.end))
}

/// The process's thread states, each with the thread's address in the C library.
fn states(memory: &Memory, runtime: u64, layout: &Layout) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut interpreter = memory.word(runtime + layout.interpreters).unwrap_or(0);
    for _ in 0..MAX_INTERPRETERS {
        if interpreter == 0 {
            break;
        }
        let mut state = memory.word(interpreter + layout.states).unwrap_or(0);
        while state != 0 && found.len() < MAX_STATES {
            // A thread that is starting has none yet.
            if let Some(thread) = memory.word(state + layout.thread_id).filter(|id| *id != 0) {
                found.push((state, thread));
            }
            state = memory.word(state + NEXT_STATE).unwrap_or(0);
        }
        interpreter = memory.word(interpreter + layout.next_interpreter).unwrap_or(0);
    }
    found
}

/// The places where contexts are created: the exported functions, and the implementation of the
/// method `Context.copy`.
fn probes(memory: &Memory, image: Image, context_type: u64) -> Option<Probes> {
    let copy = method(memory, context_type, "copy");
    let makers = MAKERS.iter().filter_map(|symbol| image.address(symbol));
    let mut places: Vec<u64> =
        makers.chain(copy).filter_map(|address| image.file_offset(address)).collect();
    places.sort_unstable();
    places.dedup();
    let function = |file_offset| Function { does: ProbeKind::PythonMakes, file_offset };
    let file = FileId::of(&image.file).ok()?;
    Some(Probes::new(file, image.file, places.into_iter().map(function).collect(), Vec::new()))
}

/// The implementation of a method of a built-in type.
fn method(memory: &Memory, type_address: u64, wanted: &str) -> Option<u64> {
    let methods = memory.word(type_address + METHODS)?;
    for index in 0..32 {
        let [name, function, ..] = memory.words(methods + index * METHOD_BYTES, 2)[..] else {
            return None;
        };
        if name == 0 {
            return None;
        }
        if memory.text(name).as_deref() == Some(wanted) {
            return Some(function);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::super::memory::mappings;
    use super::*;

    #[test]
    fn names_of_files_say_versions() {
        assert_eq!(minor_version("3.11.so.1.0"), Some(11));
        assert_eq!(minor_version("3.8"), Some(8));
        assert_eq!(minor_version("2.7.so"), None);
        assert_eq!(minor_version("3"), None);
        assert_eq!(minor_version("3.so"), None);
    }

    /// Whatever version `python3` is here, its contexts are read or a reason is given.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_running_interpreter_is_read_or_refused_with_a_reason() {
        let program = "import asyncio, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
asyncio.run(asyncio.sleep(60))";
        let mut python = Command::new("python3")
            .args(["-c", program])
            .stdout(Stdio::null())
            .spawn()
            .expect("python3 runs");
        let end = Instant::now() + Duration::from_secs(20);
        let found = loop {
            match tasks(python.id(), &mappings(python.id())) {
                // It is starting, or a wrapper runs first.
                Tasks::None if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                found => break found,
            }
        };
        let _ = python.kill();
        let _ = python.wait();
        match found {
            Tasks::Known(rule, Some(probes)) => {
                assert_eq!(rule.kind, TaskKind::Python);
                assert_ne!(rule.addresses[0], 0);
                assert_eq!(probes.functions.len(), 4, "three functions and a method");
            }
            Tasks::Unknown(reason) => assert!(reason.contains("not known"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_python_has_no_contexts() {
        assert!(matches!(tasks(std::process::id(), &mappings(std::process::id())), Tasks::None));
    }
}
