//! Where functions of TLS libraries stand in a file.

use std::fs::File;
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol};

use crate::kernel::TlsProbe;

/// Functions that are looked for. GnuTLS's and others' that take the same
/// arguments in the same places are handled as OpenSSL's.
const FUNCTIONS: &[(&str, TlsProbe)] = &[
    ("SSL_write", TlsProbe::Write),
    ("SSL_read", TlsProbe::Read),
    ("SSL_write_ex", TlsProbe::WriteEx),
    ("SSL_read_ex", TlsProbe::ReadEx),
    ("SSL_free", TlsProbe::Free),
    ("gnutls_record_send", TlsProbe::Write),
    ("gnutls_record_recv", TlsProbe::Read),
    ("gnutls_deinit", TlsProbe::Free),
];

/// A function to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Function {
    /// What it does.
    pub(crate) probe: TlsProbe,
    /// Its first byte's place in the file.
    pub(crate) file_offset: u64,
}

/// The functions of TLS libraries in a file: those that it exports, else those
/// that its symbol table names. None where it is no program or has none.
pub(super) fn find(path: &Path) -> Vec<Function> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    // Programs may have hundreds of megabytes: only what is needed is read.
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else { return Vec::new() };
    let exported = named(object.dynamic_symbols(), &object);
    if exported.is_empty() { named(object.symbols(), &object) } else { exported }
}

fn named<'data, 'file, S: ObjectSymbol<'data>>(
    symbols: impl Iterator<Item = S>,
    object: &'file impl Object<'data>,
) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    for symbol in symbols {
        if !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let Some((_, probe)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let Some(file_offset) = file_offset(object, symbol.address()) else { continue };
        let function = Function { probe: *probe, file_offset };
        if !found.contains(&function) {
            found.push(function);
        }
    }
    found
}

fn file_offset<'data>(object: &impl Object<'data>, address: u64) -> Option<u64> {
    object.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let into = address.checked_sub(segment.address())?;
        (into < size).then_some(offset + into)
    })
}
