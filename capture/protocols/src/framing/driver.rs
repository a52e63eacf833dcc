//! Reads the messages of a framed protocol one after the other. What is lost on the way is
//! counted and survived here; a parser says what a message is.

use super::Step;
use super::strikes::Strikes;
use crate::bytes::{Input, Mark, Side};
use crate::parser::Outcome;
use crate::sessions::Conversation;

/// What came of a message, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sound, or says nothing of that.
    Fine,
    /// It is not what it should be.
    Malformed,
    /// It is none, and the parser has lost the borders: the rest of the input is passed over.
    Lost,
    /// No further message of this input is read.
    Stop(Outcome),
}

impl From<Outcome> for Verdict {
    #[inline]
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Read => Self::Fine,
            outcome => Self::Stop(outcome),
        }
    }
}

/// A protocol whose messages have headers that say how long they are.
pub(crate) trait Framed {
    /// What is looked at of a message.
    type Head<'a>;

    /// The next step in a side's messages.
    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        conversation: &mut Conversation<'_>,
    ) -> Step<Self::Head<'a>>;

    /// Its strikes. A parser clears them where a message is sound.
    fn strikes(&mut self) -> &mut Strikes;

    /// What is looked at of a message is here.
    fn begin(
        &mut self,
        side: Side,
        head: Self::Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Verdict;

    /// The message has passed, up to here.
    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict;

    /// Messages of a side were not seen: the borders are lost. `at` is where seeing
    /// sets in again; `missed` where nothing of them was reported.
    fn unseen(&mut self, side: Side, at: Mark, missed: bool, conversation: &mut Conversation<'_>);

    /// No message begins where one should: the borders are lost. By default that
    /// is a strike, and no more is known than of what was not seen.
    fn malformed(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self.unseen(side, at, false, conversation);
        Verdict::Malformed
    }

    /// The input ends within a message, or between two.
    fn pause(&mut self, _side: Side, _at: Mark, _conversation: &mut Conversation<'_>) {}

    /// The borders are known again.
    fn resume(&mut self, _side: Side) {}

    /// A message was malformed; so were too many before it where `outcome` says so.
    fn struck(
        &mut self,
        _at: Mark,
        outcome: Outcome,
        _conversation: &mut Conversation<'_>,
    ) -> Outcome {
        outcome
    }
}

/// Reads all messages of the input.
pub(crate) fn drive<P: Framed>(
    parser: &mut P,
    side: Side,
    mut input: Input<'_>,
    conversation: &mut Conversation<'_>,
) -> Outcome {
    loop {
        let verdict = match parser.next(side, &mut input, conversation) {
            Step::More => {
                parser.pause(side, input.mark, conversation);
                return Outcome::Read;
            }
            Step::Head(head) => parser.begin(side, head, conversation),
            Step::End(end) => parser.end(side, end, conversation),
            Step::Unseen => {
                conversation.counters.framing_lost += 1;
                parser.unseen(side, input.mark, input.missed, conversation);
                Verdict::Fine
            }
            Step::Malformed => parser.malformed(side, input.mark, conversation),
            Step::Resumed => {
                conversation.counters.resynchronised += 1;
                parser.resume(side);
                Verdict::Fine
            }
        };
        match verdict {
            Verdict::Fine => {}
            Verdict::Malformed | Verdict::Lost => {
                let outcome = parser.strikes().strike(conversation.counters);
                let outcome = parser.struck(input.mark, outcome, conversation);
                if outcome != Outcome::Read || verdict == Verdict::Lost {
                    return outcome;
                }
            }
            Verdict::Stop(outcome) => return outcome,
        }
    }
}
