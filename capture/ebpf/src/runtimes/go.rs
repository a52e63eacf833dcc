//! Goroutines: where Go's runtime stores the current goroutine, the offsets of its fields, and the
//! functions that reveal on whose behalf a connection's own goroutines read and write.

mod layouts;

use std::collections::HashMap;
use std::fs::File;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

use self::layouts::{Grpc, Runtime};
use super::{Probes, Tasks};
use crate::golang::Program;
use crate::kernel::{Function, ProbeKind, TaskKind, TaskRule};
use crate::probed::FileId;

/// Maximum known programs. Most executables are written in another language.
const MAX_KNOWN: usize = 4096;

const CHANNEL_SEND: &str = "runtime.send";
const CHANNEL_RECEIVE: &str = "runtime.recv";
const NEWPROC: &str = "runtime.newproc1";
const ROUND_TRIP: &str = "net/http.(*persistConn).roundTrip";
/// The HTTP/2 handlers of net/http and of golang.org/x/net.
const RUN_HANDLERS: [&str; 2] =
    ["net/http.(*http2serverConn).runHandler", "golang.org/x/net/http2.(*serverConn).runHandler"];
const GRPC: &str = "google.golang.org/grpc";
const NEW_STREAM: &str = "google.golang.org/grpc/internal/transport.(*http2Client).NewStream";
const HANDLE_STREAM: &str = "google.golang.org/grpc.(*Server).handleStream";

/// Index of the flag that the creation of goroutines is observed (`bpf/task_go.h`).
const BIRTHS: usize = 12;
/// Index of the flag that it is observed who gives goroutines what they wait for.
const GIFTS: usize = 13;

/// What is known about a program.
#[derive(Debug, Clone)]
enum ProgramState {
    /// Not a Go program.
    Other,
    Refused(String),
    Rule {
        rule: TaskRule,
        functions: Vec<Function>,
        births: Vec<Function>,
        gives: Vec<Function>,
    },
}

/// Known programs.
#[derive(Default)]
pub(super) struct Programs {
    known: HashMap<FileId, ProgramState>,
}

impl Programs {
    /// How to read a program's goroutines.
    pub(super) fn tasks(&mut self, executable: File) -> Tasks {
        let Ok(file) = FileId::of(&executable) else { return Tasks::None };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let known = self.known.entry(file).or_insert_with(|| examine(&executable));
        match known.clone() {
            ProgramState::Other => Tasks::None,
            ProgramState::Refused(reason) => Tasks::Unknown(reason),
            ProgramState::Rule { rule, functions, births, gives } => {
                let probes = Probes { gives, ..Probes::new(file, executable, functions, births) };
                Tasks::Known(rule, Some(probes))
            }
        }
    }
}

fn examine(executable: &File) -> ProgramState {
    let Some(program) = Program::open(executable) else { return ProgramState::Other };
    let found = rule(&program).and_then(|mut rule| {
        let functions = functions(&program, &mut rule)?;
        Ok(ProgramState::Rule {
            rule,
            functions,
            births: births(&program).unwrap_or_default(),
            gives: gives(&program),
        })
    });
    found.unwrap_or_else(ProgramState::Refused)
}

/// The rule with the flag that goroutine creation is observed.
pub(super) fn with_births(rule: &TaskRule) -> TaskRule {
    let mut rule = *rule;
    rule.offsets[BIRTHS] = 1;
    rule
}

/// The rule with the flag that it is observed who gives goroutines what they wait for.
pub(super) fn with_gifts(rule: &TaskRule) -> TaskRule {
    let mut rule = *rule;
    rule.offsets[GIFTS] = 1;
    rule
}

