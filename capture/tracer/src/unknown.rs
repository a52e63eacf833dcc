//! How much of what services do is not known, of late: connections that are older than the agent
//! do not say again what they said before.

use ahash::AHashMap;

use crate::spans::Unknown;

/// Services, each on its port, of which this is counted; of others nothing is said.
const MAX_SERVICES: usize = 256;
/// How long what was counted is of the present: up to twice that is counted together.
const WINDOW_NANO: u64 = 60_000_000_000;

/// How much is not known of what a service asked and answered in the last one or two minutes.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ServiceUnknown {
    /// Its name.
    pub service: String,
    /// Its spans.
    pub spans: u64,
    /// Of these, how many do not say what was asked for.
    pub operations_unknown: u64,
    /// How many do not say how they ended.
    pub statuses_unknown: u64,
}

impl ServiceUnknown {
    fn add(&mut self, other: &Self) {
        self.spans += other.spans;
        self.operations_unknown += other.operations_unknown;
        self.statuses_unknown += other.statuses_unknown;
    }

    const fn is_known(&self) -> bool {
        self.operations_unknown == 0 && self.statuses_unknown == 0
    }
}

/// A process, and the port on which it serves, if it does.
type Place = (u32, Option<u16>);

/// What is counted, of services of which something is not known.
#[derive(Debug, Default)]
pub(crate) struct Unknowns {
    /// In this window and in the one before.
    services: AHashMap<Place, [ServiceUnknown; 2]>,
    began_nano: u64,
}

impl Unknowns {
    /// Counts a span. `service` names who emits it, where that is not known yet.
    #[inline]
    pub(crate) fn count(
        &mut self,
        place: Place,
        unknown: Unknown,
        service: impl FnOnce() -> String,
    ) {
        let Unknown { operation, status } = unknown;
        if !(operation || status) && self.services.is_empty() {
            return;
        }
        if (operation || status)
            && self.services.len() < MAX_SERVICES
            && !self.services.contains_key(&place)
        {
            let new = ServiceUnknown { service: service(), ..ServiceUnknown::default() };
            self.services.insert(place, [new, ServiceUnknown::default()]);
        }
        if let Some([now, _]) = self.services.get_mut(&place) {
            now.spans += 1;
            now.operations_unknown += u64::from(operation);
            now.statuses_unknown += u64::from(status);
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now_nano: u64) {
        if now_nano.saturating_sub(self.began_nano) < WINDOW_NANO {
            return;
        }
        self.began_nano = now_nano;
        self.services.retain(|_, [now, before]| {
            let service = now.service.clone();
            *before = std::mem::take(now);
            now.service = service;
            !before.is_known()
        });
    }

    /// What is not known, the most first.
    pub(crate) fn list(&self) -> Vec<ServiceUnknown> {
        let mut list: Vec<ServiceUnknown> = Vec::new();
        for [now, before] in self.services.values() {
            let at = list.iter().position(|known| known.service == now.service);
            let at = at.unwrap_or_else(|| {
                let service = now.service.clone();
                list.push(ServiceUnknown { service, ..ServiceUnknown::default() });
                list.len() - 1
            });
            list[at].add(now);
            list[at].add(before);
        }
        list.retain(|one| !one.is_known());
        list.sort_by(|a, b| {
            let most = |one: &ServiceUnknown| one.operations_unknown + one.statuses_unknown;
            most(b).cmp(&most(a)).then_with(|| a.service.cmp(&b.service))
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Unknown = Unknown { operation: true, status: false };
    const BOTH: Unknown = Unknown { operation: true, status: true };
    const NOTHING: Unknown = Unknown { operation: false, status: false };

    fn said(unknowns: &Unknowns) -> Vec<(String, u64, u64, u64)> {
        let list = unknowns.list().into_iter();
        list.map(|one| (one.service, one.spans, one.operations_unknown, one.statuses_unknown))
            .collect()
    }

    #[test]
    fn of_services_of_which_something_is_unknown_the_share_is_counted_until_all_is_known() {
        let mut unknowns = Unknowns::default();
        unknowns.tick(WINDOW_NANO);
        let count = |unknowns: &mut Unknowns, process, port, unknown, service: &str| {
            unknowns.count((process, port), unknown, || service.to_owned());
        };
        count(&mut unknowns, 1, None, NOTHING, "fine");
        assert!(said(&unknowns).is_empty());
        for unknown in [NAME, BOTH, NOTHING, NOTHING] {
            count(&mut unknowns, 2, None, unknown, "shop");
        }
        count(&mut unknowns, 3, Some(80), NAME, "shop");
        count(&mut unknowns, 4, None, NAME, "card");
        count(&mut unknowns, 1, None, NOTHING, "fine");
        let all = vec![("shop".to_owned(), 5, 3, 1), ("card".to_owned(), 1, 1, 0)];
        assert_eq!(said(&unknowns), all);
        // What happened in the minute before still counts, and then no more.
        unknowns.tick(2 * WINDOW_NANO);
        count(&mut unknowns, 2, None, NOTHING, "shop");
        assert_eq!(said(&unknowns)[0], ("shop".to_owned(), 6, 3, 1));
        unknowns.tick(3 * WINDOW_NANO);
        assert!(said(&unknowns).is_empty());
        unknowns.tick(4 * WINDOW_NANO);
        assert!(unknowns.services.is_empty());
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let mut unknowns = Unknowns::default();
        for process in 0..10_000 {
            unknowns.count((process, None), BOTH, || process.to_string());
        }
        assert_eq!(unknowns.services.len(), MAX_SERVICES);
    }
}
