//! The memory of a process and its mapped files: addresses of symbols, and reads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, Sym64};
use object::pod::slice_from_all_bytes;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

/// Maximum bytes of a file's symbols and their names.
const MAX_TABLE_BYTES: u64 = 128 << 20;
/// Maximum sections and segments of a file that is read.
const MAX_HEADERS: usize = 4096;

/// The memory of a process (`/proc/PID/mem`).
pub(super) struct Memory(File);

impl Memory {
    /// # Errors
    /// If the process is gone, or access is denied.
    pub(super) fn open(process: u32) -> std::io::Result<Self> {
        File::open(format!("/proc/{process}/mem")).map(Self)
    }

    pub(super) fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    pub(super) fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }

    /// The readable words, at most `count`.
    pub(super) fn words(&self, address: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        let read = self.0.read_at(&mut bytes, address).unwrap_or(0);
        let words = bytes[..read].chunks_exact(8);
        words.filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes)).collect()
    }

    /// A NUL-terminated text of at most 64 bytes.
    pub(super) fn text(&self, address: u64) -> Option<String> {
        let mut bytes = [0; 64];
        let read = self.0.read_at(&mut bytes, address).ok()?;
        let end = bytes[..read].iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }
}

/// A mapped part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) executable: bool,
    /// The path in the process's view.
    pub(super) path: PathBuf,
}

/// The mapped files of a process; empty if it is gone.
pub(super) fn mappings(process: u32) -> Vec<Mapping> {
    let text = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

/// `address perms offset device inode path` (`proc(5)`).
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let executable = words.next()?.contains('x');
    let offset = words.next()?;
    let path = words.nth(2)?.trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    path.starts_with('/').then_some(())?;
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        executable,
        path: PathBuf::from(path),
    })
}

/// A path in the process's view, which may be in a container.
pub(super) fn inside(process: u32, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").unwrap_or(path);
    PathBuf::from(format!("/proc/{process}/root")).join(inside)
}

/// A mapped program or library.
pub(super) struct Image {
    pub(super) file: File,
    /// The difference between memory addresses and file addresses.
    bias: u64,
    /// Each loaded segment: address, offset in the file, size in the file.
    segments: Vec<(u64, u64, u64)>,
    symbols: Vec<u8>,
    names: Vec<u8>,
}

impl Image {
    /// The image that a process has mapped from this path; `None` if there is none or it cannot be
    /// read.
    pub(super) fn open(process: u32, mappings: &[Mapping], path: &Path) -> Option<Self> {
        let file = File::open(inside(process, path)).ok()?;
        let headers = ReadCache::new(&file);
        let elf = FileHeader64::<Endianness>::parse(&headers).ok()?;
        let endian = elf.endian().ok()?;
        let count = elf.shnum(endian, &headers).ok()?.max(elf.phnum(endian, &headers).ok()?);
        if count > MAX_HEADERS {
            return None;
        }
        let sections = elf.sections(endian, &headers).ok()?;
        let mut segments = Vec::new();
        for segment in elf.program_headers(endian, &headers).ok()? {
            let (offset, size) = segment.file_range(endian);
            if segment.p_type(endian) == PT_LOAD {
                segments.push((segment.p_vaddr(endian), offset, size));
            }
        }
        let first = mappings.iter().find(|mapping| mapping.path == path && mapping.offset == 0)?;
        let (address, ..) = segments.iter().find(|(_, offset, _)| *offset == 0)?;
        let bias = first.start.checked_sub(*address)?;
        let section = sections.iter().find(|section| section.sh_type(endian) == SHT_DYNSYM)?;
        let names = sections.section(section.link(endian)).ok()?;
        let symbols = bytes_of(&file, section.file_range(endian)?)?;
        let names = bytes_of(&file, names.file_range(endian)?)?;
        Some(Self { bias, segments, symbols, names, file })
    }

    /// The difference between memory addresses and file addresses.
    pub(super) const fn bias(&self) -> u64 {
        self.bias
    }

    fn value(&self, wanted: &str) -> Option<u64> {
        let symbols: &[Sym64<Endianness>] = slice_from_all_bytes(&self.symbols).ok()?;
        let endian = Endianness::default();
        let symbol = symbols.iter().find(|symbol| {
            let name = self.names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            symbol.st_shndx(endian) != SHN_UNDEF
                && name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        })?;
        Some(symbol.st_value(endian))
    }

    /// The memory address of a symbol.
    pub(super) fn address(&self, symbol: &str) -> Option<u64> {
        self.value(symbol)?.checked_add(self.bias)
    }

    /// The file offset of a memory address.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        let address = address.checked_sub(self.bias)?;
        self.segments.iter().find_map(|(start, offset, size)| {
            let into = address.checked_sub(*start).filter(|into| into < size)?;
            offset.checked_add(into)
        })
    }

    /// The first bytes of a symbol's data in the file.
    pub(super) fn constant<const N: usize>(&self, symbol: &str) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let place = self.file_offset(self.address(symbol)?)?;
        self.file.read_exact_at(&mut bytes, place).ok()?;
        Some(bytes)
    }
}

fn bytes_of(file: &File, (offset, size): (u64, u64)) -> Option<Vec<u8>> {
    if size > MAX_TABLE_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
