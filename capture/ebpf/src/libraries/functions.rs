//! Finds functions of TLS libraries in a file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Sym64};
use object::pod::slice_from_all_bytes;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

use super::go;
use crate::golang::Program;
use crate::kernel::{Function, ProbeKind};

/// The functions to find. Functions of GnuTLS and others with the same arguments are handled like
/// OpenSSL's.
const FUNCTIONS: &[(&str, ProbeKind)] = &[
    ("SSL_write", ProbeKind::Write),
    ("SSL_read", ProbeKind::Read),
    ("SSL_write_ex", ProbeKind::WriteEx),
    ("SSL_read_ex", ProbeKind::ReadEx),
    ("SSL_do_handshake", ProbeKind::Handshake),
    ("SSL_free", ProbeKind::Free),
    ("gnutls_record_send", ProbeKind::Write),
    ("gnutls_record_recv", ProbeKind::Read),
    ("gnutls_handshake", ProbeKind::Handshake),
    ("gnutls_deinit", ProbeKind::Free),
];

/// Maximum bytes of a file's symbols, their names, and its writable sections together.
const MAX_TABLE_BYTES: u64 = 128 << 20;
/// Maximum sections and segments of a file that is read. Programs have about 40, but a file may
/// claim any number.
const MAX_HEADERS: usize = 4096;
/// Maximum probed functions of a file. Libraries may contain several versions of one function.
const MAX_FUNCTIONS: usize = 64;

/// The TLS functions in a file: exported ones, else those in its symbol table. Empty if the file is
/// no program or has none.
pub(super) fn find(file: &File) -> Vec<Function> {
    find_in(file).unwrap_or_default()
}

fn find_in(file: &File) -> Option<Vec<Function>> {
    // Programs may have hundreds of megabytes, so only the necessary parts are read, and names not
    // one by one.
    let headers = ReadCache::new(file);
    let elf = FileHeader64::<Endianness>::parse(&headers).ok()?;
    let endian = elf.endian().ok()?;
    let count = elf.shnum(endian, &headers).ok()?.max(elf.phnum(endian, &headers).ok()?);
    if count > MAX_HEADERS {
        return None;
    }
    let sections = elf.sections(endian, &headers).ok()?;
    let segments = elf.program_headers(endian, &headers).ok()?;
    let file_offset = |address: u64| {
        segments.iter().find_map(|segment| {
            let (offset, size) = segment.file_range(endian);
            let into = address.checked_sub(segment.p_vaddr(endian))?;
            let holds = segment.p_type(endian) == PT_LOAD && into < size;
            holds.then(|| offset.checked_add(into))?
        })
    };
    let table = |kind: u32| -> Option<Vec<Function>> {
        let section = sections.iter().find(|section| section.sh_type(endian) == kind)?;
        let names = sections.section(section.link(endian)).ok()?;
        let symbols = bytes_of(file, section.file_range(endian)?)?;
        let names = bytes_of(file, names.file_range(endian)?)?;
        let symbols: &[Sym64<Endianness>] = slice_from_all_bytes(&symbols).ok()?;
        let mut found: Vec<Function> = Vec::new();
        let defined = |symbol: &&Sym64<Endianness>| {
            symbol.st_type() == STT_FUNC && symbol.st_shndx(endian) != SHN_UNDEF
        };
        for symbol in symbols.iter().filter(defined) {
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            let Some(probe) = probe(name) else { continue };
            let Some(file_offset) = file_offset(symbol.st_value(endian)) else { continue };
            let function = Function { does: probe, file_offset };
            if !found.contains(&function) {
                found.push(function);
            }
            if found.len() >= MAX_FUNCTIONS {
                break;
            }
        }
        (!found.is_empty()).then_some(found)
    };
    let mut found = table(SHT_DYNSYM).or_else(|| table(SHT_SYMTAB)).unwrap_or_default();
    if sections.section_by_name(endian, b".gopclntab").is_some()
        && let Some(program) = Program::open(file)
    {
        found.extend(go::find(&program));
    }
    Some(found)
}

/// The kind of the function whose name these bytes begin with.
fn probe(name: &[u8]) -> Option<ProbeKind> {
    let known = FUNCTIONS.iter().find(|(known, _)| {
        name.strip_prefix(known.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    });
    known.map(|(_, probe)| *probe)
}

fn bytes_of(file: &File, (offset, size): (u64, u64)) -> Option<Vec<u8>> {
    if size > MAX_TABLE_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_whole() {
        assert_eq!(probe(b"SSL_read\0"), Some(ProbeKind::Read));
        assert_eq!(probe(b"SSL_read_ex\0SSL"), Some(ProbeKind::ReadEx));
        for other in [&b"SSL_readable\0"[..], b"SSL_rea\0", b"SSL_read", b""] {
            assert_eq!(probe(other), None);
        }
    }

    /// Peak memory of this process in KiB.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it is there");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    }

    /// A sparse file with a header and 16 GiB of zeros. The header claims that sections fill a
    /// quarter of that.
    #[test]
    fn what_a_file_says_of_itself_is_not_taken_as_it_is() {
        let path = std::env::temp_dir().join(format!("spanwise-{}-sections", std::process::id()));
        let mut header = [0_u8; 128];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[16] = 3; // A library,
        header[18] = 62; // of x86-64,
        header[20] = 1;
        header[40] = 64; // with sections after the header,
        header[52] = 64;
        header[54] = 56;
        header[58] = 64; // of 64 bytes each; the first one has their number.
        header[64 + 32..64 + 40].copy_from_slice(&(1_u64 << 26).to_le_bytes());
        std::fs::write(&path, header).expect("a file");
        let file = File::options().write(true).read(true).open(&path).expect("a file");
        file.set_len(16 << 30).expect("a file may have holes");
        let before_kib = peak_kib();
        assert_eq!(find(&file), []);
        assert!(peak_kib() - before_kib < 1 << 20, "{before_kib} KiB, then {}", peak_kib());
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_file_without_them_has_none() {
        for path in ["/proc/self/exe", "/etc/passwd"] {
            assert_eq!(find(&File::open(path).expect("a file")), [], "{path}");
        }
    }
}
