//! Reads Go programs: their functions, version and modules. Stripped programs still have the table
//! of functions, because the runtime needs it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, Register};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD, PT_TLS, SHF_WRITE, SectionHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

/// Maximum size of a function that is analysed, far above the real ones.
const MAX_FUNCTION_BYTES: u64 = 64 * 1024;
/// Maximum return instructions of a probed function. Each gets a probe.
const MAX_RETURNS: usize = 256;
/// A function sets up its frame within this many bytes, after the check of the stack's size.
const MAX_PROLOGUE_BYTES: u64 = 64;
/// Maximum bytes of a file's tables, and of its writable sections together.
const MAX_TABLE_BYTES: u64 = 128 << 20;
/// Maximum sections and segments of a file that is read. Programs have about 40, but a file may
/// claim any number.
const MAX_HEADERS: usize = 4096;

/// Magic numbers of the pclntab of Go 1.20 and newer, and of 1.18 and 1.19 (`debug/gosym`).
const MAGICS: [u32; 2] = [0xffff_fff1, 0xffff_fff0];

/// The address range of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionRange {
    address: u64,
    end: u64,
}

/// A loaded segment: its address, and its offset and size in the file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    size: u64,
}

/// The analysed parts of a Go program.
pub(crate) struct Program<'a> {
    file: &'a File,
    segments: Vec<Segment>,
    /// The section `.gopclntab`.
    table: Vec<u8>,
    /// Start of the text segment.
    text: u64,
    /// The section `.go.buildinfo`.
    build: Vec<u8>,
    /// Size of the program's own thread-local storage; 0 if it has none.
    pub(crate) local_bytes: u64,
}

impl<'a> Program<'a> {
    /// Opens a Go program. Returns `None` if the file is not one, or its version or machine is not
    /// supported. Programs may have hundreds of megabytes, so only the necessary parts are read.
    pub(crate) fn open(file: &'a File) -> Option<Self> {
        let headers = ReadCache::new(file);
        let elf = FileHeader64::<Endianness>::parse(&headers).ok()?;
        let endian = elf.endian().ok()?;
        let count = elf.shnum(endian, &headers).ok()?.max(elf.phnum(endian, &headers).ok()?);
        if count > MAX_HEADERS {
            return None;
        }
        let sections = elf.sections(endian, &headers).ok()?;
        let named = |name: &[u8]| sections.section_by_name(endian, name).map(|(_, found)| found);
        let content =
            |section: &SectionHeader64<Endianness>| bytes_of(file, section.file_range(endian)?);
        let section = named(b".gopclntab")?;
        let headers = elf.program_headers(endian, &headers).ok()?;
        let segments = headers.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
        let segments = segments.map(|segment| {
            let (offset, size) = segment.file_range(endian);
            Segment { address: segment.p_vaddr(endian), offset, size }
        });
        let local = headers.iter().find(|segment| segment.p_type(endian) == PT_TLS);
        let mut program = Self {
            file,
            segments: segments.collect(),
            table: content(section)?,
            text: 0,
            build: named(b".go.buildinfo").and_then(content).unwrap_or_default(),
            local_bytes: local.map_or(0, |segment| segment.p_memsz(endian)),
        };
        program.text = match Table::read(&program.table)?.text_start {
            0 => {
                let mut left = MAX_TABLE_BYTES;
                let writable = sections
                    .iter()
                    .filter(|section| section.sh_flags(endian) & u64::from(SHF_WRITE) != 0);
                let data = writable.filter_map(|section| {
                    let range = section.file_range(endian)?;
                    left = left.checked_sub(range.1)?;
                    bytes_of(file, range)
                });
                program.text_from_module_data(section.sh_addr(endian), data)?
            }
            known => known,
        };
        Some(program)
    }

    /// The start of the text segment, from the runtime's module data. Those begin with the address
    /// of the table. Six slices and four words follow, then the start.
    fn text_from_module_data(
        &self,
        table_address: u64,
        mut data: impl Iterator<Item = Vec<u8>>,
    ) -> Option<u64> {
        const TEXT: usize = 8 + 6 * 24 + 3 * 8;
        let wanted = table_address.to_le_bytes();
        data.find_map(|data| {
            memchr::memmem::find_iter(&data, &wanted).find_map(|at| {
                let text = word64(&data, at + TEXT)?;
                let end = word64(&data, at + TEXT + 8)?;
                (at % 8 == 0 && text < end && self.file_offset(text).is_some()).then_some(text)
            })
        })
    }

