//! The profiles of a load.

use crate::pods;
use crate::random::Random;
use crate::services::SERVICES;
use crate::shop::INSTANCES;

/// The profile of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Services with three instances, instrumented by one team. Spans are similar.
    #[default]
    Shop,
    /// Services with two to nine pods, Kubernetes and image metadata, and several teams. Spans are
    /// more varied.
    Pods,
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "shop" => Ok(Self::Shop),
            "pods" => Ok(Self::Pods),
            _ => Err(format!("there is no profile `{name}`; there are shop and pods")),
        }
    }
}

impl Profile {
    /// Maximum instances of a service.
    const fn most(self) -> usize {
        match self {
            Self::Shop => INSTANCES,
            Self::Pods => pods::MOST_PODS,
        }
    }

    /// The index of an instance among [all](Self::instances).
    pub(crate) const fn place(self, service: usize, instance: usize) -> usize {
        service * self.most() + instance
    }

    /// All possible instances, with their services.
    pub(crate) fn instances(self) -> impl Iterator<Item = (usize, usize)> {
        (0..SERVICES.len()).flat_map(move |service| (0..self.most()).map(move |i| (service, i)))
    }

    /// An instance of a service.
    pub(crate) const fn instance(self, random: &mut Random, service: usize) -> usize {
        match self {
            Self::Shop => random.below(INSTANCES as u64) as usize,
            Self::Pods => pods::pod(random, service),
        }
    }

    /// An endpoint below `count`.
    pub(crate) fn endpoint(self, random: &mut Random, count: usize) -> usize {
        match self {
            Self::Shop => random.below(count as u64) as usize,
            Self::Pods => pods::zipf(random, count as u64) as usize,
        }
    }
}
