//! Calls of which nothing told for which request they were made, kept until a request is
//! answered by who has made them.
//!
//! Pools of threads, and tasks that were there before their requests, are given their work
//! in ways that cannot be seen. But who writes the answer has done the work: the calls that
//! it has made since the request was read, and since it last answered, were made for that.
//! A loop answers what others ask it to, so a thread that reads requests is no such maker,
//! and neither is one that leaves the answers to its calls to others.
//!
//! What a loop's turns say (`turns.rs`) is kept as well, until its answers tell
//! whether they are to be trusted.

use ahash::AHashMap;
use spanwise_capture_protocols::attribution::{Caller, Fragment};
use spanwise_capture_protocols::bytes::Mark;
use spanwise_capture_protocols::sessions::Exchange;
use spanwise_model::Evidence;

use super::lines::origin;
use super::{Attributor, Maker, Trust};

/// How sure it is: who answers may have been asked to make a call in between for somebody
/// whom it does not answer.
const LIKELY: f32 = 0.9;
/// Calls are kept no longer after their answer, however long requests take.
const MAX_NANO: u64 = 10_000_000_000;
/// Bytes of the calls that are kept; beyond, calls are what they are found to be at first.
const MAX_BYTES: usize = 8 << 20;
/// After so many calls of a process that nobody claimed, with less than a tenth as many
/// that somebody did, only one of [`ONE_OF`] is kept, to notice when that changes.
const MANY: u32 = 64;
const ONE_OF: u32 = 16;

/// A call, with what its span needs besides.
#[derive(Debug)]
pub struct PendingCall<E> {
    /// The call.
    pub exchange: Exchange,
    /// What its span needs besides.
    pub ends: E,
}

/// What may come to tell for which request a call is made.
#[derive(Debug)]
pub struct PossibleClaims {
    makers: Vec<Maker>,
    /// The turn in which it was made.
    turn: bool,
}

#[derive(Debug, Default)]
struct OfProcess {
    /// The calls of each maker and of what comes of it, in their order: by number, and
    /// since when whoever made it was at work for the one thing.
    by_maker: AHashMap<u64, Vec<(u64, u64)>>,
    /// Those of which turns say something, by number.
    by_turn: Vec<u64>,
    calls: u32,
    /// They fade.
    claimed: u32,
    given_up: u32,
    /// Calls that were not kept for that.
    passed: u32,
}

/// The calls of all processes that nobody has claimed yet.
#[derive(Debug)]
pub struct PendingCalls<E> {
    calls: AHashMap<u64, PendingCall<E>>,
    processes: AHashMap<u32, OfProcess>,
    bytes: usize,
}

fn bytes<E>(exchange: &Exchange) -> usize {
    size_of::<PendingCall<E>>() - size_of::<Exchange>() + exchange.weight()
}

/// Whether one thread has done all of a call.
fn is_of_one_thread(exchange: &Exchange) -> bool {
    let by =
        |mark: Option<Mark>| mark.is_some_and(|mark| mark.thread == exchange.request_start.thread);
    by(exchange.response_start) && by(exchange.response_end)
}

impl<E> Default for PendingCalls<E> {
    fn default() -> Self {
        Self { calls: AHashMap::new(), processes: AHashMap::new(), bytes: 0 }
    }
}

impl<E> PendingCalls<E> {
    /// Bytes that its calls hold.
    pub const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// What may come to tell for which request a call is made; `None` where nothing can.
    pub fn possible_claims(
        &mut self,
        exchange: &Exchange,
        attributor: &mut Attributor,
    ) -> Option<PossibleClaims> {
        let is_ambiguous = matches!(exchange.fragment, Fragment::Ambiguous { .. });
        if !is_ambiguous || exchange.serving || exchange.outside || self.bytes > MAX_BYTES {
            return None;
        }
        let sender = Caller::from(exchange.request_start);
        // Who writes to a connection with streams writes for others, too.
        let is_makers =
            exchange.request.stream == 0 && (sender.task != 0 || is_of_one_thread(exchange));
        let turn = exchange.made_for().is_some()
            && attributor.trust_in_turns(sender.process) != Trust::None;
        let makers = if is_makers { attributor.makers(sender) } else { Vec::new() };
        let is_hopeless = makers.is_empty() && !turn;
        (!is_hopeless && self.is_worth_it(sender.process))
            .then_some(PossibleClaims { makers, turn })
    }

    fn is_worth_it(&mut self, process: u32) -> bool {
        let OfProcess { claimed, given_up, passed, .. } =
            self.processes.entry(process).or_default();
        if *given_up < MANY || *given_up / 10 <= *claimed {
            return true;
        }
        *passed = passed.wrapping_add(1);
        passed.is_multiple_of(ONE_OF)
    }

    /// Keeps a call as long as there is hope.
    pub fn hold(&mut self, exchange: Exchange, ends: E, claims: &PossibleClaims) {
        let id = exchange.id;
        let of_process = self.processes.entry(exchange.request_start.process).or_default();
        for maker in &claims.makers {
            of_process.by_maker.entry(maker.line).or_default().push((id, maker.since_nano));
        }
        if claims.turn {
            of_process.by_turn.push(id);
        }
        of_process.calls += 1;
        self.bytes += bytes::<E>(&exchange);
        self.calls.insert(id, PendingCall { exchange, ends });
    }