fn rule(program: &Program<'_>) -> Result<TaskRule, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("goroutines are followed on x86-64 only".to_owned());
    }
    let version = program.version().ok_or("its version of Go cannot be told")?;
    let runtime = layouts::runtime(&version)
        .ok_or_else(|| format!("{version} is not known here; a newer Spanwise may know it"))?;
    let code = |name: &str| program.code(program.function(name.as_bytes())?);
    let newproc = code(NEWPROC).ok_or("it has no runtime.newproc1")?;
    if !hands_down(&newproc, runtime) {
        return Err(format!("its runtime is not that of {version}"));
    }
    let switches = ["gogo", "runtime.gogo", "runtime.mcall", "runtime.morestack"];
    let switches: Vec<_> = switches.into_iter().filter_map(code).collect();
    let variable = local_variable(&switches)
        .or_else(|| (program.local_bytes == 8).then_some(-8))
        .ok_or("its thread-local variable is not found")?;
    let Runtime { goid, parent_goid, m, curg, persist_conn } = runtime;
    Ok(TaskRule::new(TaskKind::Go, &[variable, goid, parent_goid, m, curg, persist_conn]))
}

/// The functions of a program to probe. Also adds what they need to the rule. If one of them exists
/// but cannot be probed, the program gets no rule: what a connection's own goroutine writes would
/// be attributed to that goroutine.
fn functions(program: &Program<'_>, rule: &mut TaskRule) -> Result<Vec<Function>, String> {
    let mut found = Vec::new();
    if begins(program, ROUND_TRIP, ProbeKind::GoRoundTrip, &mut found)?.is_none()
        && program.function(b"net/http.(*persistConn).writeLoop").is_some()
    {
        return Err("its net/http has no place where requests are handed over".to_owned());
    }
    for name in RUN_HANDLERS {
        begins(program, name, ProbeKind::GoRunHandler, &mut found)?;
    }
    let new_stream = program.function(NEW_STREAM.as_bytes());
    let handles = begins(program, HANDLE_STREAM, ProbeKind::GoHandleStream, &mut found)?;
    if new_stream.is_none() && handles.is_none() {
        return Ok(found);
    }
    let version = program.module(GRPC).ok_or("its version of gRPC cannot be told")?;
    let Grpc { number, indirect, client, method, client_conn, server_conn } =
        layouts::grpc(&version).ok_or_else(|| {
            format!("gRPC {version} is not known here; a newer Spanwise may know it")
        })?;
    rule.offsets[6..BIRTHS].copy_from_slice(&[
        number,
        i32::from(indirect),
        client,
        client_conn,
        server_conn,
        method,
    ]);
    if let Some(place) = new_stream {
        let body = program.body(place).ok_or_else(|| format!("{NEW_STREAM} cannot be probed"))?;
        let ends = body.returns.into_iter();
        found.extend(
            ends.map(|file_offset| Function { does: ProbeKind::GoNewStreamEnd, file_offset }),
        );
    }
    Ok(found)
}

/// Probes the beginning of a function, if the program has it.
fn begins(
    program: &Program<'_>,
    name: &str,
    does: ProbeKind,
    found: &mut Vec<Function>,
) -> Result<Option<()>, String> {
    let Some(place) = program.function(name.as_bytes()) else { return Ok(None) };
    let body = program.body(place).ok_or_else(|| format!("{name} cannot be probed"))?;
    found.push(Function { does, file_offset: body.framed });
    Ok(Some(()))
}

/// The places where goroutines are created.
fn births(program: &Program<'_>) -> Option<Vec<Function>> {
    let body = program.body(program.function(NEWPROC.as_bytes())?)?;
    let ends = body.returns.into_iter();
    Some(ends.map(|file_offset| Function { does: ProbeKind::GoMadeEnd, file_offset }).collect())
}

/// Where a goroutine is given what it waits for.
fn gives(program: &Program<'_>) -> Vec<Function> {
    let mut found = Vec::new();
    for (name, does) in
        [(CHANNEL_SEND, ProbeKind::GoChannelSend), (CHANNEL_RECEIVE, ProbeKind::GoChannelReceive)]
    {
        // Without them, less is known.
        let _ = begins(program, name, does, &mut found);
    }
    found
}

fn instructions(code: &[u8]) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    std::iter::from_fn(move || decoder.can_decode().then(|| decoder.decode()))
}

