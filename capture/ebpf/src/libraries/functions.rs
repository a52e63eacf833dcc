//! Where functions of TLS libraries stand in a file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::Endianness;
use object::elf::{
    FileHeader64, PT_LOAD, SHF_WRITE, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, SectionHeader64,
    Sym64,
};
use object::pod::slice_from_all_bytes;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

use super::go;
use crate::kernel::{Function, TlsProbe};

/// Functions that are looked for. GnuTLS's and others' that take the same
/// arguments in the same places are handled as OpenSSL's.
const FUNCTIONS: &[(&str, TlsProbe)] = &[
    ("SSL_write", TlsProbe::Write),
    ("SSL_read", TlsProbe::Read),
    ("SSL_write_ex", TlsProbe::WriteEx),
    ("SSL_read_ex", TlsProbe::ReadEx),
    ("SSL_do_handshake", TlsProbe::Handshake),
    ("SSL_free", TlsProbe::Free),
    ("gnutls_record_send", TlsProbe::Write),
    ("gnutls_record_recv", TlsProbe::Read),
    ("gnutls_handshake", TlsProbe::Handshake),
    ("gnutls_deinit", TlsProbe::Free),
];

/// Most bytes of symbols, and of their names, that are read of a file.
const MAX_TABLE_BYTES: u64 = 128 << 20;

/// The functions of TLS libraries in a file: those that it exports, else those
/// that its symbol table names. None where it is no program or has none.
pub(super) fn find(file: &File) -> Vec<Function> {
    find_in(file).unwrap_or_default()
}

fn find_in(file: &File) -> Option<Vec<Function>> {
    // Programs may have hundreds of megabytes: only what is needed is read, and
    // names not one by one.
    let headers = ReadCache::new(file);
    let elf = FileHeader64::<Endianness>::parse(&headers).ok()?;
    let endian = elf.endian().ok()?;
    let sections = elf.sections(endian, &headers).ok()?;
    let segments = elf.program_headers(endian, &headers).ok()?;
    let file_offset = |address: u64| {
        segments.iter().find_map(|segment| {
            let (offset, size) = segment.file_range(endian);
            let into = address.checked_sub(segment.p_vaddr(endian))?;
            (segment.p_type(endian) == PT_LOAD && into < size).then_some(offset + into)
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
            let function = Function { probe, file_offset };
            if !found.contains(&function) {
                found.push(function);
            }
        }
        (!found.is_empty()).then_some(found)
    };
    let mut found = table(SHT_DYNSYM).or_else(|| table(SHT_SYMTAB)).unwrap_or_default();
    if let Some((_, table)) = sections.section_by_name(endian, b".gopclntab") {
        let writable = |section: &&SectionHeader64<Endianness>| {
            section.sh_flags(endian) & u64::from(SHF_WRITE) != 0
        };
        let data: Vec<Vec<u8>> = sections
            .iter()
            .filter(writable)
            .filter_map(|section| bytes_of(file, section.file_range(endian)?))
            .collect();
        found.extend(go::find(&go::Program {
            file,
            table: &bytes_of(file, table.file_range(endian)?)?,
            table_address: table.sh_addr(endian),
            data: &data,
            file_offset: &file_offset,
        }));
    }
    Some(found)
}

/// What to set at the function whose name these bytes begin with.
fn probe(name: &[u8]) -> Option<TlsProbe> {
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
        assert_eq!(probe(b"SSL_read\0"), Some(TlsProbe::Read));
        assert_eq!(probe(b"SSL_read_ex\0SSL"), Some(TlsProbe::ReadEx));
        for other in [&b"SSL_readable\0"[..], b"SSL_rea\0", b"SSL_read", b""] {
            assert_eq!(probe(other), None);
        }
    }

    #[test]
    fn a_file_without_them_has_none() {
        for path in ["/proc/self/exe", "/etc/passwd"] {
            assert_eq!(find(&File::open(path).expect("a file")), [], "{path}");
        }
    }
}
