//! The operator's filter, which may change while the agent runs.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// Maximum selectors of one kind, because the kernel's table is fixed.
pub const MAX_SELECTORS: usize = 15;

/// Which connections are traced: those that match `only`, or all if it is empty, except those that
/// match `except`.
///
/// Selectors of one kind (services, ports, network namespaces) are alternatives. In `only`, at
/// least one of each given kind must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Connections to trace; all if empty.
    pub only: Selectors,
    /// Connections to exclude.
    pub except: Selectors,
}

/// A list of selectors: `service=cart,port=8000-8099,netns=blue`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Service names, each with at most one `*` for any text.
    pub services: Vec<String>,
    /// Ranges of ports on which the connection is served: first and last.
    pub ports: Vec<(u16, u16)>,
    /// Network namespaces of the socket.
    pub namespaces: Vec<Namespace>,
}

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespace {
    /// The inode number, as shown by `readlink /proc/PID/ns/net`.
    Inode(u32),
    /// The name, as shown by `ip netns`. It may be created later.
    Named(String),
}

impl Namespace {
    /// The namespace's inode number; `None` if there is no namespace with this name.
    pub fn inode(&self) -> Option<u32> {
        match self {
            Self::Inode(inode) => Some(*inode),
            Self::Named(name) => std::fs::metadata(format!("/run/netns/{name}"))
                .ok()
                .and_then(|found| u32::try_from(found.ino()).ok()),
        }
    }
}

impl Selectors {
    /// Whether there are no selectors.
    pub const fn is_empty(&self) -> bool {
        self.services.is_empty() && self.ports.is_empty() && self.namespaces.is_empty()
    }

    fn has_service(&self, name: &str) -> bool {
        self.services.iter().any(|pattern| match pattern.split_once('*') {
            None => pattern == name,
            Some((begin, end)) => {
                name.len() >= begin.len() + end.len()
                    && name.starts_with(begin)
                    && name.ends_with(end)
            }
        })
    }

    fn has_port(&self, port: u16) -> bool {
        self.ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }

    fn add(&mut self, selector: &str) -> Result<(), String> {
        let wrong = |what: &str| {
            format!(
                "`{selector}` {what}; selectors are service=NAME (with one * for any text), \
                 port=N, port=FIRST-LAST and netns=NAME or netns=INODE"
            )
        };
        let (kind, value) = selector.split_once('=').ok_or_else(|| wrong("is no selector"))?;
        let value = value.trim();
        if value.is_empty() {
            return Err(wrong("selects nothing"));
        }
        match kind.trim() {
            "service" if value.matches('*').count() > 1 => {
                return Err(wrong("has more than one *"));
            }
            "service" => self.services.push(value.to_owned()),
            "port" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
                match (port(first), port(last)) {
                    (Some(first), Some(last)) if first <= last => self.ports.push((first, last)),
                    _ => return Err(wrong("names no ports from 1 to 65535")),
                }
            }
            "netns" if value.contains('/') => return Err(wrong("names a path")),
            "netns" => self.namespaces.push(
                value.parse().map_or_else(|_| Namespace::Named(value.to_owned()), Namespace::Inode),
            ),
            _ => return Err(wrong("is of no known kind")),
        }
        let most = self.services.len().max(self.ports.len()).max(self.namespaces.len());
        if most > MAX_SELECTORS {
            return Err(format!("there are more than {MAX_SELECTORS} selectors of one kind"));
        }
        Ok(())
    }
}

impl FromStr for Selectors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut selectors = Self::default();
        for selector in text.split(',').map(str::trim).filter(|selector| !selector.is_empty()) {
            selectors.add(selector)?;
        }
        Ok(selectors)
    }
}

impl fmt::Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.services.iter().map(|name| format!("service={name}"));
        let ports = self.ports.iter().map(|(first, last)| match first == last {
            true => format!("port={first}"),
            false => format!("port={first}-{last}"),
        });
        let namespaces = self.namespaces.iter().map(|namespace| match namespace {
            Namespace::Inode(inode) => format!("netns={inode}"),
            Namespace::Named(name) => format!("netns={name}"),
        });
        f.write_str(&services.chain(ports).chain(namespaces).collect::<Vec<_>>().join(","))
    }
}