/// Whether this code, which creates a goroutine, copies the number of one goroutine to the parent
/// field of another. It does if the layout is right.
fn hands_down(newproc: &[u8], runtime: Runtime) -> bool {
    let at = |instruction: &Instruction, offset: i32| {
        !matches!(instruction.memory_base(), Register::None | Register::RSP)
            && instruction.memory_index() == Register::None
            && i64::from(offset) == instruction.memory_displacement64().cast_signed()
    };
    let mut loaded = None;
    for instruction in instructions(newproc) {
        let (to, from) = (instruction.op0_kind(), instruction.op1_kind());
        if from == OpKind::Memory && to == OpKind::Register && at(&instruction, runtime.goid) {
            loaded = Some(instruction.op0_register());
        } else if to == OpKind::Memory
            && from == OpKind::Register
            && at(&instruction, runtime.parent_goid)
        {
            return loaded == Some(instruction.op1_register());
        }
    }
    false
}

/// The offset of the runtime's thread-local variable from the thread pointer, according to all of
/// these functions. They use no other thread-local storage.
fn local_variable(functions: &[Vec<u8>]) -> Option<i32> {
    let mut found = None;
    for code in functions {
        let mut before: Option<Instruction> = None;
        for instruction in instructions(code) {
            let last = before.replace(instruction);
            if instruction.segment_prefix() != Register::FS {
                continue;
            }
            let displacement = instruction.memory_displacement64().cast_signed();
            // In position-independent programs, the offset is in a register.
            let base = match instruction.memory_base() {
                Register::None => 0,
                register => {
                    let last = last.filter(|last| last.op0_register() == register)?;
                    match last.op1_kind() {
                        OpKind::Immediate32to64 => last.immediate32to64(),
                        OpKind::Immediate64 => last.immediate64().cast_signed(),
                        _ => return None,
                    }
                }
            };
            let offset = i32::try_from(base.checked_add(displacement)?).ok()?;
            if found.is_some_and(|known| known != offset) {
                return None;
            }
            found = Some(offset);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIME: Runtime =
        Runtime { goid: 0x98, parent_goid: 0x118, m: 48, curg: 184, persist_conn: 80 };

    #[test]
    fn a_layout_counts_only_where_the_code_agrees() {
        // mov rcx, [rax+0x98]; mov [rdx+0x118], rcx
        let mut code = [0x48, 0x8b, 0x88, 0x98, 0, 0, 0, 0x48, 0x89, 0x8a, 0x18, 1, 0, 0];
        assert!(hands_down(&code, RUNTIME));
        assert!(!hands_down(&code, Runtime { goid: 0xa0, ..RUNTIME }));
        assert!(!hands_down(&code, Runtime { parent_goid: 0x110, ..RUNTIME }));
        code[9] = 0x9a; // A different register.
        assert!(!hands_down(&code, RUNTIME));
        assert!(!hands_down(&[], RUNTIME));
    }

    #[test]
    fn the_variable_is_where_all_code_has_it() {
        // mov fs:[0xfffffff8], rdx
        let plain = vec![0x64, 0x48, 0x89, 0x14, 0x25, 0xf8, 0xff, 0xff, 0xff];
        // mov rcx, -8; mov fs:[rcx], rdx
        let moved = vec![0x48, 0xc7, 0xc1, 0xf8, 0xff, 0xff, 0xff, 0x64, 0x48, 0x89, 0x11];
        assert_eq!(local_variable(&[plain.clone(), moved.clone()]), Some(-8));
        let mut other = plain.clone();
        other[5] = 0xf0;
        assert_eq!(local_variable(&[plain, other]), None);
        // mov rcx, [rip+8]; mov fs:[rcx], rdx
        let loaded = vec![0x48, 0x8b, 0x0d, 8, 0, 0, 0, 0x64, 0x48, 0x89, 0x11];
        assert_eq!(local_variable(&[loaded]), None);
        assert_eq!(local_variable(&[]), None);
    }
}
