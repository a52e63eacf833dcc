//! Finds Go's `crypto/tls` in a program.

use crate::golang::{Body, Program};
use crate::kernel::{Function, ProbeKind};

const WRITE: &[u8] = b"crypto/tls.(*Conn).Write";
const READ: &[u8] = b"crypto/tls.(*Conn).Read";

/// The probes for a program's TLS. Empty if it has none, or its version or machine is not
/// supported.
pub(super) fn find(program: &Program<'_>) -> Vec<Function> {
    functions(program).unwrap_or_default()
}

fn functions(program: &Program<'_>) -> Option<Vec<Function>> {
    let mut found = Vec::new();
    for (name, begins) in [(WRITE, ProbeKind::GoWrite), (READ, ProbeKind::GoRead)] {
        let place = program.function(name)?;
        let Body { framed, returns } = program.body(place)?;
        if begins == ProbeKind::GoRead {
            for file_offset in returns {
                found.push(Function { does: ProbeKind::GoReadEnd, file_offset });
            }
        }
        found.push(Function { does: begins, file_offset: framed });
    }
    Some(found)
}
