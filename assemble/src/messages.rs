//! Links between the span that sent a message to a broker and the span that received it.
//!
//! Agents tell for each span which messages it carried (the column `logical_key`): `>task:…` for a
//! message that was sent, `<task:…` for one that was received. Who queued a task did not wait for
//! it, and it may run much later, or several times: so these are links between spans, and no span
//! is another's parent by them.

use ahash::AHashMap;
use spanwise_model::Kind;

/// How much earlier than its sending a message may seem to be received: clocks of hosts differ.
const CLOCK_SLACK_NANO: i64 = 1_000_000_000;

/// A row that carried messages.
#[derive(Debug, Clone, Copy)]
pub struct Carrier<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its start.
    pub start_unix_nano: i64,
    /// Its end.
    pub end_unix_nano: i64,
    /// The broker's address and port, if known.
    pub broker: (Option<&'a str>, Option<u16>),
    /// Its logical key.
    pub logical_key: &'a str,
}

/// Two carriers of one message, by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageLink<'a> {
    /// The one that received it.
    pub receiver: usize,
    /// The one that sent it.
    pub sender: usize,
    /// What identifies the message: `task`, `message`, `correlation`, `place` or `content`.
    pub identity: &'a str,
}

/// The messages of a logical key: whether each was sent, and its identity.
fn messages(logical_key: &str) -> impl Iterator<Item = (bool, &str)> {
    logical_key.split(' ').filter_map(|message| match message.as_bytes().first()? {
        b'>' => Some((true, &message[1..])),
        b'<' => Some((false, &message[1..])),
        _ => None,
    })
}

/// The logical keys of the spans at both ends of the messages in this one.
pub fn message_keys(logical_key: &str) -> impl Iterator<Item = String> {
    messages(logical_key).flat_map(|(_, identity)| [format!(">{identity}"), format!("<{identity}")])
}

/// A broker's own spans carry its messages, too. Those of applications come first.
const fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::Producer | Kind::Consumer => 0,
        Kind::Client => 1,
        Kind::Internal => 2,
        Kind::Server => 3,
    }
}

/// Links each receiver of a message with the one that sent it. Of several senders it is the last
/// one before: tasks are sent again under the same id. If only their contents are known, several
/// senders make no link. The result is sorted.
pub fn link_messages<'a>(carriers: &[Carrier<'a>]) -> Vec<MessageLink<'a>> {
    let mut by_identity: AHashMap<&str, [Vec<usize>; 2]> = AHashMap::new();
    for (position, carrier) in carriers.iter().enumerate() {
        for (sent, identity) in messages(carrier.logical_key) {
            by_identity.entry(identity).or_default()[usize::from(sent)].push(position);
        }
    }
    let mut links = Vec::new();
    for (identity, mut sides) in by_identity {
        for side in &mut sides {
            let best = side.iter().map(|at| rank(carriers[*at].kind)).min();
            side.retain(|at| Some(rank(carriers[*at].kind)) == best);
        }
        let [receivers, senders] = sides;
        let kind = identity.split(':').next().unwrap_or_default();
        for receiver in receivers {
            if let Some(sender) = sender(carriers, receiver, &senders, kind) {
                links.push(MessageLink { receiver, sender, identity: kind });
            }
        }
    }
    links.sort_unstable();
    links.dedup_by_key(|link| (link.receiver, link.sender));
    links
}

fn sender(
    carriers: &[Carrier<'_>],
    receiver: usize,
    senders: &[usize],
    identity: &str,
) -> Option<usize> {
    let latest = carriers[receiver].end_unix_nano.saturating_add(CLOCK_SLACK_NANO);
    let before = |at: &usize| *at != receiver && carriers[*at].start_unix_nano <= latest;
    let mut before: Vec<usize> = senders.iter().copied().filter(before).collect();
    // The same place is another one at another broker.
    let same_broker = |at: &usize| carriers[*at].broker == carriers[receiver].broker;
    if before.len() > 1 && before.iter().any(same_broker) {
        before.retain(same_broker);
    }
    match identity {
        "content" | "place" if before.len() > 1 => None,
        _ => before.into_iter().max_by_key(|at| (carriers[*at].start_unix_nano, *at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrier(kind: Kind, start: i64, logical_key: &str) -> Carrier<'_> {
        let start_unix_nano = start * 10_000_000_000;
        let broker = (Some("10.0.0.1"), Some(6379));
        let end_unix_nano = start_unix_nano + 1;
        Carrier { kind, start_unix_nano, end_unix_nano, broker, logical_key }
    }

    fn links(carriers: &[Carrier<'_>]) -> Vec<(usize, usize)> {
        link_messages(carriers).iter().map(|link| (link.receiver, link.sender)).collect()
    }

    #[test]
    fn applications_are_linked_and_brokers_are_not() {
        let carriers = [
            carrier(Kind::Server, 1, ">task:1"),
            carrier(Kind::Client, 1, ">task:1"),
            carrier(Kind::Client, 2, "<task:1"),
            carrier(Kind::Server, 2, "<task:1"),
            carrier(Kind::Client, 2, "<task:2"),
            carrier(Kind::Client, 2, "order-1"),
        ];
        assert_eq!(links(&carriers), [(2, 1)]);
        let [queued, ..] = link_messages(&carriers)[..] else { panic!("no link") };
        assert_eq!(queued.identity, "task");
        // Deliveries: the broker calls, the application consumes.
        let carriers = [
            carrier(Kind::Client, 2, "<message:1"),
            carrier(Kind::Consumer, 2, "<message:1"),
            carrier(Kind::Server, 1, ">message:1"),
        ];
        assert_eq!(links(&carriers), [(1, 2)], "the broker's span, if there is no other");
    }

    #[test]
    fn tasks_that_are_sent_again_are_linked_with_their_last_sender() {
        let carriers = [
            carrier(Kind::Client, 1, ">task:1"),
            carrier(Kind::Client, 2, "<task:1"),
            carrier(Kind::Client, 3, ">task:1"),
            carrier(Kind::Client, 4, "<task:1"),
        ];
        assert_eq!(links(&carriers), [(1, 0), (3, 2)]);
    }

    #[test]
    fn several_messages_have_several_links_and_doubt_has_none() {
        let mut other = carrier(Kind::Client, 1, ">content:1 >place:5");
        let carriers = [
            carrier(Kind::Client, 1, ">content:1 >place:5"),
            other,
            carrier(Kind::Client, 1, ">place:6"),
            carrier(Kind::Client, 3, "<content:1"),
            carrier(Kind::Client, 3, "<place:5 <place:6"),
        ];
        assert_eq!(links(&carriers), [(4, 2)]);
        other.broker = (Some("10.0.0.2"), Some(6379));
        let mut carriers = carriers;
        carriers[1] = other;
        assert_eq!(links(&carriers), [(3, 0), (4, 0), (4, 2)]);
    }

    #[test]
    fn keys_of_both_ends_are_searched_for() {
        let keys: Vec<String> = message_keys("<task:1 >place:2 x").collect();
        assert_eq!(keys, [">task:1", "<task:1", ">place:2", "<place:2"]);
    }
}
