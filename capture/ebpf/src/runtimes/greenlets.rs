//! Greenlets (gevent, eventlet). The library `greenlet` keeps the current one of each thread in a
//! thread-local variable. Its offsets are listed by version, and verified in each process: some
//! thread's variable must lead to a main greenlet, which is an object of the right type.
//!
//! Each thread has a block with the library's thread-local variables. It is found in the C
//! library's list of blocks by the library's number.
//!
//! The creation of greenlets is observed, too. But the creator does not determine the work: under
//! gevent, the threads of a pool are greenlets.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, PT_TLS, R_X86_64_DTPMOD64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader};

use super::Probes;
use super::glibc::{ThreadVariables, thread_variables};
use super::memory::{Image, Mapping, Memory, inside};
use crate::kernel::{Function, ProbeKind};
use crate::probed::FileId;

/// Supported releases: all since `greenlet::ThreadState` begins with the main greenlet and the
/// current one. First and last, as major and minor number.
const VERSIONS: [(u32, u32); 2] = [(2, 0), (3, 5)];

/// Offset of `PyTypeObject.tp_new`, in all of CPython 3.8 to 3.13.
const NEW: u64 = 312;
/// Offset of `PyObject.ob_type`.
const TYPE: u64 = 8;
/// Maximum bytes of thread-local variables that are read. There are 16.
const MAX_VARIABLES_BYTES: u64 = 128;
/// Maximum bytes of relocations.
const MAX_RELOCATIONS_BYTES: u64 = 16 << 20;
/// `TLS_DTV_UNALLOCATED`: the thread has not used any of a library's variables yet.
const UNUSED: u64 = u64::MAX;
/// Maximum number of thread-local blocks of a process.
const MAX_MODULES: u64 = 1 << 20;

/// What the kernel side needs to know.
#[derive(Debug)]
pub(super) struct Greenlets {
    /// Offset from the thread pointer: pointer to the list of blocks.
    pub(super) vector: u64,
    /// The library's number in the list,
    pub(super) module: u64,
    /// and the variable's offset in its block.
    pub(super) variable: u64,
    /// The type of main greenlets.
    pub(super) kind: u64,
    /// Functions that create greenlets.
    pub(super) probes: Probes,
}

/// How to read the greenlets of a process; `None` if it has created none yet.
///
/// # Errors
/// Why they cannot be read.
pub(super) fn greenlets(
    process: u32,
    mapped: &[Mapping],
    memory: &Memory,
    threads: &[u64],
) -> Result<Option<Greenlets>, String> {
    let Some(path) = library(mapped) else { return Ok(None) };
    let version = version(process, &path)?;
    if version < VERSIONS[0] || version > VERSIONS[1] {
        let (major, minor) = version;
        return Err(format!("the places of greenlet {major}.{minor} are not known"));
    }
    let (Some(image), Ok(file)) =
        (Image::open(process, mapped, &path), File::open(inside(process, &path)))
    else {
        return Ok(None);
    };
    let kind = image
        .address("PyGreenlet_Type")
        .ok_or_else(|| "the library of greenlets does not export their type".to_owned())?;
    let (slots, bytes) = variables(&file).unwrap_or_default();
    // The number is unknown only while the library is being loaded.
    let module = slots.iter().filter_map(|slot| image.bias().checked_add(*slot));
    let mut module: Vec<u64> = module.filter_map(|slot| memory.word(slot)).collect();
    module.dedup();
    let [module] = module[..] else {
        return Err("the library of greenlets does not say where its variables are".to_owned());
    };
    let library = thread_variables(process, mapped)
        .ok_or_else(|| "the C library does not say where a library's variables are".to_owned())?;
    if module == 0 || module > MAX_MODULES {
        return Ok(None);
    }
    let blocks = threads.iter().filter_map(|thread| block(memory, &library, *thread, module));
    let mut variables: Vec<u64> = blocks
        .flat_map(|block| (0..bytes).step_by(8).map(move |variable| (block, variable)))
        .filter(|(block, variable)| is_state(memory, block.wrapping_add(*variable), kind))
        .map(|(_, variable)| variable)
        .collect();
    variables.sort_unstable();
    variables.dedup();
    let variable = match variables[..] {
        [] => return Ok(None),
        [variable] => variable,
        _ => return Err("a thread's greenlets are not where they should be".to_owned()),
    };
    let made = kind
        .checked_add(NEW)
        .and_then(|slot| memory.word(slot))
        .and_then(|address| image.file_offset(address));
    let made = made.ok_or_else(|| "it is not known where greenlets are made".to_owned())?;
    let file_id = FileId::of(&file).map_err(|error| format!("their library: {error}"))?;
    let functions = vec![Function { does: ProbeKind::PythonMakes, file_offset: made }];
    let probes = Probes::new(file_id, file, functions, Vec::new());
    Ok(Some(Greenlets { vector: library.vector, module, variable, kind, probes }))
}

