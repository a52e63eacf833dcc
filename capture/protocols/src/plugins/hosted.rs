//! Running plugins: one instance per plugin for all connections, its budget, and failure handling.

use serde::Serialize;

use super::Plugin;
use super::abi::{self, INPUT_BYTES, Message, Nonsense};
use super::sandbox::{Failure, Sandbox, StartFailure};
use crate::bytes::Side;
use crate::counters::ParserCounters;
use crate::parser::Likeness;

/// Number of failures after which a plugin is disabled. Each run of successful calls cancels one
/// failure.
const MAX_FAILURES: u32 = 10;
const CALLS_FOR_A_FAILURE: u32 = 1000;

/// Fuel for all calls of a plugin in one second: about 0.1 s.
const FUEL_PER_SECOND: u64 = 100_000_000;
const SECOND_NANO: u64 = 1_000_000_000;

/// Maximum plausible message length.
const MAX_MESSAGE_BYTES: i64 = 1 << 40;

/// Status of a plugin.
#[derive(Debug, Clone, Serialize)]
pub struct PluginFacts {
    /// Protocol that the plugin parses.
    pub name: &'static str,
    /// Path of the plugin file.
    pub file: String,
    /// The plugin failed too often and is not called any more.
    pub switched_off: bool,
    /// Number of failed calls.
    pub failures: u64,
}

/// All plugins of a tracer.
#[derive(Debug, Default)]
pub struct Plugins(Vec<Hosted>);

/// A plugin and its state.
#[derive(Debug)]
pub(super) struct Hosted {
    plugin: Plugin,
    /// `None` before the first call and after a failure.
    sandbox: Option<Sandbox>,
    state: State,
    failures: u64,
    /// Failures that are not cancelled yet by successful calls.
    recent_failures: u32,
    /// Successful calls since the last cancelled failure.
    right_calls: u32,
    second_began_nano: u64,
    fuel_in_second: u64,
    told_of_budget: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    On,
    /// Like [`Self::On`], but the operator was told about a failure.
    Failing,
    Off,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The call failed, or the plugin is disabled.
    Failed,
    /// The plugin has used up its time for now.
    Busy,
}

/// A plugin's answer about a message's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    /// The plugin needs more bytes to tell.
    Unknown,
    /// Total length of the message.
    Bytes(u64),
    /// No message begins with these bytes.
    Malformed,
}

/// Context of a plugin call, needed for budgets and counters.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pub(super) side: Side,
    pub(super) now_nano: u64,
    pub(super) counters: &'a mut ParserCounters,
}

const fn number(side: Side) -> u32 {
    match side {
        Side::Request => 0,
        Side::Response => 1,
    }
}

impl Plugins {
    /// Creates the list. No plugin has been called yet.
    pub fn new(plugins: Vec<Plugin>) -> Self {
        Self(plugins.into_iter().map(Hosted::new).collect())
    }

    /// Recognises the protocol of the first bytes of a direction, like [`crate::registry::infer`]:
    /// `Some(None)` if more bytes are needed.
    pub fn infer(
        &mut self,
        bytes: &[u8],
        sides: &[Side],
        now_nano: u64,
        counters: &mut ParserCounters,
    ) -> Option<Option<(usize, Side)>> {
        let mut maybe = None;
        for side in sides {
            for (index, hosted) in self.0.iter_mut().enumerate() {
                let asking = &mut Asking { side: *side, now_nano, counters };
                match hosted.recognise(bytes, asking) {
                    Ok(Likeness::Yes) => return Some(Some((index, *side))),
                    Ok(Likeness::Maybe) => maybe = Some(None),
                    Ok(Likeness::AtFirst | Likeness::No) | Err(_) => {}
                }
            }
        }
        maybe
    }

    /// The plugin with this index, if any.
    pub(super) fn get(&mut self, index: usize) -> Option<&mut Hosted> {
        self.0.get_mut(index)
    }

    /// Protocol name of the plugin with this index.
    pub(super) fn name(&self, index: usize) -> &'static str {
        self.0.get(index).map_or("", |hosted| hosted.plugin.name())
    }

    /// Status of each plugin.
    pub fn facts(&self) -> Vec<PluginFacts> {
        self.0.iter().map(Hosted::facts).collect()
    }
}

impl Hosted {
    const fn new(plugin: Plugin) -> Self {
        Self {
            plugin,
            sandbox: None,
            state: State::On,
            failures: 0,
            recent_failures: 0,
            right_calls: 0,
            second_began_nano: 0,
            fuel_in_second: 0,
            told_of_budget: false,
        }
    }

    fn facts(&self) -> PluginFacts {
        PluginFacts {
            switched_off: self.state == State::Off,
            failures: self.failures,
            ..self.plugin.facts()
        }
    }

