//! Virtual threads of HotSpot. HotSpot publishes the offsets of its fields in tables for the
//! serviceability agent (`gHotSpotVMStructs`), so none are listed by version here. From JDK 24 on,
//! a thread knows the number of the virtual thread that it runs (which owns monitors under that
//! number). The number stays the same on every carrier thread. Platform threads count as threads.
//!
//! The creator of a virtual thread is unknown, and so is the submitter of work to an executor,
//! unless the helper (`agents/jvm`) reports them.

use std::collections::HashMap;

use super::Tasks;
use super::glibc::{place_of_state, threads};
use super::handoff::Table;
use super::memory::{Image, Mapping, Memory};
use crate::kernel::{TaskKind, TaskRule};

const LIBRARY: &str = "libjvm.so";
/// Maximum entries of a table. There are about 600.
const MAX_ENTRIES: u64 = 4096;
/// Maximum flags of a virtual machine. There are about 1,500.
const MAX_FLAGS: u64 = 8192;
/// Maximum threads that are checked.
const MAX_THREADS: u64 = 64;
/// Number of bits below the address in ZGC's references.
const Z_COLOUR_BITS: i32 = 16;

/// How to read the virtual threads of a process; none if it does not run a JVM that has them.
pub(super) fn tasks(process: u32, mapped: &[Mapping], told: Option<Table>) -> Tasks {
    if !mapped.iter().any(|mapping| mapping.path.ends_with(LIBRARY)) {
        return Tasks::None;
    }
    let read = match (rule(process, mapped), told) {
        (Ok(Some(rule)), Some(table)) => Tasks::Known(table.with(rule), None),
        (_, Some(table)) => Tasks::Known(table.rule(), None),
        (Ok(Some(rule)), None) => Tasks::Known(rule, None),
        (Ok(None), None) => Tasks::None,
        (Err(reason), None) => Tasks::Unknown(format!("{LIBRARY}: {reason}")),
    };
    match told {
        Some(_) => read,
        None => Tasks::MayTell(Box::new(read)),
    }
}

fn rule(process: u32, mapped: &[Mapping]) -> Result<Option<TaskRule>, String> {
    let Some(library) = mapped.iter().find(|mapping| mapping.path.ends_with(LIBRARY)) else {
        return Ok(None);
    };
    if !cfg!(target_arch = "x86_64") {
        return Err("virtual threads are followed on x86-64 only".to_owned());
    }
    let Some(image) = Image::open(process, mapped, &library.path) else { return Ok(None) };
    let memory =
        Memory::open(process).map_err(|error| format!("its memory cannot be read: {error}"))?;
    let Some(fields) = Fields::read(&memory, &image) else { return Ok(None) };
    // There are none before JDK 21.
    let Some(current) = fields.offset("JavaThread", "_vthread") else { return Ok(None) };
    let number = fields
        .offset("JavaThread", "_monitor_owner_id")
        .ok_or_else(|| "virtual threads are followed from JDK 24 on".to_owned())?;
    let own = fields
        .offset("JavaThread", "_threadObj")
        .ok_or_else(|| "it does not say where a thread's object is".to_owned())?;
    // Without threads, the virtual machine has not started yet.
    let Some(states) = fields.threads(&memory).filter(|states| !states.is_empty()) else {
        return Ok(None);
    };
    let library = threads(process, mapped)
        .ok_or_else(|| "the C library does not say where a thread's data is".to_owned())?;
    let (block, thread) = place_of_state(&memory, &library, &states)
        .ok_or_else(|| "its threads are not where they should be".to_owned())?;
    let uses_z = fields
        .flag(&memory, &image, "UseZGC")
        .ok_or_else(|| "it does not say which garbage collector it uses".to_owned())?;
    let offsets = [block, thread, own, current, number];
    let offsets = offsets.map(|offset| i32::try_from(offset).unwrap_or(i32::MAX));
    let [block, thread, own, current, number] = offsets;
    let colour = if uses_z { Z_COLOUR_BITS } else { 0 };
    let offsets = [block, thread, own, current, number, colour];
    Ok(Some(TaskRule::new(TaskKind::Jvm, &offsets)))
}