impl Filter {
    /// Whether there are selectors for services. The kernel only knows processes.
    pub const fn names_services(&self) -> bool {
        !self.only.services.is_empty() || !self.except.services.is_empty()
    }

    /// Whether a service with this name is traced.
    pub fn wants_service(&self, name: &str) -> bool {
        (self.only.services.is_empty() || self.only.has_service(name))
            && !self.except.has_service(name)
    }

    /// Whether it leaves nothing out.
    pub const fn is_empty(&self) -> bool {
        self.only.is_empty() && self.except.is_empty()
    }

    /// Whether sockets of this network namespace are wanted.
    pub fn wants_namespace(&self, inode: u32) -> bool {
        let is_in = |namespaces: &[Namespace]| {
            namespaces.iter().any(|namespace| namespace.inode() == Some(inode))
        };
        (self.only.namespaces.is_empty() || is_in(&self.only.namespaces))
            && !is_in(&self.except.namespaces)
    }

    /// Whether a connection is wanted that is served on the one port, or on the other where
    /// that is not known.
    pub fn wants_server_port(&self, port: u16, or: Option<u16>) -> bool {
        let either = |selectors: &Selectors| {
            selectors.has_port(port) || or.is_some_and(|other| selectors.has_port(other))
        };
        (self.only.ports.is_empty() || either(&self.only)) && !either(&self.except)
    }

    /// Whether a datagram between these ports is wanted: either may be the
    /// server's.
    pub fn wants_ports(&self, local: u16, remote: u16) -> bool {
        let either =
            |selectors: &Selectors| selectors.has_port(local) || selectors.has_port(remote);
        (self.only.ports.is_empty() || either(&self.only)) && !either(&self.except)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.only.is_empty(), self.except.is_empty()) {
            (true, true) => f.write_str("everything"),
            (false, true) => write!(f, "only {}", self.only),
            (true, false) => write!(f, "everything except {}", self.except),
            (false, false) => write!(f, "only {} except {}", self.only, self.except),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_they_are_written() {
        for text in ["", "service=cart", "service=py*,port=80,port=8000-8099,netns=blue,netns=40"] {
            let read: Selectors = text.parse().expect("selectors");
            assert_eq!(read.to_string(), text);
        }
        let spaced: Selectors = " port = 80 , service=a b ,".parse().expect("selectors");
        assert_eq!(spaced.to_string(), "service=a b,port=80");
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_would_be_one() {
        for wrong in [
            "nginx",
            "port=",
            "port=0",
            "port=70000",
            "port=90-80",
            "port=a",
            "pid=3",
            "service=*a*",
            "netns=/run/netns/x",
        ] {
            let error = wrong.parse::<Selectors>().expect_err(wrong);
            assert!(error.contains("service=NAME"), "{error}");
        }
        let many = vec!["port=1"; MAX_SELECTORS + 1].join(",");
        assert!(many.parse::<Selectors>().is_err());
    }

    #[test]
    fn kinds_narrow_and_values_widen() {
        let filter = |only: &str, except: &str| Filter {
            only: only.parse().expect("selectors"),
            except: except.parse().expect("selectors"),
        };
        let some = filter("service=cart,service=py*:8001,port=443", "service=python3:8080");
        assert!(some.wants_service("cart"));
        assert!(some.wants_service("python3:8001"));
        assert!(!some.wants_service("python3:8080"));
        assert!(!some.wants_service("carts"));
        assert!(some.wants_ports(443, 5000) && some.wants_ports(5000, 443));
        assert!(!some.wants_ports(80, 5000));
        let all = filter("", "");
        assert!(all.wants_service("x") && all.wants_ports(1, 2) && !all.names_services());
        assert!(!filter("", "service=a*a").wants_service("aa"));
        assert!(filter("", "service=a*a").wants_service("a"), "the ends do not overlap");
    }
}
