//! Finds where messages begin and end, by asking a plugin, in bytes that come in
//! pieces, partly captured or not at all.

use std::borrow::Cow;

use super::abi::INPUT_BYTES;
use super::hosted::{Asking, Hosted, Measured, NoAnswer};
use crate::bytes::{Input, Mark};
use crate::framing::Step;
use crate::parser::Likeness;

/// The part of a message that is looked at.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// Its first bytes, as far as they were captured.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Its bytes in all.
    pub(super) length: u64,
    /// Its first byte.
    pub(super) start: Mark,
    /// Past what is looked at.
    pub(super) end: Mark,
}

/// What came of reading. Where there is no head, the plugin failed, and there is nobody
/// to ask.
pub(super) type Read<'a> = Step<Option<Head<'a>>>;

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before a message, or in one whose length is not known yet.
    Beginning,
    /// In what is looked at.
    Looking { length: u64 },
    /// In the rest.
    Rest { remaining: u64 },
    /// The borders are not known.
    Lost,
}

/// One side's messages.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// The first bytes of the message being read, at most [`INPUT_BYTES`].
    held: Vec<u8>,
    start: Option<Mark>,
    /// The other side has spoken since.
    turned: bool,
}

impl Reader {
    /// A reader that stands before a message.
    pub(super) const fn new() -> Self {
        Self { state: State::Beginning, held: Vec::new(), start: None, turned: false }
    }

    /// Whether it is between two messages.
    pub(super) const fn is_between(&self) -> bool {
        matches!(self.state, State::Beginning) && self.held.is_empty()
    }

    /// Whether the borders are lost.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Whether this side has begun to speak after the other one, since the borders
    /// were lost.
    pub(super) const fn has_turned(&self) -> bool {
        self.turned
    }

    /// Bytes that it holds.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Forgets the message being read, and looks for the next one where a later
    /// system call begins.
    pub(super) fn lose(&mut self) {
        self.state = State::Lost;
        self.held = Vec::new();
        self.start = None;
        self.turned = false;
    }

    /// This side begins to speak after the other one has: more likely than
    /// anywhere else, a message begins.
    pub(super) const fn turn(&mut self) {
        self.turned = true;
    }

    /// Reads up to the next step. To be called until there is [`Step::More`]; at
    /// [`Step::Unseen`], [`Step::Malformed`] and without a head the rest of the input
    /// is passed over.
    pub(super) fn read<'a>(
        &mut self,
        input: &mut Input<'a>,
        plugin: &mut Hosted,
        asking: &mut Asking<'_>,
    ) -> Read<'a> {
        loop {
            let step = match self.state {
                State::Lost => self.find(input, plugin, asking),
                State::Beginning => self.begin(input, plugin, asking),
                // What was missed of what is looked at may have been all of the
                // message's meaning.
                State::Looking { .. } if input.missed => Some(self.give_up(input, Step::Unseen)),
                State::Looking { length } => Some(self.look(length, input)),
                State::Rest { remaining } => {
                    let remaining = remaining - input.skip(remaining);
                    if remaining > 0 {
                        self.state = State::Rest { remaining };
                        Some(Step::More)
                    } else {
                        self.state = State::Beginning;
                        self.start = None;
                        Some(Step::End(input.mark))
                    }
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn give_up<'a>(&mut self, input: &mut Input<'a>, step: Read<'a>) -> Read<'a> {
        self.lose();
        input.skip_all();
        step
    }

    fn no_answer<'a>(&mut self, input: &mut Input<'a>, why: NoAnswer) -> Read<'a> {
        match why {
            NoAnswer::Failed => self.give_up(input, Step::Head(None)),
            NoAnswer::Busy => self.give_up(input, Step::Unseen),
        }
    }

    /// Whether reading sets in again with the beginning of this input.
    fn find<'a>(
        &mut self,
        input: &mut Input<'a>,
        plugin: &mut Hosted,
        asking: &mut Asking<'_>,
    ) -> Option<Read<'a>> {
        let turned = std::mem::take(&mut self.turned);
        if input.bytes.is_empty() {
            input.skip_all();
            return Some(Step::More);
        }
        let bytes = &input.bytes[..input.bytes.len().min(INPUT_BYTES)];
        match plugin.recognise(bytes, asking) {
            Ok(Likeness::Yes) => {}
            // Who reads a header by itself gives too little to be told by.
            Ok(Likeness::Maybe) if turned => {}
            Ok(_) | Err(NoAnswer::Busy) => {
                input.skip_all();
                return Some(Step::More);
            }
            Err(NoAnswer::Failed) => return Some(self.no_answer(input, NoAnswer::Failed)),
        }
        self.state = State::Beginning;
        Some(Step::Resumed)
    }

    /// Has the message measured that begins here.
    fn begin<'a>(
        &mut self,
        input: &mut Input<'a>,
        plugin: &mut Hosted,
        asking: &mut Asking<'_>,
    ) -> Option<Read<'a>> {
        if input.is_empty() {
            return Some(Step::More);
        }
        if input.bytes.is_empty() {
            return Some(self.give_up(input, Step::Unseen));
        }
        self.start.get_or_insert(input.mark);
        let held = self.held.len();
        let here = &input.bytes[..input.bytes.len().min(INPUT_BYTES - held)];
        let measured = if held == 0 {
            plugin.measure(here, 0, asking)
        } else {
            self.held.extend_from_slice(here);
            plugin.measure(&self.held, held, asking)
        };
        self.held.truncate(held);
        match measured {
            Ok(Measured::Bytes(length)) => {
                self.state = State::Looking { length };
                None
            }
            // What is longer than this is no beginning.
            Ok(Measured::Unknown) if held + here.len() >= INPUT_BYTES => {
                Some(self.give_up(input, Step::Malformed))
            }
            Ok(Measured::Unknown) if input.unseen > 0 => Some(self.give_up(input, Step::Unseen)),
            Ok(Measured::Unknown) => {
                self.held.extend_from_slice(here);
                input.take(here.len());
                Some(Step::More)
            }
            Ok(Measured::Malformed) => Some(self.give_up(input, Step::Malformed)),
            Err(why) => Some(self.no_answer(input, why)),
        }
    }

    fn look<'a>(&mut self, length: u64, input: &mut Input<'a>) -> Read<'a> {
        let looked = usize::try_from(length).unwrap_or(usize::MAX).min(INPUT_BYTES);
        let wanted = looked - self.held.len();
        let here = &input.bytes[..wanted.min(input.bytes.len())];
        if here.len() < wanted && input.unseen == 0 {
            self.held.extend_from_slice(here);
            input.take(here.len());
            return Step::More;
        }
        let bytes = if self.held.is_empty() {
            Cow::Borrowed(here)
        } else {
            self.held.extend_from_slice(here);
            Cow::Owned(std::mem::take(&mut self.held))
        };
        input.take(here.len());
        self.state = State::Rest { remaining: length - bytes.len() as u64 };
        let start = self.start.unwrap_or(input.mark);
        Step::Head(Some(Head { bytes, length, start, end: input.mark }))
    }
}
