//! What a load can be like.

use crate::pods;
use crate::random::Random;
use crate::services::SERVICES;
use crate::shop::INSTANCES;

/// What a load is like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Services in three instances, as one team instruments them: much is alike.
    #[default]
    Shop,
    /// Services in two to nine pods, with what Kubernetes, images and several teams
    /// have to say: less is alike.
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
    /// Instances of a service that there is room for.
    const fn most(self) -> usize {
        match self {
            Self::Shop => INSTANCES,
            Self::Pods => pods::MOST_PODS,
        }
    }

    /// The place of an instance among [all](Self::instances).
    pub(crate) const fn place(self, service: usize, instance: usize) -> usize {
        service * self.most() + instance
    }

    /// All instances that there is room for, with their services.
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

    /// One of so many endpoints.
    pub(crate) fn endpoint(self, random: &mut Random, count: usize) -> usize {
        match self {
            Self::Shop => random.below(count as u64) as usize,
            Self::Pods => pods::zipf(random, count as u64) as usize,
        }
    }
}
