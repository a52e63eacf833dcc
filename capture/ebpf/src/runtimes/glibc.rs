//! Thread-specific data (`pthread_getspecific`) and thread-local variables in another process's
//! memory, as glibc stores them.

use super::memory::{Image, Mapping, Memory};

/// Number of blocks of thread-specific data in a thread, and of keys in each block (glibc).
const BLOCKS: usize = 32;
const KEYS: usize = 32;
/// Size of `pthread_key_data`: a number and the data.
const KEY_BYTES: u64 = 16;
/// Maximum size of a thread's descriptor, `struct pthread`.
const DESCRIPTOR_BYTES: u64 = 1 << 14;

/// The location of thread-specific data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadData {
    /// Offset of the pointers to blocks, from the thread pointer.
    blocks: u64,
    /// Offset of the data within a key's entry.
    data: u64,
}

/// The description of a field for debuggers (`nptl_db`): total bits, number of elements, and byte
/// offset.
fn field(image: &Image, name: &str) -> Option<[u32; 3]> {
    let bytes = image.constant::<12>(name)?;
    let mut words =
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap_or_default()));
    Some([words.next()?, words.next()?, words.next()?])
}

/// The first result for an image of the C library: `libc.so.6`, or `libpthread` before 2.34.
fn first_result<T>(
    process: u32,
    mapped: &[Mapping],
    ask: impl Fn(&Image) -> Option<T>,
) -> Option<T> {
    let is_library = |mapping: &&Mapping| {
        let name = mapping.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let names = ["libc.so", "libc-2", "libpthread"];
        mapping.offset == 0 && names.iter().any(|begin| name.starts_with(begin))
    };
    mapped
        .iter()
        .filter(is_library)
        .find_map(|mapping| ask(&Image::open(process, mapped, &mapping.path)?))
}

/// The location of thread-specific data in all threads of a process.
pub(super) fn threads(process: u32, mapped: &[Mapping]) -> Option<ThreadData> {
    first_result(process, mapped, |image| {
        let [blocks_bits, _, place] = field(image, "_thread_db_pthread_specific")?;
        let [data_bits, _, data] = field(image, "_thread_db_pthread_key_data_data")?;
        let size = image.constant("_thread_db_sizeof_pthread_key_data").map(u32::from_ne_bytes)?;
        let usual =
            blocks_bits as usize == BLOCKS * 64 && u64::from(size) == KEY_BYTES && data_bits == 64;
        usual.then_some(ThreadData { blocks: place.into(), data: data.into() })
    })
}

/// The location of the list of thread-local blocks of libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadVariables {
    /// Offset of the pointer to the list, from the thread pointer.
    pub(super) vector: u64,
}

impl ThreadVariables {
    /// Size of `dtv_t`: the block's address and what to free. The entry before the first contains
    /// the number of entries.
    pub(super) const ENTRY_BYTES: u64 = 16;
}

/// The location of that list in a process.
pub(super) fn thread_variables(process: u32, mapped: &[Mapping]) -> Option<ThreadVariables> {
    first_result(process, mapped, |image| {
        let [pointer_bits, _, vector] = field(image, "_thread_db_pthread_dtvp")?;
        let [entry_bits, _, first] = field(image, "_thread_db_dtv_dtv")?;
        let [block_bits, _, block] = field(image, "_thread_db_dtv_t_pointer_val")?;
        let usual =
            [pointer_bits, entry_bits, block_bits] == [64, 128, 64] && [first, block] == [0, 0];
        usual.then_some(ThreadVariables { vector: vector.into() })
    })
}

/// The offset, from the thread pointer, of the pointer to the block that contains the thread's
/// state, and the state's offset in that block. They are the same for all threads. The first block
/// is part of the thread's descriptor. It needs no pointer (0), and the second offset is then from
/// the thread pointer.
pub(super) fn place_of_state(
    memory: &Memory,
    library: &ThreadData,
    states: &[(u64, u64)],
) -> Option<(u64, u64)> {
    let mut place = None;
    for (state, thread) in states {
        let found = place_in_thread(memory, library, *state, *thread);
        // A thread with several interpreters has the state of one of them.
        let shared = states.iter().filter(|(_, other)| other == thread).count() > 1;
        match (found, place) {
            (None, _) if shared => {}
            (Some(found), None) => place = Some(found),
            (Some(found), Some(known)) if found == known => {}
            // A thread may begin or end meanwhile. But it must not have another state there.
            (None, Some((block, at))) => {
                let block =
                    if block == 0 { *thread } else { memory.word(thread + block).unwrap_or(0) };
                if block != 0 && memory.word(block + at).is_some_and(|other| other != 0) {
                    return None;
                }
            }
            (None, None) => {}
            (Some(_), Some(_)) => return None,
        }
    }
    place
}

fn place_in_thread(
    memory: &Memory,
    library: &ThreadData,
    state: u64,
    thread: u64,
) -> Option<(u64, u64)> {
    let mut found = None;
    for (index, block) in memory.words(thread + library.blocks, BLOCKS).into_iter().enumerate() {
        if block == 0 {
            continue;
        }
        for (key, data) in memory.words(block, KEYS * 2).chunks_exact(2).enumerate() {
            if data[1] != state {
                continue;
            }
            // The result must be unique.
            if found.is_some() {
                return None;
            }
            let at = key as u64 * KEY_BYTES + library.data;
            let within = block.wrapping_sub(thread);
            found = Some(if index == 0 && within < DESCRIPTOR_BYTES {
                (0, within + at)
            } else {
                (library.blocks + index as u64 * 8, at)
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::memory::mappings;

    /// Uses more keys than fit into a thread's descriptor. A key's data is found from the thread
    /// pointer by the two offsets, as in the kernel side.
    #[test]
    fn only_data_of_later_keys_are_behind_a_pointer() {
        let process = std::process::id();
        let library = threads(process, &mappings(process)).expect("this is glibc");
        let memory = Memory::open(process).unwrap();
        let mut keys = [0; KEYS + 8];
        let data = |index: usize| 0x5eed_0000_0000 + index as u64;
        for (index, key) in keys.iter_mut().enumerate() {
            // SAFETY: the key is this array's, and nothing dereferences its value.
            let done = unsafe {
                libc::pthread_key_create(key, None)
                    | libc::pthread_setspecific(*key, data(index) as *const libc::c_void)
            };
            assert_eq!(done, 0);
        }
        // SAFETY: it only returns this thread's id.
        let thread = unsafe { libc::pthread_self() };
        for index in [0, keys.len() - 1] {
            let (block, at) =
                place_of_state(&memory, &library, &[(data(index), thread)]).expect("it is there");
            assert_eq!(block == 0, index == 0, "key {index}");
            let block = if block == 0 { thread } else { memory.word(thread + block).unwrap() };
            assert_eq!(memory.word(block + at), Some(data(index)));
        }
        for key in keys {
            // SAFETY: created above, and not used any more.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}
