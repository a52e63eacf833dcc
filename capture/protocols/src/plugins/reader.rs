//! Finds message boundaries by asking a plugin. Bytes come in pieces and may be captured only in
//! part.

use std::borrow::Cow;

use super::abi::INPUT_BYTES;
use super::hosted::{Asking, Hosted, Measured, NoAnswer};
use crate::bytes::{Input, Mark};
use crate::framing::Step;
use crate::parser::Likeness;

/// The part of a message that is passed to the plugin.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// First bytes of the message, as far as captured.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Total length of the message.
    pub(super) length: u64,
    /// First byte of the message.
    pub(super) start: Mark,
    /// End of the part passed to the plugin.
    pub(super) end: Mark,
}

/// Result of reading. Without a head, the plugin has failed and cannot be asked.
pub(super) type Read<'a> = Step<Option<Head<'a>>>;

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before a message, or in one whose length is not known yet.
    Beginning,
    /// In the part that is passed to the plugin.
    Looking { length: u64 },
    /// In the rest of a message.
    Rest { remaining: u64 },
    /// The message boundaries are lost.
    Lost,
}

/// Messages of one side.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// First bytes of the message being read, at most [`INPUT_BYTES`].
    held: Vec<u8>,
    start: Option<Mark>,
    /// The other side has sent since the boundaries were lost.
    turned: bool,
}

impl Reader {
    /// Creates a reader that stands before a message.
    pub(super) const fn new() -> Self {
        Self { state: State::Beginning, held: Vec::new(), start: None, turned: false }
    }

    /// Whether the reader stands between two messages.
    pub(super) const fn is_between(&self) -> bool {
        matches!(self.state, State::Beginning) && self.held.is_empty()
    }

    /// Whether the message boundaries are lost.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Whether this side has begun to send after the other side, since the boundaries were lost.
    pub(super) const fn has_turned(&self) -> bool {
        self.turned
    }

    /// Number of bytes held.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Drops the message being read. The next message is searched for at the start of later system
    /// calls.
    pub(super) fn lose(&mut self) {
        self.state = State::Lost;
        self.held = Vec::new();
        self.start = None;
        self.turned = false;
    }

    /// This side begins to send after the other side, which is the most likely place for a message
    /// to begin.
    pub(super) const fn turn(&mut self) {
        self.turned = true;
    }

    /// Reads up to the next step. Call until the result is [`Step::More`]. At [`Step::Unseen`], at
    /// [`Step::Malformed`] and without a head, the rest of the input is skipped.
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
                // The missed bytes may have contained everything that matters in the message.
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

    /// Whether reading resumes at the start of this input.
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
            // A program that reads the header separately leaves too few bytes to decide.
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

    /// Asks the plugin for the length of the message that begins here.
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
            // The plugin still cannot tell with the maximum input, so no message begins here.
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