    /// The file offset of a memory address.
    fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            (into < segment.size).then(|| segment.offset.checked_add(into))?
        })
    }

    /// The function with this name.
    pub(crate) fn function(&self, name: &[u8]) -> Option<FunctionRange> {
        Table::read(&self.table)?.find(name, self.text)
    }

    /// A function's code.
    pub(crate) fn code(&self, place: FunctionRange) -> Option<Vec<u8>> {
        let length = place.end.checked_sub(place.address)?;
        if length > MAX_FUNCTION_BYTES {
            return None;
        }
        let mut code = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut code, self.file_offset(place.address)?).ok()?;
        Some(code)
    }

    /// The instructions of a function that can be probed; `None` on machines other than x86-64.
    pub(crate) fn body(&self, place: FunctionRange) -> Option<Body> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let body = Body::of(&self.code(place)?)?;
        let at = |offset: &u64| self.file_offset(place.address.checked_add(*offset)?);
        let returns = body.returns.iter().map(at).collect::<Option<_>>()?;
        Some(Body { framed: at(&body.framed)?, returns })
    }

    /// The version of Go that built the program (`debug/buildinfo`): a header of 32 bytes, then two
    /// texts with their lengths. The second text lists modules. Before Go 1.18, the header had
    /// pointers to them; these versions are not supported.
    pub(crate) fn version(&self) -> Option<String> {
        Some(String::from_utf8_lossy(self.build_texts()?.0).into_owned())
    }

    /// The version of a module in the program; `None` if it is missing or replaced by another
    /// module.
    pub(crate) fn module(&self, path: &str) -> Option<String> {
        let (_, modules) = self.build_texts()?;
        let modules = String::from_utf8_lossy(modules);
        let mut lines = modules.lines();
        let found = lines.find_map(|line| {
            let mut words = line.split('\t');
            let found = words.next() == Some("dep") && words.next() == Some(path);
            found.then(|| words.next())?
        })?;
        let replaced = lines.next().is_some_and(|next| next.starts_with("=>\t"));
        (!replaced).then(|| found.to_owned())
    }

    fn build_texts(&self) -> Option<(&[u8], &[u8])> {
        const MAGIC: &[u8] = b"\xff Go buildinf:";
        const INLINE: u8 = 2;
        let flags = *self.build.get(MAGIC.len() + 1)?;
        if !self.build.starts_with(MAGIC) || flags & INLINE == 0 {
            return None;
        }
        let (version, rest) = text(self.build.get(32..)?)?;
        Some((version, text(rest)?.0))
    }
}

/// A text with its length before it (`binary.Uvarint`), and the rest.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (index, byte) in bytes.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7f) << (index * 7);
        if byte & 0x80 == 0 {
            return bytes.get(index + 1..)?.split_at_checked(length);
        }
    }
    None
}

fn bytes_of(file: &File, (offset, size): (u64, u64)) -> Option<Vec<u8>> {
    if size > MAX_TABLE_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// The instructions of a function that can be probed, relative to its first byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The instruction that sets up the frame. Earlier instructions run again after the stack has
    /// grown.
    pub(crate) framed: u64,
    /// The return instructions.
    pub(crate) returns: Vec<u64>,
}

impl Body {
    fn of(code: &[u8]) -> Option<Self> {
        let mut framed = None;
        let mut returns = Vec::new();
        for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).iter() {
            // Invalid code, such as data. Setting a breakpoint there would corrupt it.
            if instruction.is_invalid() {
                return None;
            }
            // Up to Go 1.20, the frame is allocated before RBP is saved in it.
            let sets_up = match instruction.op0_register() {
                Register::RBP => instruction.code() == Code::Push_r64,
                Register::RSP => instruction.mnemonic() == Mnemonic::Sub,
                _ => false,
            };
            if framed.is_none() && sets_up {
                framed = Some(instruction.ip());
            }
            if instruction.mnemonic() == Mnemonic::Ret {
                returns.push(instruction.ip());
            }
        }
        let framed = framed.filter(|at| *at < MAX_PROLOGUE_BYTES)?;
        (1..=MAX_RETURNS).contains(&returns.len()).then_some(Self { framed, returns })
    }
}

