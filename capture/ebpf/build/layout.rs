//! Generates the layout of `bpf/spanwise.h` for Rust: the offset of each field, and the value of
//! each enumerator. The header is the only definition.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Size and alignment of a type.
type Shape = (usize, usize);

/// The header without comments.
fn code(header: &str) -> String {
    let mut code = String::with_capacity(header.len());
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    code + rest
}

fn shape(kind: &str, structures: &BTreeMap<String, Shape>) -> Shape {
    match kind {
        "char" | "unsigned char" => (1, 1),
        "unsigned short" => (2, 2),
        "int" | "unsigned int" => (4, 4),
        "unsigned long long" => (8, 8),
        kind => *kind
            .strip_prefix("struct ")
            .and_then(|name| structures.get(name))
            .unwrap_or_else(|| panic!("bpf/spanwise.h has a field of the unknown type `{kind}`")),
    }
}

/// Constants for all structures and enumerations of the header.
pub(crate) fn constants(header: &str) -> String {
    let code = code(header);
    let mut defined = BTreeMap::new();
    for line in code.lines() {
        if let Some((name, value)) =
            line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '))
            && let Ok(value) = value.trim().parse::<usize>()
        {
            defined.insert(name, value);
        }
    }
    let mut structures = BTreeMap::new();
    let mut constants = String::new();
    for block in code.split("};") {
        let Some((head, body)) = block.split_once('{') else { continue };
        let head = head.lines().next_back().unwrap_or_default().trim();
        if let Some(name) = head.strip_prefix("enum ") {
            let prefix = if name == "spanwise_kind" { "KIND_" } else { "" };
            for entry in body.split(',').filter(|entry| !entry.trim().is_empty()) {
                let (entry, value) = entry.split_once('=').expect("a name with its value");
                let entry = entry.trim().trim_start_matches("SPANWISE_");
                let _ = writeln!(
                    constants,
                    "pub(super) const {prefix}{entry}: u32 = {};",
                    value.trim()
                );
            }
        } else if let Some(name) = head.strip_prefix("struct ") {
            let (mut at, mut widest) = (0_usize, 1);
            let module = name.trim_start_matches("spanwise_");
            let _ = writeln!(constants, "pub(super) mod {module} {{");
            for field in body.split(';').filter(|field| !field.trim().is_empty()) {
                let (kind, field) = field.trim().rsplit_once(' ').expect("a type and a name");
                let (field, count) = match field.split_once('[') {
                    None => (field, 1),
                    Some((field, count)) => {
                        let count = count.trim_end_matches(']');
                        let number = count.parse().ok().or_else(|| defined.get(count).copied());
                        (field, number.expect("a number of elements"))
                    }
                };
                let (size, align) = shape(kind.trim(), &structures);
                at = at.next_multiple_of(align);
                let _ = writeln!(
                    constants,
                    "pub(in crate::kernel) const {}: usize = {at};",
                    field.to_uppercase()
                );
                at += size * count;
                widest = widest.max(align);
            }
            let bytes = at.next_multiple_of(widest);
            let _ = writeln!(constants, "pub(in crate::kernel) const BYTES: usize = {bytes};\n}}");
            structures.insert(name.to_owned(), (bytes, widest));
        }
    }
    constants
}

/// Static assertions for the C compiler: all structures have the same size, and all fields the same
/// offset.
pub(crate) fn assertions(header: &str) -> String {
    let mut assertions = String::new();
    let mut structure = "";
    let constants = constants(header);
    for line in constants.lines() {
        if let Some(name) = line.strip_prefix("pub(super) mod ") {
            structure = name.trim_end_matches(" {");
        } else if let Some((name, value)) = line
            .strip_prefix("pub(in crate::kernel) const ")
            .and_then(|line| line.trim_end_matches(';').split_once(": usize = "))
        {
            let found = match name {
                "BYTES" => format!("sizeof(struct spanwise_{structure})"),
                field => {
                    let field = field.to_lowercase();
                    format!("__builtin_offsetof(struct spanwise_{structure}, {field})")
                }
            };
            let _ = writeln!(assertions, "_Static_assert({found} == {value}, \"{name}\");");
        }
    }
    assertions
}