/// Fields by type and name: the offset, or the address of a static field.
struct Fields(HashMap<(String, String), u64>);

impl Fields {
    fn read(memory: &Memory, image: &Image) -> Option<Self> {
        let variable = |name: &str| memory.word(image.address(name)?);
        let entry = |name: &str| variable(&format!("gHotSpotVMStructEntry{name}"));
        let table = variable("gHotSpotVMStructs").filter(|table| *table != 0)?;
        let stride = entry("ArrayStride")?;
        let (type_name, field_name) = (entry("TypeNameOffset")?, entry("FieldNameOffset")?);
        let (is_static, offset) = (entry("IsStaticOffset")?, entry("OffsetOffset")?);
        let address = entry("AddressOffset")?;
        let mut found = HashMap::new();
        for index in 0..MAX_ENTRIES {
            let at = table + index * stride;
            let Some(kind) = memory.word(at + type_name).filter(|name| *name != 0) else { break };
            let (Some(kind), Some(name)) = (
                memory.text(kind),
                memory.word(at + field_name).and_then(|name| memory.text(name)),
            ) else {
                continue;
            };
            let is_static = memory.bytes::<4>(at + is_static)? != [0; 4];
            let value = memory.word(at + if is_static { address } else { offset })?;
            found.insert((kind, name), value);
        }
        Some(Self(found))
    }

    fn offset(&self, kind: &str, name: &str) -> Option<u64> {
        self.0.get(&(kind.to_owned(), name.to_owned())).copied()
    }

    /// The JavaThreads, each with its thread pointer in the C library.
    fn threads(&self, memory: &Memory) -> Option<Vec<(u64, u64)>> {
        let list = memory.word(self.offset("ThreadsSMRSupport", "_java_thread_list")?)?;
        let length = self.offset("ThreadsList", "_length")?;
        let length = u64::from(u32::from_ne_bytes(memory.bytes(list + length)?));
        let first = memory.word(list + self.offset("ThreadsList", "_threads")?)?;
        let os_thread = self.offset("Thread", "_osthread")?;
        let pthread = self.offset("OSThread", "_pthread_id")?;
        let thread = |index: u64| {
            let thread = memory.word(first + index * 8)?;
            let pthread = memory.word(memory.word(thread + os_thread)? + pthread)?;
            Some((thread, pthread))
        };
        // Threads may begin and end meanwhile.
        Some((0..length.min(MAX_THREADS)).filter_map(thread).collect())
    }

    /// Whether a flag is set; `None` if unknown.
    fn flag(&self, memory: &Memory, image: &Image, wanted: &str) -> Option<bool> {
        let size = size_of_type(memory, image, "JVMFlag")?;
        let first = memory.word(self.offset("JVMFlag", "flags")?)?;
        let count = memory.word(self.offset("JVMFlag", "numFlags")?)?;
        let (name, value) = (self.offset("JVMFlag", "_name")?, self.offset("JVMFlag", "_addr")?);
        for index in 0..count.min(MAX_FLAGS) {
            let at = first + index * size;
            let Some(found) = memory.word(at + name).filter(|name| *name != 0) else { continue };
            if memory.text(found).as_deref() == Some(wanted) {
                return Some(memory.bytes::<1>(memory.word(at + value)?)? != [0]);
            }
        }
        // The virtual machine was built without it.
        Some(false)
    }
}

/// The size of a type.
fn size_of_type(memory: &Memory, image: &Image, wanted: &str) -> Option<u64> {
    let variable = |name: &str| memory.word(image.address(name)?);
    let table = variable("gHotSpotVMTypes").filter(|table| *table != 0)?;
    let stride = variable("gHotSpotVMTypeEntryArrayStride")?;
    let name = variable("gHotSpotVMTypeEntryTypeNameOffset")?;
    let size = variable("gHotSpotVMTypeEntrySizeOffset")?;
    for index in 0..MAX_ENTRIES {
        let at = table + index * stride;
        let found = memory.word(at + name).filter(|name| *name != 0)?;
        if memory.text(found).as_deref() == Some(wanted) {
            return memory.word(at + size).filter(|size| *size != 0);
        }
    }
    None
}
