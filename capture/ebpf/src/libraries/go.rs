//! Where Go's `crypto/tls` stands in a program. Stripped programs have the table
//! of their functions all the same: the runtime needs it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, Register};

use crate::kernel::{Function, TlsProbe};

const WRITE: &[u8] = b"crypto/tls.(*Conn).Write";
const READ: &[u8] = b"crypto/tls.(*Conn).Read";

/// Longest of either in any version, many times over.
const MAX_FUNCTION_BYTES: u64 = 64 * 1024;
/// Most returns of a function that is probed, each of which is.
const MAX_RETURNS: usize = 256;
/// A function sets up its frame within this many bytes, after having looked
/// whether the stack is large enough.
const MAX_PROLOGUE_BYTES: u64 = 64;

/// The pclntab of Go 1.20 and newer, and of 1.18 and 1.19 (`debug/gosym`).
const MAGICS: [u32; 2] = [0xffff_fff1, 0xffff_fff0];

/// A function's place in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    address: u64,
    end: u64,
}

/// What of a Go program is looked at.
pub(super) struct Program<'a> {
    pub(super) file: &'a File,
    /// The section `.gopclntab`, and its address.
    pub(super) table: &'a [u8],
    pub(super) table_address: u64,
    /// Writable sections: the one that has the runtime's module data among them.
    pub(super) data: &'a [Vec<u8>],
    /// Where in the file what stands at an address in memory is.
    pub(super) file_offset: &'a dyn Fn(u64) -> Option<u64>,
}

/// The probes for a program's TLS; none where it has none, or is of a version or
/// machine that is not known here.
pub(super) fn find(program: &Program<'_>) -> Vec<Function> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    functions(program).unwrap_or_default()
}

fn functions(program: &Program<'_>) -> Option<Vec<Function>> {
    let table = Table::read(program.table)?;
    let base = match table.text_start {
        0 => text_from_module_data(program)?,
        known => known,
    };
    let mut found = Vec::new();
    for (name, begins) in [(WRITE, TlsProbe::GoWrite), (READ, TlsProbe::GoRead)] {
        let place = table.find(name, base)?;
        let code = code(program, place)?;
        let Body { framed, returns } = Body::of(&code)?;
        let at = |offset: u64| (program.file_offset)(place.address.checked_add(offset)?);
        if begins == TlsProbe::GoRead {
            for offset in returns {
                let file_offset = at(offset)?;
                found.push(Function { probe: TlsProbe::GoReadEnd, file_offset });
            }
        }
        found.push(Function { probe: begins, file_offset: at(framed)? });
    }
    Some(found)
}

fn code(program: &Program<'_>, place: Place) -> Option<Vec<u8>> {
    let length = place.end.checked_sub(place.address)?;
    if length > MAX_FUNCTION_BYTES {
        return None;
    }
    let mut code = vec![0; usize::try_from(length).ok()?];
    program.file.read_exact_at(&mut code, (program.file_offset)(place.address)?).ok()?;
    Some(code)
}

/// Where a function's code can be probed, from its first byte on.
#[derive(Debug, PartialEq, Eq)]
struct Body {
    /// The instruction that sets up the frame. What comes before is run again
    /// after the stack has been made larger.
    framed: u64,
    /// The instructions that return.
    returns: Vec<u64>,
}

impl Body {
    fn of(code: &[u8]) -> Option<Self> {
        let mut framed = None;
        let mut returns = Vec::new();
        for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).iter() {
            // Bytes that are no code: nothing may be written among them.
            if instruction.is_invalid() {
                return None;
            }
            let pushes = instruction.code() == Code::Push_r64;
            if framed.is_none() && pushes && instruction.op0_register() == Register::RBP {
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
    /// A header of: magic, two bytes of zero, least instruction length, word
    /// length, numbers of functions and of files, where text starts (zero from
    /// Go 1.26 on), and where five tables are, names first, functions last.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if !MAGICS.contains(&word32(bytes, 0)?) || bytes.get(7) != Some(&8) {
            return None;
        }
        let part = |index: usize| {
            let offset = usize::try_from(word64(bytes, 8 + index * 8)?).ok()?;
            bytes.get(offset..)
        };
        Some(Self {
            text_start: word64(bytes, 24)?,
            count: usize::try_from(word64(bytes, 8)?).ok()?,
            names: part(3)?,
            functions: part(7)?,
        })
    }

    /// The function of this name, where text starts at `base`.
    fn find(&self, wanted: &[u8], base: u64) -> Option<Place> {
        (0..self.count).find_map(|index| {
            // Pairs of where the function is and where it is described; after
            // the last one, where text ends.
            let at = word32(self.functions, index * 8)?;
            let described = word32(self.functions, index * 8 + 4)? as usize;
            let name = word32(self.functions, described + 4)? as usize;
            let name = self.names.get(name..)?;
            if !name.starts_with(wanted) || name.get(wanted.len()) != Some(&0) {
                return None;
            }
            let end = word32(self.functions, (index + 1) * 8)?;
            let address = |offset: u32| base.checked_add(u64::from(offset));
            Some(Place { address: address(at)?, end: address(end)? })
        })
    }
}

/// Where text starts, from the runtime's module data, which begins with the
/// address of the table; behind it and six slices come four words, then that.
fn text_from_module_data(program: &Program<'_>) -> Option<u64> {
    const TEXT: usize = 8 + 6 * 24 + 3 * 8;
    let wanted = program.table_address.to_le_bytes();
    program.data.iter().find_map(|data| {
        memchr::memmem::find_iter(data, &wanted).find_map(|at| {
            let text = word64(data, at + TEXT)?;
            let end = word64(data, at + TEXT + 8)?;
            (at % 8 == 0 && text < end && (program.file_offset)(text).is_some()).then_some(text)
        })
    })
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
        cut.extend([0; 64]);
        assert!(Table::read(&cut).is_some_and(|table| table.find(READ, 0).is_none()));
    }
}