/// The table of functions.
struct Table<'a> {
    text_start: u64,
    count: usize,
    names: &'a [u8],
    functions: &'a [u8],
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Table<'a> {
    /// The header: magic number, two zero bytes, minimum instruction length, word length, numbers
    /// of functions and files, start of the text segment (zero from Go 1.26 on), and the offsets of
    /// five tables, from names to functions.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if !MAGICS.contains(&word32(bytes, 0)?) || bytes.get(7) != Some(&8) {
            return None;
        }
        let part = |index: usize| {
            let offset = usize::try_from(word64(bytes, 8 + index * 8)?).ok()?;
            bytes.get(offset..)
        };
        let functions = part(7)?;
        Some(Self {
            text_start: word64(bytes, 24)?,
            // At most as many as fit, whatever the header claims.
            count: usize::try_from(word64(bytes, 8)?).ok()?.min(functions.len() / 8),
            names: part(3)?,
            functions,
        })
    }

    /// The function with this name, if text starts at `base`.
    fn find(&self, wanted: &[u8], base: u64) -> Option<FunctionRange> {
        (0..self.count).find_map(|index| {
            // Pairs of a function's offset and the offset of its description. After the last pair
            // comes the end of the text segment.
            let at = word32(self.functions, index * 8)?;
            let described = word32(self.functions, index * 8 + 4)? as usize;
            let name = word32(self.functions, described + 4)? as usize;
            let name = self.names.get(name..)?;
            if !name.starts_with(wanted) || name.get(wanted.len()) != Some(&0) {
                return None;
            }
            let end = word32(self.functions, (index + 1) * 8)?;
            let address = |offset: u32| base.checked_add(u64::from(offset));
            Some(FunctionRange { address: address(at)?, end: address(end)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_probed_at_whole_instructions_only() {
        // cmp rsp, [r14+16]; jbe; push rbp; mov eax, 0xc3c3c3c3; pop rbp; ret; int3
        let code = [
            0x49, 0x3b, 0x66, 0x10, 0x76, 0x0a, 0x55, 0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0x5d, 0xc3,
            0xcc,
        ];
        assert_eq!(Body::of(&code), Some(Body { framed: 6, returns: vec![13] }));
        // Go 1.20: jbe; sub rsp, 24; mov [rsp+16], rbp; lea rbp, [rsp+16];
        // mov rbp, [rsp+16]; add rsp, 24; ret
        let code = [
            0x49, 0x3b, 0x66, 0x10, 0x76, 0x18, 0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24,
            0x10, 0x48, 0x8d, 0x6c, 0x24, 0x10, 0x48, 0x8b, 0x6c, 0x24, 0x10, 0x48, 0x83, 0xc4,
            0x18, 0xc3,
        ];
        assert_eq!(Body::of(&code), Some(Body { framed: 6, returns: vec![29] }));
        assert_eq!(Body::of(&[0xc3]), None, "no frame");
        assert_eq!(Body::of(&[0x55, 0x06, 0xc3]), None, "no instruction");
        let returns: Vec<u8> = std::iter::once(0x55).chain([0xc3; 1000]).collect();
        assert_eq!(Body::of(&returns), None, "too many to be a function's");
    }

    #[test]
    fn no_table_is_read_out_of_noise() {
        assert!(Table::read(b"").is_none());
        assert!(Table::read(&[0xff; 200]).is_none());
        let mut cut = 0xffff_fff1_u32.to_le_bytes().to_vec();
        cut.extend([0, 0, 1, 8]);
        assert!(Table::read(&cut).is_none());
        // The maximum claimed number of functions.
        cut.extend([0xff; 8]);
        cut.extend([0; 56]);
        assert!(Table::read(&cut).is_some_and(|table| table.find(b"x", 0).is_none()));
    }
}
