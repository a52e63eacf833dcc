//! The exporters of all instances. Spans wait in an exporter until there are enough for a request,
//! as in an SDK's batch processor.

use std::ops::RangeInclusive;

use crate::config::LoadConfig;
use crate::pods;
use crate::profile::Profile;
use crate::protobuf::{bytes, field_bytes, header};
use crate::random::Random;
use crate::runtimes::Scope;
use crate::services::SERVICES;
use crate::shop;
use crate::tags::{Tags, write_tags};

/// The unsent spans of one instance of a service.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// The encoded `Resource`, and the `InstrumentationScope` of each scope.
    resource: Vec<u8>,
    scopes: Vec<Vec<u8>>,
    /// For each scope, spans as fields of `ScopeSpans`.
    spans: Vec<Vec<u8>>,
    waiting: u64,
    /// The number of spans at which the batch is sent.
    full: u64,
}

/// The exporters, by service and instance.
pub(crate) fn all(random: &mut Random, config: &LoadConfig) -> Vec<Exporter> {
    let exporter = |(service, instance)| {
        let mut exporter = Exporter::new(config, service, instance, random);
        if let Tags::OfResource(count) = config.tags {
            write_tags(&mut exporter.resource, 1, service, instance, count);
        }
        exporter
    };
    config.profile.instances().map(exporter).collect()
}

impl Exporter {
    fn new(config: &LoadConfig, service: usize, instance: usize, random: &mut Random) -> Self {
        let runtime = SERVICES[service].runtime;
        let scopes = Scope::ALL.map(|scope| {
            let (name, version) = runtime.scope(scope);
            let mut encoded = Vec::new();
            bytes(&mut encoded, 1, name.as_bytes());
            bytes(&mut encoded, 2, version.as_bytes());
            encoded
        });
        Self {
            resource: match config.profile {
                Profile::Shop => shop::resource(service, instance, random),
                Profile::Pods => pods::resource(service, instance, random),
            },
            scopes: scopes.to_vec(),
            spans: vec![Vec::new(); Scope::ALL.len()],
            waiting: 0,
            full: batch_spans(random, &config.batch_spans),
        }
    }

    /// The buffer for the next span of this scope.
    pub(crate) fn spans(&mut self, scope: Scope) -> &mut Vec<u8> {
        self.waiting += 1;
        &mut self.spans[scope as usize]
    }

    /// Number of waiting spans.
    pub(crate) const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Whether there are enough spans for a request.
    pub(crate) const fn is_full(&self) -> bool {
        self.waiting >= self.full
    }

    /// Writes the waiting spans as an `ExportTraceServiceRequest` to `request`, and starts again.
    pub(crate) fn take(
        &mut self,
        random: &mut Random,
        batch_spans: &RangeInclusive<u64>,
        request: &mut Vec<u8>,
    ) {
        let scopes = || self.scopes.iter().zip(&self.spans).filter(|(_, spans)| !spans.is_empty());
        let inner = |(scope, spans): (&Vec<u8>, &Vec<u8>)| field_bytes(scope.len()) + spans.len();
        let length = field_bytes(self.resource.len())
            + scopes().map(|scope| field_bytes(inner(scope))).sum::<usize>();
        request.clear();
        header(request, 1, length);
        bytes(request, 1, &self.resource);
        for (scope, spans) in scopes() {
            header(request, 2, inner((scope, spans)));
            bytes(request, 1, scope);
            request.extend_from_slice(spans);
        }
        self.spans.iter_mut().for_each(Vec::clear);
        self.waiting = 0;
        self.full = self::batch_spans(random, batch_spans);
    }
}

const fn batch_spans(random: &mut Random, within: &RangeInclusive<u64>) -> u64 {
    let (least, most) = (*within.start(), *within.end());
    least + random.below(most - least + 1)
}