fn library(mapped: &[Mapping]) -> Option<PathBuf> {
    let is_library = |mapping: &&Mapping| {
        let name = mapping.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let in_package = mapping.path.parent().is_some_and(|parent| parent.ends_with("greenlet"));
        mapping.offset == 0 && in_package && name.starts_with("_greenlet.")
    };
    mapped.iter().find(is_library).map(|mapping| mapping.path.clone())
}

/// The version, from the name of the directory that the installer left beside the package:
/// `greenlet-3.5.6.dist-info`, or `.egg-info`.
fn version(process: u32, path: &Path) -> Result<(u32, u32), String> {
    let beside = path.ancestors().nth(2).map(|packages| inside(process, packages));
    let entries = beside.and_then(|packages| std::fs::read_dir(packages).ok());
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut found: Vec<(u32, u32)> = names.filter_map(|name| version_of(name.to_str()?)).collect();
    found.dedup();
    match found[..] {
        [version] => Ok(version),
        [] => Err("it is not known of which version the greenlets are: nothing beside the \
                   package says so"
            .to_owned()),
        _ => Err("what stands beside the greenlets says several versions".to_owned()),
    }
}

fn version_of(name: &str) -> Option<(u32, u32)> {
    let version = name.strip_prefix("greenlet-")?;
    if !version.contains(".dist-info") && !version.contains(".egg-info") {
        return None;
    }
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The file addresses at which a library stores the number of its thread-local block, and the
/// block's size.
fn variables(file: &File) -> Option<(Vec<u64>, u64)> {
    let data = ReadCache::new(file);
    let elf = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = elf.endian().ok()?;
    let segments = elf.program_headers(endian, &data).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(endian) == PT_TLS)?;
    let bytes = segment.p_memsz(endian).min(MAX_VARIABLES_BYTES);
    let mut slots = Vec::new();
    for section in elf.sections(endian, &data).ok()?.iter() {
        if section.sh_size(endian) > MAX_RELOCATIONS_BYTES {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(endian, &data) else { continue };
        // Without a symbol, it is the library's own block.
        let own = relocations.iter().filter(|relocation| {
            relocation.r_type(endian, false) == R_X86_64_DTPMOD64
                && relocation.r_sym(endian, false) == 0
        });
        slots.extend(own.map(|relocation| relocation.r_offset(endian)));
    }
    Some((slots, bytes))
}

/// A thread's block of variables, if it has one.
fn block(memory: &Memory, library: &ThreadVariables, thread: u64, module: u64) -> Option<u64> {
    let vector = memory.word(thread.checked_add(library.vector)?)?;
    let count = memory.word(vector.checked_sub(ThreadVariables::ENTRY_BYTES)?)?;
    if module > count {
        return None;
    }
    let block = memory.word(vector.checked_add(module * ThreadVariables::ENTRY_BYTES)?)?;
    (block != UNUSED).then_some(block)
}

/// Whether a variable points to a thread's state of greenlets.
fn is_state(memory: &Memory, variable: u64, kind: u64) -> bool {
    let main = memory.word(variable).and_then(|state| memory.word(state));
    main.and_then(|main| memory.word(main.checked_add(TYPE)?)) == Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_names() {
        assert_eq!(version_of("greenlet-3.5.6.dist-info"), Some((3, 5)));
        assert_eq!(version_of("greenlet-2.0.2.egg-info"), Some((2, 0)));
        assert_eq!(version_of("greenlet-2.0.2-py3.11.egg-info"), Some((2, 0)));
        assert_eq!(version_of("greenlet-stubs-1.0.dist-info"), None);
        assert_eq!(version_of("greenlet-3.5.6.tar.gz"), None);
        assert_eq!(version_of("greenlet"), None);
    }
}
