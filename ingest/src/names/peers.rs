//! Which service answers at an address. It shows when both ends of a call are seen.

use ahash::AHashMap;

/// Addresses that are remembered. The names of calls to further ones stay as they are.
const MAX_ADDRESSES: usize = 8192;
/// Calls whose other end is awaited.
const MEETINGS: usize = 4096;
/// Calls to an address after which it is no longer expected that its service is seen.
const MAX_TRIES: u32 = 4096;
/// Rows for which both ends are recorded after a call to an unknown service.
const EAGER_ROWS: u32 = 65_536;
/// Of other calls, one of so many is recorded: addresses get other services.
const RECORDED: u64 = 64;

/// One of the two ends of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Calling,
    Called,
}

/// An address that was called.
pub(super) type AddressId = usize;

#[derive(Debug, Clone, Copy)]
struct Meeting {
    hop: u64,
    end: End,
    /// A service, or an address, by its end.
    who: usize,
}

#[derive(Debug, Default)]
struct Address {
    /// The service that was seen to answer there.
    service: Option<usize>,
    /// Calls whose other end was not seen.
    tries: u32,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_name: AHashMap<(Box<str>, u16), AddressId>,
    addresses: Vec<Address>,
    /// By hash of the hop; empty until there is one.
    meetings: Vec<Option<Meeting>>,
    /// Rows that are still recorded for an unknown address.
    eager: u32,
}

impl Peers {
    /// The number of an address; `None` if there are too many.
    pub(super) fn address(&mut self, address: &str, port: u16) -> Option<AddressId> {
        let key = (address.into(), port);
        if let Some(known) = self.by_name.get(&key) {
            return Some(*known);
        }
        if self.addresses.len() >= MAX_ADDRESSES {
            return None;
        }
        self.addresses.push(Address::default());
        self.by_name.insert(key, self.addresses.len() - 1);
        Some(self.addresses.len() - 1)
    }

    /// The service that answers at an address.
    pub(super) fn service(&self, address: AddressId) -> Option<usize> {
        self.addresses.get(address)?.service
    }

    fn slot(hop: u64) -> usize {
        (hop.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % MEETINGS
    }

    /// One end of a call has come. `who` is a service, or an address that was called.
    pub(super) fn come(&mut self, hop: u64, end: End, who: usize) {
        if end == End::Calling
            && let Some(address) = self.addresses.get_mut(who)
            && address.service.is_none()
            && address.tries < MAX_TRIES
        {
            address.tries += 1;
            self.eager = EAGER_ROWS;
        }
        if self.eager > 0 {
            self.eager -= 1;
        } else if !hop.is_multiple_of(RECORDED) {
            return;
        }
        if self.meetings.is_empty() {
            self.meetings.resize(MEETINGS, None);
        }
        let meeting = &mut self.meetings[Self::slot(hop)];
        match meeting {
            Some(first) if first.hop == hop && first.end != end => {
                let (service, address) =
                    if end == End::Called { (who, first.who) } else { (first.who, who) };
                if let Some(address) = self.addresses.get_mut(address) {
                    address.service = Some(service);
                }
                *meeting = None;
            }
            _ => *meeting = Some(Meeting { hop, end, who }),
        }
    }
}
