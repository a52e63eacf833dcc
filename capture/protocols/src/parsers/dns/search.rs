//! Search domains: a resolver asks for a name in each of them, and the one for which there is
//! such a name was meant. That there is none in the others is no failure.

use std::collections::VecDeque;

use ahash::RandomState;

use crate::process::Process;

/// Names looked for in search domains that are remembered.
const MAX_NAMES: usize = 256;

/// Names that were looked for in search domains of late, by whom and as which.
#[derive(Debug, Default)]
pub(super) struct Searches {
    hasher: RandomState,
    names: VecDeque<u64>,
}

impl Searches {
    /// Of a name that there is not, the search domain in which it was looked for. A name that
    /// was looked for in one before is asked for itself, whatever it ends with.
    pub(super) fn searched<'a>(&mut self, name: &str, process: &'a Process) -> Option<&'a str> {
        if process.search_domains.is_empty() {
            return None;
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if self.names.contains(&self.hasher.hash_one((process.process, name.as_str()))) {
            return None;
        }
        // Of several that fit, the longest.
        let ends = |domain: &&String| {
            name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        let fits = process.search_domains.iter().filter(ends).max_by_key(|domain| domain.len());
        let domain = fits?;
        let looked_for = &name[..name.len() - domain.len() - 1];
        let looked_for = self.hasher.hash_one((process.process, looked_for));
        if !self.names.contains(&looked_for) {
            if self.names.len() >= MAX_NAMES {
                self.names.pop_front();
            }
            self.names.push_back(looked_for);
        }
        Some(domain)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::process::{Naming, Runtime};

    pub(in crate::parsers::dns) fn process(process: u32) -> Process {
        Process {
            process,
            host: String::new(),
            instance: String::new(),
            runtime: Runtime::Go,
            resource: spanwise_model::ResourceJson::default(),
            default_service: String::new(),
            naming: Naming::ByPort { executable: String::new(), rules: Arc::new([]) },
            served_ports: Vec::new(),
            search_domains: ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local"]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    #[test]
    fn a_name_is_looked_for_in_each_domain_and_then_asked_for() {
        let mut searches = Searches::default();
        let mut searched = |name: &str| searches.searched(name, &process(1)).map(str::to_owned);
        // As with `ndots:5`; the last one is the name itself, and there is none.
        let name = "cart.other.svc.cluster.local";
        let domain = "shop.svc.cluster.local";
        assert_eq!(searched(&format!("{name}.{domain}")).as_deref(), Some(domain));
        assert_eq!(
            searched(&format!("{name}.svc.cluster.local")).as_deref(),
            Some("svc.cluster.local")
        );
        assert_eq!(searched(&format!("{name}.Cluster.local.")).as_deref(), Some("cluster.local"));
        assert_eq!(searched(name), None);
        assert_eq!(searched("example.com"), None);
        assert_eq!(searched("cluster.local"), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_of_one_process() {
        let mut searches = Searches::default();
        for number in 0..10 * MAX_NAMES {
            searches.searched(&format!("n{number}.cluster.local"), &process(1));
        }
        assert_eq!(searches.names.len(), MAX_NAMES);
        let last = format!("n{}", 10 * MAX_NAMES - 1);
        assert_eq!(searches.searched(&last, &process(1)), None);
        assert!(searches.searched(&format!("{last}.cluster.local"), &process(2)).is_some());
    }
}
