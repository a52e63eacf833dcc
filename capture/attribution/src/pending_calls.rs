//! Calls of which nothing told for which request they were made, kept until a request is
//! answered by who has made them.
//!
//! Pools of threads, and tasks that were there before their requests, are given their work
//! in ways that cannot be seen. But who writes the answer has done the work: the calls that
//! it has made since the request was read, and since it last answered, were made for that.
//! A loop answers what others ask it to, so a thread that reads requests is no such maker,
//! and neither is one that leaves the answers to its calls to others.
//!
//! Links that are certain by thread are kept until their request is answered, as long as
//! little of the process was seen: what speaks against them costs their certainty, too.
//!
//! What a loop's turns say of a call may turn out to be wrong when its answer is read, and what
//! that leads to is the answer to another request: then it is of that one.
//!
//! What a loop's turns say (`turns.rs`) is kept as well, until its answers tell
//! whether they are to be trusted.

use ahash::{AHashMap, AHashSet};
use spanwise_capture_protocols::attribution::{Caller, Fragment};
use spanwise_capture_protocols::bytes::Mark;
use spanwise_capture_protocols::sessions::Exchange;
use spanwise_model::Evidence;

use super::lines::origin;
use super::share::Share;
use super::{Attributor, Maker, Trust, is_strand};

/// How sure it is: who answers may have been asked to make a call in between for somebody
/// whom it does not answer.
const LIKELY: f32 = 0.95;
/// Below, a call is not given to whoever has written it.
const LEAST_SURE: f32 = 0.6;
/// Calls are kept no longer after their answer, however long requests take.
const MAX_NANO: u64 = 10_000_000_000;
/// And no longer for what their answer leads to.
const MAX_TURN_NANO: u64 = 1_000_000_000;
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
    /// The request that it is certainly of, until something speaks against it.
    request: Option<u64>,
}

/// A call that waits for what its answer leads to.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    call: u64,
    /// It waits for an answer by its maker as well.
    for_maker: bool,
}

