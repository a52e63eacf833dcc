//! The smallest program in which the agent finds TLS functions: an ELF file of x86-64 with the
//! symbol `SSL_read`, and Go's table of functions.

/// Methods of `crypto/tls`, as Go names them.
const NAMES: [&str; 2] = ["crypto/tls.(*Conn).Write", "crypto/tls.(*Conn).Read"];
/// Code that sets up a frame and returns.
const CODE: [u8; 16] = [
    0x49, 0x3b, 0x66, 0x10, 0x76, 0x0a, 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x5d, 0xc3, 0xcc,
];
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;

/// A section's name, type, flags, linked index, and content.
type Section = (&'static str, u32, u64, u32, Vec<u8>);

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Go's function table. `text` is the start of the code, or zero for Go 1.26 and later.
fn functions(text: u64) -> Vec<u8> {
    let mut names = vec![0];
    let mut list = Vec::new();
    let mut described = Vec::new();
    // The pairs and the end of the code precede the functions' descriptions.
    let described_from = (NAMES.len() * 8 + 4) as u32;
    for (index, name) in NAMES.iter().enumerate() {
        list.extend(((index * CODE.len()) as u32).to_le_bytes());
        list.extend((described_from + described.len() as u32).to_le_bytes());
        described.extend(0_u32.to_le_bytes());
        described.extend((names.len() as u32).to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    }
    list.extend(((NAMES.len() * CODE.len()) as u32).to_le_bytes());
    list.extend(described);
    let names_at = 8 + 8 * 8;
    let list_at = names_at + names.len() as u64;
    let mut table = 0xffff_fff1_u32.to_le_bytes().to_vec();
    table.extend([0, 0, 1, 8]);
    let count = NAMES.len() as u64;
    table.extend(words(&[count, 0, text, names_at, list_at, list_at, list_at, list_at]));
    table.extend(names);
    table.extend(list);
    table
}

fn symbol(name: u32, address: u64) -> Vec<u8> {
    // A global function in section 1.
    let mut symbol = name.to_le_bytes().to_vec();
    symbol.extend([0x12, 0, 1, 0]);
    symbol.extend(words(&[address, CODE.len() as u64]));
    symbol
}

/// The program. If `text_in_table` is set, Go's table contains the start of the code, otherwise the
/// runtime's module data does.
pub fn program(text_in_table: bool) -> Vec<u8> {
    // Everything is mapped at its offset in the file.
    let code_at = (HEADER_BYTES + SEGMENT_BYTES) as u64;
    let code = [CODE, CODE].concat();
    let table_at = code_at + code.len() as u64;
    let table = functions(if text_in_table { code_at } else { 0 });
    let strings = b"\0SSL_read\0".to_vec();
    let mut symbols = vec![0; 24];
    symbols.extend(symbol(1, code_at));
    // The table's address, six slices, three words, and the start and end of the code.
    let mut module = words(&[table_at]);
    module.extend([0; 6 * 24 + 3 * 8 - 8]);
    module.extend(words(&[0, code_at, code_at + code.len() as u64]));
    let sections: [Section; 7] = [
        ("", 0, 0, 0, Vec::new()),
        (".text", 1, 6, 0, code),
        (".gopclntab", 1, 2, 0, table),
        (".dynstr", 3, 2, 0, strings),
        (".dynsym", 11, 2, 3, symbols),
        (".data", 1, 3, 0, module),
        (".shstrtab", 3, 0, 0, Vec::new()),
    ];
    let mut content = Vec::new();
    let mut headers = Vec::new();
    let names: Vec<u8> =
        sections.iter().flat_map(|section| [section.0.as_bytes(), b"\0"].concat()).collect();
    let mut name_at = 0_u32;
    for (name, kind, flags, link, mut bytes) in sections {
        if name == ".shstrtab" {
            bytes.clone_from(&names);
        }
        let at = if kind == 0 { 0 } else { code_at + content.len() as u64 };
        headers.extend(name_at.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        headers.extend(words(&[flags, at, at, bytes.len() as u64]));
        headers.extend(link.to_le_bytes());
        headers.extend(0_u32.to_le_bytes());
        headers.extend(words(&[1, if kind == 11 { 24 } else { 0 }]));
        content.extend(bytes);
        name_at += name.len() as u32 + 1;
    }
    let headers_at = code_at + content.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    file.extend(words(&[code_at, HEADER_BYTES as u64, headers_at]));
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 7, 0, 6, 0]);
    // A single segment that contains the whole file.
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    let bytes = headers_at + headers.len() as u64;
    file.extend(words(&[0, 0, 0, bytes, bytes, 4096]));
    file.extend(content);
    file.extend(headers);
    file
}