    /// Whether bytes look like the start of a message.
    pub(super) fn recognise(
        &mut self,
        bytes: &[u8],
        asking: &mut Asking<'_>,
    ) -> Result<Likeness, NoAnswer> {
        let side = number(asking.side);
        self.call(asking, |_, sandbox| match sandbox.recognise(side, bytes)? {
            0 => Ok(Likeness::No),
            1 => Ok(Likeness::Maybe),
            2 => Ok(Likeness::Yes),
            value => Err(Nonsense::Unknown { name: "recognise", value }.into()),
        })
    }

    /// Returns the length of the message that begins with these bytes. The first `held` of them
    /// come from an earlier call, for which the plugin needed more.
    pub(super) fn measure(
        &mut self,
        bytes: &[u8],
        held: usize,
        asking: &mut Asking<'_>,
    ) -> Result<Measured, NoAnswer> {
        let side = number(asking.side);
        self.call(asking, |_, sandbox| match sandbox.measure(side, bytes)? {
            0 => Ok(Measured::Unknown),
            length @ 1..=MAX_MESSAGE_BYTES => {
                let measured = length.cast_unsigned();
                if measured < held as u64 {
                    return Err(Nonsense::Shrunk { measured, given: held }.into());
                }
                Ok(Measured::Bytes(measured))
            }
            // Bytes from peers may be nonsense.
            _ => Ok(Measured::Malformed),
        })
    }

    /// Describes the message with this length and these first bytes; nothing if it is no message.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        length: u64,
        asking: &mut Asking<'_>,
    ) -> Result<Option<Message>, NoAnswer> {
        let side = number(asking.side);
        self.call(asking, |plugin, sandbox| {
            if !sandbox.decode(side, bytes, length)? {
                return Ok(None);
            }
            let (memory, area) = sandbox.memory();
            Ok(Some(abi::message(memory, area, &plugin.0.keys)?))
        })
    }

    fn call<R>(
        &mut self,
        asking: &mut Asking<'_>,
        work: impl FnOnce(&Plugin, &mut Sandbox) -> Result<R, Failure>,
    ) -> Result<R, NoAnswer> {
        if self.state == State::Off {
            return Err(NoAnswer::Failed);
        }
        if !self.has_time(asking.now_nano) {
            asking.counters.plugin_calls_over_budget += 1;
            return Err(NoAnswer::Busy);
        }
        let result = match &mut self.sandbox {
            Some(sandbox) => work(&self.plugin, sandbox),
            none => match Sandbox::start(&self.plugin.0.prepared) {
                Ok(started) => work(&self.plugin, none.insert(started)),
                // The plugin has started successfully before.
                Err(StartFailure::Failed(failure)) => Err(failure),
                Err(_) => Err(Failure::Trap("it does not start any more".to_owned())),
            },
        };
        self.fuel_in_second += self.sandbox.as_mut().map_or(0, Sandbox::take_spent);
        match result {
            Ok(answer) => {
                self.right();
                Ok(answer)
            }
            Err(failure) => {
                self.failed(&failure, asking.counters);
                Err(NoAnswer::Failed)
            }
        }
    }

    /// Whether the plugin may still run in this second of event time.
    fn has_time(&mut self, now_nano: u64) -> bool {
        if now_nano.abs_diff(self.second_began_nano) >= SECOND_NANO {
            self.second_began_nano = now_nano;
            self.fuel_in_second = 0;
        }
        let left = self.fuel_in_second < FUEL_PER_SECOND;
        if !left && !std::mem::replace(&mut self.told_of_budget, true) {
            tracing::warn!(
                "the plugin {} takes more than its share of time; what comes meanwhile is not \
                 read, and counted (plugin_calls_over_budget); this is said once",
                self.plugin.path().display()
            );
        }
        left
    }

    const fn right(&mut self) {
        if self.recent_failures == 0 {
            return;
        }
        self.right_calls += 1;
        if self.right_calls >= CALLS_FOR_A_FAILURE {
            self.right_calls = 0;
            self.recent_failures -= 1;
        }
    }

    fn failed(&mut self, failure: &Failure, counters: &mut ParserCounters) {
        *match failure {
            Failure::Trap(_) => &mut counters.plugin_traps,
            Failure::Fuel => &mut counters.plugin_calls_without_end,
            Failure::Memory => &mut counters.plugin_memory_refused,
            Failure::Nonsense(_) => &mut counters.plugin_answers_invalid,
        } += 1;
        // Start again with a new instance, because the failure left this one in an unknown state.
        self.sandbox = None;
        self.failures += 1;
        self.recent_failures += 1;
        self.right_calls = 0;
        let path = self.plugin.path().display();
        if self.recent_failures >= MAX_FAILURES {
            self.state = State::Off;
            counters.plugins_switched_off += 1;
            tracing::warn!(
                "the plugin {path} is switched off after {} failures, the last one: {failure}; \
                 its connections are not read any more; correct it and start the agent anew",
                self.failures
            );
        } else if self.state == State::On {
            self.state = State::Failing;
            tracing::warn!(
                "the plugin {path} failed: {failure}; the connection is not read any more; \
                 further failures are counted (plugin_…), and not told"
            );
        }
    }
}

const _: () = assert!(INPUT_BYTES == 1024, "recognition gives as many");