#[derive(Debug, Default)]
struct OfProcess {
    /// The calls of each maker and of what comes of it, in their order: by number, and
    /// since when whoever made it was at work for the one thing.
    by_maker: AHashMap<u64, Vec<(u64, u64)>>,
    /// Those of which turns say something, by number.
    by_turn: Vec<Waiting>,
    /// Those whose links are looked at again when that request is answered.
    by_request: AHashMap<u64, Vec<u64>>,
    calls: u32,
    /// They fade.
    claimed: u32,
    given_up: u32,
    /// Calls that were not kept for that.
    passed: u32,
    /// Calls on connections with streams that one task seems to have made for itself.
    own: Share,
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
        exchange: &mut Exchange,
        attributor: &mut Attributor,
    ) -> Option<PossibleClaims> {
        if exchange.serving || exchange.outside || self.bytes > MAX_BYTES {
            return None;
        }
        let sender = Caller::from(exchange.request_start);
        match exchange.fragment {
            Fragment::Ambiguous { .. } => {}
            // What its answer leads to may say otherwise.
            Fragment::Within { fragment, evidence: Evidence::Turn, .. } => {
                let is_open = attributor.is_open(sender.process, fragment);
                if !is_open {
                    // Who has answered does not wait for it.
                    let candidates = attributor.open(sender.process) + 1;
                    exchange.fragment = Fragment::Ambiguous { candidates };
                }
                let request = Some(fragment).filter(|_| is_open);
                return Some(PossibleClaims { makers: Vec::new(), turn: !is_open, request });
            }
            Fragment::Within { fragment, evidence: Evidence::Thread, confidence }
                if confidence >= Evidence::CERTAIN
                    && attributor.may_lose_certainty(sender.process)
                    && attributor.is_open(sender.process, fragment) =>
            {
                let request = Some(fragment);
                return Some(PossibleClaims { makers: Vec::new(), turn: false, request });
            }
            _ => return None,
        }
        // Who writes to a connection with streams may write for others, too. A task that has
        // taken over what others wrote reads its next request only after that: it claims none of
        // these calls.
        let is_makers = if exchange.request.stream == 0 {
            sender.task != 0 || is_of_one_thread(exchange)
        } else {
            sender.task != 0 && attributor.takes_writes_over(sender.process)
        };
        let turn = exchange.made_for().is_some() && attributor.has_turns(sender.process);
        let makers = if is_makers { attributor.makers(sender) } else { Vec::new() };
        let is_hopeless = makers.is_empty() && !turn;
        let trust = attributor.trust_in_turns(sender.process, attributor.open(sender.process));
        // Of batches it is known only later.
        let is_told = turn && matches!(trust, Trust::Sure(_));
        (!is_hopeless && (is_told || self.is_worth_it(sender.process))).then_some(PossibleClaims {
            makers,
            turn,
            request: None,
        })
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
            let for_maker = !claims.makers.is_empty();
            of_process.by_turn.push(Waiting { call: id, for_maker });
        }
        if let Some(request) = claims.request {
            of_process.by_request.entry(request).or_default().push(id);
        }
        of_process.calls += 1;
        self.bytes += bytes::<E>(&exchange);
        self.calls.insert(id, PendingCall { exchange, ends });
    }

    /// A request is over: the calls whose answers have led to that, those that were taken to be
    /// its own, those that its maker made, and those of which it is clear now that they are for
    /// none that this maker answers.
    pub fn answered(
        &mut self,
        request: &Exchange,
        attributor: &mut Attributor,
    ) -> Vec<PendingCall<E>> {
        let woken = attributor.take_woken();
        let Fragment::Own(fragment) = request.fragment else { return Vec::new() };
        if request.outside || self.calls.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for (call, fragment) in woken {
            taken.extend(self.led_to(call, fragment, attributor));
        }
        taken.extend(self.of_request(request.head_end.process, fragment, attributor));
        let (Some(first), Some(last)) = (request.response_start, request.response_end) else {
            return taken;
        };
        let writer = Caller::from(first);
        let Some(of_process) = self.processes.get_mut(&writer.process) else { return taken };
        let Some(mut made) = of_process.by_maker.remove(&origin(&writer)) else {
            return taken;
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
        // Of calls that a task wrote to a connection with streams, and that wait for answers at the
        // same time, most were others'.
        let times = |id: u64| {
            let exchange = &self.calls.get(&id)?.exchange;
            let end = exchange.response_end.map_or(u64::MAX, |end| end.time_nano);
            (exchange.request.stream != 0).then_some((exchange.request_start.time_nano, end))
        };
        let mut written: Vec<(u64, u64, u64)> = found
            .iter()
            .filter_map(|(id, _)| times(*id).map(|(from, to)| (from, to, *id)))
            .collect();
        written.sort_unstable();
        let (mut shared, mut longest) = (AHashSet::new(), None::<(u64, u64)>);
        for (from, to, id) in written {
            if let Some((until, other)) = longest
                && from <= until
            {
                shared.extend([id, other]);
            }
            if longest.is_none_or(|(until, _)| to > until) {
                longest = Some((to, id));
            }
        }
        for (id, since_nano) in found {
            let Some(mut held) = self.take(id) else { continue };
            let mut sure = LIKELY;
            if held.exchange.request.stream != 0 {
                let is_shared = shared.contains(&id);
                let own = &mut self.processes.entry(writer.process).or_default().own;
                own.count(!is_shared);
                sure = if is_shared { 0.0 } else { LIKELY * own.right() };
            }
            let is_claimed = since_nano >= read_nano && sure >= LEAST_SURE;
            if is_claimed {
                held.exchange.fragment = Fragment::Within { fragment, evidence, confidence: sure };
            }
            self.count(writer.process, is_claimed);
            taken.push(held);
        }
        taken
    }

    /// A call whose answer has led to that of a request, and those from which it follows as far
    /// as nothing else is known of them.
    fn led_to(&mut self, call: u64, fragment: u64, attributor: &Attributor) -> Vec<PendingCall<E>> {
        let Some(held) = self.calls.get(&call) else { return Vec::new() };
        let is_open_to_it = match held.exchange.fragment {
            Fragment::Ambiguous { .. } => true,
            Fragment::Within { evidence, .. } => evidence == Evidence::Turn,
            _ => false,
        };
        if !is_open_to_it {
            return Vec::new();
        }
        let process = held.exchange.request_start.process;
        let open = attributor.open(process);
        let made_for =
            |exchange: &Exchange| Some(attributor.in_order(process, open, exchange.made_for()?));
        let before = made_for(&held.exchange);
        let trust = attributor.trust_in_turns(process, open);
        let confidence = match (trust, before) {
            (Trust::Sure(sure), _) => sure,
            // What came before says otherwise, and nothing is known of which to believe.
            (_, Some(before)) if !is_strand(before) && before != fragment => return Vec::new(),
            _ => LIKELY,
        };
        let mut ids = vec![call];
        if trust != Trust::None
            && before.is_some_and(|before| is_strand(before) || before == fragment)
            && let Some(of_process) = self.processes.get(&process)
        {
            let calls = &self.calls;
            let waiting = of_process.by_turn.iter().map(|waiting| waiting.call);
            ids.extend(
                waiting.filter(|id| {
                    calls.get(id).is_some_and(|held| made_for(&held.exchange) == before)
                }),
            );
        }
        let mut taken = self.take_all(ids, false);
        for held in &mut taken {
            let evidence = Evidence::Turn;
            held.exchange.fragment = Fragment::Within { fragment, evidence, confidence };
            self.count(process, true);
        }
        taken
    }

    /// The calls that were certainly of a request, if they still are.
    fn of_request(
        &mut self,
        process: u32,
        fragment: u64,
        attributor: &Attributor,
    ) -> Vec<PendingCall<E>> {
        let of_process = self.processes.get_mut(&process);
        let Some(ids) = of_process.and_then(|of| of.by_request.remove(&fragment)) else {
            return Vec::new();
        };
        let mut taken: Vec<_> = ids.into_iter().filter_map(|id| self.take(id)).collect();
        for held in &mut taken {
            held.exchange.fragment = attributor.again(process, held.exchange.fragment);
        }
        taken
    }

    /// The calls of which turns tell after all, and those of which nothing will any more:
    /// all requests that were open then are over, or it takes too long.
    pub fn settled(&mut self, attributor: &Attributor, now_nano: u64) -> Vec<PendingCall<E>> {
        let Self { calls, processes, .. } = self;
        let (mut told, mut over) = (Vec::new(), Vec::new());
        let (mut again, mut of_requests) = (Vec::new(), Vec::new());
        processes.retain(|process, of_process| {
            if of_process.calls == 0 {
                of_process.by_maker.clear();
                of_process.by_turn.clear();
                of_process.by_request.clear();
                return attributor.knows(*process);
            }
            of_process.by_turn.retain(|Waiting { call, .. }| {
                let Some(held) = calls.get(call) else { return false };
                let Fragment::Ambiguous { candidates } = held.exchange.fragment else {
                    return false;
                };
                // What its answer leads to may still tell of the others.
                let made_for = held.exchange.made_for();
                let made_for = made_for.map(|it| attributor.in_order(*process, candidates, it));
                match (attributor.trust_in_turns(*process, candidates), made_for) {
                    (Trust::Sure(sure), Some(fragment)) if !is_strand(fragment) => {
                        told.push((*call, fragment, sure));
                        false
                    }
                    _ => true,
                }
            });
            let oldest_nano = attributor.oldest_open_nano(*process).unwrap_or(u64::MAX);
            let is_over_after = |id: u64, longest_nano: u64| {
                calls.get(&id).is_none_or(|held| {
                    let exchange = &held.exchange;
                    let end = exchange.response_end.unwrap_or(exchange.request_end);
                    oldest_nano > exchange.request_start.time_nano
                        || now_nano.saturating_sub(end.time_nano) > longest_nano
                })
            };
            let is_over = |id: u64| is_over_after(id, MAX_NANO);
            let by_turn = of_process.by_turn.extract_if(.., |Waiting { call, for_maker }| {
                is_over_after(*call, if *for_maker { MAX_NANO } else { MAX_TURN_NANO })
            });
            over.extend(by_turn.map(|waiting| waiting.call));
            of_process.by_maker.retain(|_, made| {
                over.extend(made.extract_if(.., |(id, _)| is_over(*id)).map(|(id, _)| id));
                !made.is_empty()
            });
            for (fragment, ids) in &of_process.by_request {
                if !attributor.is_open(*process, *fragment) || ids.iter().all(|id| is_over(*id)) {
                    of_requests.push((*process, *fragment));
                }
            }
            true
        });
        // The same events give the same spans.
        of_requests.sort_unstable();
        for (process, fragment) in of_requests {
            again.extend(self.of_request(process, fragment, attributor));
        }
        for (id, fragment, confidence) in told {
            let Some(held) = self.calls.get_mut(&id) else { continue };
            let evidence = Evidence::Turn;
            held.exchange.fragment = Fragment::Within { fragment, evidence, confidence };
            over.push(id);
        }
        again.extend(self.take_all(over, true));
        again
    }

    /// The calls of a process that has ended, or runs another program.
    pub fn forget(&mut self, process: u32) -> Vec<PendingCall<E>> {
        let Some(of_process) = self.processes.remove(&process) else { return Vec::new() };
        let OfProcess { by_maker, by_turn, by_request, .. } = of_process;
        let of_makers = by_maker.into_values().flatten().map(|(id, _)| id);
        let of_requests = by_request.into_values().flatten();
        let of_turns = by_turn.into_iter().map(|waiting| waiting.call);
        let ids = of_makers.chain(of_turns).chain(of_requests).collect();
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