    /// A request was answered: its calls, and those of which it is clear now that they are
    /// for none that this maker answers.
    pub fn answered(&mut self, request: &Exchange) -> Vec<PendingCall<E>> {
        let (Fragment::Own(fragment), Some(first), Some(last), false) = (
            request.fragment,
            request.response_start,
            request.response_end,
            request.outside || self.calls.is_empty(),
        ) else {
            return Vec::new();
        };
        let writer = Caller::from(first);
        let Some(of_process) = self.processes.get_mut(&writer.process) else { return Vec::new() };
        let Some(mut made) = of_process.by_maker.remove(&origin(&writer)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        made.retain(|(id, since_nano)| {
            let Some(held) = self.calls.get(id) else { return false };
            if held.exchange.request_start.time_nano > last.time_nano {
                return true;
            }
            found.push((*id, *since_nano));
            false
        });
        if !made.is_empty() {
            of_process.by_maker.insert(origin(&writer), made);
        }
        let read_nano = request.head_end.time_nano;
        let evidence = if writer.task == 0 { Evidence::Thread } else { Evidence::Task };
        let mut taken = Vec::with_capacity(found.len());
        for (id, since_nano) in found {
            let Some(mut held) = self.take(id) else { continue };
            let is_claimed = since_nano >= read_nano;
            if is_claimed {
                held.exchange.fragment =
                    Fragment::Within { fragment, evidence, confidence: LIKELY };
            }
            self.count(writer.process, is_claimed);
            taken.push(held);
        }
        taken
    }

    /// The calls of which turns tell after all, and those of which nothing will any more:
    /// all requests that were open then are over, or it takes too long.
    pub fn settled(&mut self, attributor: &Attributor, now_nano: u64) -> Vec<PendingCall<E>> {
        let Self { calls, processes, .. } = self;
        let (mut told, mut over) = (Vec::new(), Vec::new());
        processes.retain(|process, of_process| {
            if of_process.calls == 0 {
                of_process.by_maker.clear();
                of_process.by_turn.clear();
                return attributor.knows(*process);
            }
            let trust = attributor.trust_in_turns(*process);
            if trust != Trust::Unknown {
                told.extend(of_process.by_turn.drain(..).map(|id| (id, trust)));
            }
            let oldest_nano = attributor.oldest_open_nano(*process).unwrap_or(u64::MAX);
            let is_over = |id: u64| {
                calls.get(&id).is_none_or(|held| {
                    let exchange = &held.exchange;
                    let end = exchange.response_end.unwrap_or(exchange.request_end);
                    oldest_nano > exchange.request_start.time_nano
                        || now_nano.saturating_sub(end.time_nano) > MAX_NANO
                })
            };
            over.extend(of_process.by_turn.extract_if(.., |id| is_over(*id)));
            of_process.by_maker.retain(|_, made| {
                over.extend(made.extract_if(.., |(id, _)| is_over(*id)).map(|(id, _)| id));
                !made.is_empty()
            });
            true
        });
        for (id, trust) in told {
            let Some(held) = self.calls.get_mut(&id) else { continue };
            if let (Trust::Sure(confidence), Some(fragment)) = (trust, held.exchange.made_for()) {
                let evidence = Evidence::Turn;
                held.exchange.fragment = Fragment::Within { fragment, evidence, confidence };
            }
            over.push(id);
        }
        self.take_all(over, true)
    }

    /// The calls of a process that has ended, or runs another program.
    pub fn forget(&mut self, process: u32) -> Vec<PendingCall<E>> {
        let Some(of_process) = self.processes.remove(&process) else { return Vec::new() };
        let OfProcess { by_maker, by_turn, .. } = of_process;
        let of_makers = by_maker.into_values().flatten().map(|(id, _)| id);
        let ids = of_makers.chain(by_turn).collect();
        self.take_all(ids, false)
    }

    /// All that there are.
    pub fn take_rest(&mut self) -> Vec<PendingCall<E>> {
        self.processes.clear();
        let ids = self.calls.keys().copied().collect();
        self.take_all(ids, false)
    }

    /// In the order in which they were made: the same events give the same spans.
    fn take_all(&mut self, mut ids: Vec<u64>, count: bool) -> Vec<PendingCall<E>> {
        ids.sort_unstable();
        ids.dedup();
        let mut taken = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(held) = self.take(id) else { continue };
            if count {
                let is_claimed = matches!(held.exchange.fragment, Fragment::Within { .. });
                self.count(held.exchange.request_start.process, is_claimed);
            }
            taken.push(held);
        }
        taken
    }

    fn take(&mut self, id: u64) -> Option<PendingCall<E>> {
        let held = self.calls.remove(&id)?;
        self.bytes -= bytes::<E>(&held.exchange);
        if let Some(of_process) = self.processes.get_mut(&held.exchange.request_start.process) {
            of_process.calls -= 1;
        }
        Some(held)
    }

    fn count(&mut self, process: u32, claimed: bool) {
        let Some(of_process) = self.processes.get_mut(&process) else { return };
        let OfProcess { claimed: yes, given_up: no, .. } = of_process;
        if claimed {
            *yes += 1;
        } else {
            *no += 1;
        }
        if *yes + *no >= 16 * MANY {
            *yes /= 2;
            *no /= 2;
        }
    }
}
