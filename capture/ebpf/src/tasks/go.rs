//! Goroutines: where Go's runtime keeps what a thread runs, in which order its fields are.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

use super::Tasks;
use crate::kernel::{TaskKind, TaskRule};
use crate::golang::Program;

/// Programs remembered: most executables of a machine are of another language.
const MAX_KNOWN: usize = 4096;

/// Offsets of fields of `runtime.g` and `runtime.m` (`runtime/runtime2.go`) in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    goid: i32,
    parent_goid: i32,
    m: i32,
    curg: i32,
}

/// Layouts by the minor version of Go 1. What is not listed has not been looked at.
const LAYOUTS: &[(u32, Layout)] =
    &[(26, Layout { goid: 152, parent_goid: 280, m: 48, curg: 184 })];

/// What is known of programs.
#[derive(Default)]
pub(super) struct Programs {
    /// By device and inode.
    known: HashMap<(u64, u64), Tasks>,
}

impl Programs {
    /// How a program's goroutines are read.
    pub(super) fn tasks(&mut self, executable: &File) -> Tasks {
        let Ok(metadata) = executable.metadata() else { return Tasks::None };
        let id = (metadata.dev(), metadata.ino());
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let found = match Program::open(executable).map(|program| rule(&program)) {
            None => Tasks::None,
            Some(Ok(rule)) => Tasks::Known(rule),
            Some(Err(reason)) => Tasks::Unknown(TaskKind::Go, reason),
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(id, found.clone());
        found
    }
}

fn rule(program: &Program<'_>) -> Result<TaskRule, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("goroutines are followed on x86-64 only".to_owned());
    }
    let version = program.version().ok_or("its version of Go cannot be told")?;
    let layout = layout(&version)
        .ok_or_else(|| format!("{version} is not known here; a newer Spanwise may know it"))?;
    let code = |name: &str| program.code(program.function(name.as_bytes())?);
    let newproc = code("runtime.newproc1").ok_or("it has no runtime.newproc1")?;
    if !hands_down(&newproc, layout) {
        return Err(format!("its runtime is not that of {version}"));
    }
    let switches = ["gogo", "runtime.gogo", "runtime.mcall", "runtime.morestack"];
    let switches: Vec<_> = switches.into_iter().filter_map(code).collect();
    let variable = local_variable(&switches)
        .or_else(|| (program.local_bytes == 8).then_some(-8))
        .ok_or("its thread-local variable is not found")?;
    let Layout { goid, parent_goid, m, curg } = layout;
    Ok(TaskRule::new(TaskKind::Go, &[variable, goid, parent_goid, m, curg]))
}

/// `go1.MINOR` and whatever follows.
fn layout(version: &str) -> Option<Layout> {
    let minor: String =
        version.strip_prefix("go1.")?.chars().take_while(char::is_ascii_digit).collect();
    let minor: u32 = minor.parse().ok()?;
    LAYOUTS.iter().find(|(known, _)| *known == minor).map(|(_, layout)| *layout)
}

fn instructions(code: &[u8]) -> impl Iterator<Item = Instruction> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut found = Vec::new();
    while decoder.can_decode() {
        found.push(decoder.decode());
    }
    found.into_iter()
}

/// Whether this code, which makes a goroutine, copies the number of one into the
/// parent's of another, as it does where the layout is right.
fn hands_down(newproc: &[u8], layout: Layout) -> bool {
    let at = |instruction: &Instruction, offset: i32| {
        instruction.memory_base() != Register::None
            && instruction.memory_base() != Register::RSP
            && instruction.memory_index() == Register::None
            && i64::from(offset) == instruction.memory_displacement64().cast_signed()
    };
    let mut loaded = None;
    for instruction in instructions(newproc) {
        let (to, from) = (instruction.op0_kind(), instruction.op1_kind());
        if from == OpKind::Memory && to == OpKind::Register && at(&instruction, layout.goid) {
            loaded = Some(instruction.op0_register());
        } else if to == OpKind::Memory
            && from == OpKind::Register
            && at(&instruction, layout.parent_goid)
        {
            return loaded == Some(instruction.op1_register());
        }
    }
    false
}

/// Where the thread-local variable of Go's runtime is from the thread pointer, as all of
/// these functions have it; they do nothing else with thread-local storage.
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
            // In position-independent programs the offset is in a register.
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
