//! What the agent does besides watching the kernel: it sends what native programs record, and this
//! host's metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::agent::{MoreCounters, NativeReport};
use crate::config::AgentConfig;
use crate::drain::{self, DrainConfig, Drains};
use crate::failure::Failure;
use crate::host_metrics::HostMetrics;

/// What was started of it.
pub(super) struct Native {
    host: String,
    drains: Option<Drains>,
    host_metrics: Option<HostMetrics>,
}

impl Native {
    /// Starts what the settings name.
    pub(super) fn start(config: &AgentConfig, server: &str) -> Result<Self, Failure> {
        let settings = &config.settings;
        let host = settings.host.0.clone().unwrap_or_else(spanwise_capture_agent::host_name);
        let host_metrics = match (&settings.metrics_to.0, settings.host_metrics.0) {
            (Some(url), true) => {
                let every = settings.host_metrics_every.0;
                Some(HostMetrics::start(url.clone(), every, host.clone())?)
            }
            (None, true) => {
                return Err(Failure::Usage(
                    "agent.host_metrics is on, and agent.metrics_to names no OTLP endpoint; give \
                     --metrics-to http://HOST:4318, too"
                        .to_owned(),
                ));
            }
            _ => None,
        };
        let directories = config.native_dirs();
        let drains = if directories.is_empty() {
            None
        } else {
            Some(Drains::start(&DrainConfig {
                directories,
                server: server.to_owned(),
                logs_to: settings.logs_to.0.clone(),
                metrics_to: settings.metrics_to.0.clone(),
                host: host.clone(),
            })?)
        };
        Ok(Self { host, drains, host_metrics })
    }

    /// Whether there is anything to do without the kernel.
    pub(super) const fn is_any(&self) -> bool {
        self.drains.is_some() || self.host_metrics.is_some()
    }

    /// What was sent, and what was not.
    pub(super) fn counters(&self) -> MoreCounters {
        let drained = self.drains.as_ref().map(Drains::counts);
        let points = self.host_metrics.as_ref().map(HostMetrics::counts);
        Arc::new(move || {
            let mut all = drained.as_ref().map(drain::counters).unwrap_or_default();
            all.extend(points.iter().flat_map(|points| points.counters()));
            BTreeMap::from_iter(all)
        })
    }

    /// Where no agent tells the server about it.
    pub(super) fn report(
        &self,
        is_told: bool,
        server: String,
    ) -> Result<Option<NativeReport>, Failure> {
        if is_told || !self.is_any() {
            return Ok(None);
        }
        let report = NativeReport::start(server, self.host.clone(), self.counters());
        report.map(Some).map_err(Failure::cannot)
    }

    pub(super) async fn stop(self, report: Option<NativeReport>) {
        if let Some(report) = report {
            report.stop().await;
        }
        // Its threads may wait for a second for the server.
        let _ = tokio::task::spawn_blocking(move || {
            if let Some(drains) = self.drains {
                drains.stop();
            }
        })
        .await;
    }
}
