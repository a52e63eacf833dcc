//! Checks what this host allows the agent: tries every feature, reports which ones will be used,
//! and what is lost without the missing ones.

use std::fmt;
use std::fs;

use serde::Serialize;

use spanwise_capture_ebpf::kernel::{
    Hook, HookChoice, Kernel, KernelConfig, Probe, ProbeOutcome, probe_all,
};
use spanwise_capture_ebpf::runtimes::{self, Survey};
use spanwise_capture_host::rights;

/// The results.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `uname -r`.
    pub kernel_release: String,
    /// `x86_64` or `aarch64`.
    pub architecture: &'static str,
    /// Rights and settings, each with its consequence.
    pub conditions: Vec<Condition>,
    /// Features with their results.
    pub probes: Vec<Probe>,
    /// Each set of hooks, loaded and attached completely. The first that works is used.
    pub hooks: Vec<HookTrial>,
    /// The hooks that will be used; `None` means that the agent cannot run.
    pub chosen: Option<Hook>,
    /// Processes in which concurrent requests can be distinguished.
    pub tasks: Survey,
}

/// A right or a setting.
#[derive(Debug, Clone, Serialize)]
pub struct Condition {
    /// The name of the right or setting.
    pub name: &'static str,
    /// The current value.
    pub found: String,
    /// Whether it prevents the agent from running or impairs it.
    pub blocks: bool,
    /// The consequence, and what to do.
    pub consequence: String,
}

/// The result for a set of hooks.
#[derive(Debug, Clone, Serialize)]
pub struct HookTrial {
    /// The set.
    pub hook: Hook,
    /// The kernel's reason if it refused.
    pub refusal: Option<String>,
}

/// Tries everything. Takes about a second and changes nothing.
pub fn examine() -> Report {
    let hooks: Vec<HookTrial> = Hook::ALL
        .iter()
        .map(|hook| {
            let config = KernelConfig {
                hook: HookChoice::Only(*hook),
                ring_bytes: 1 << 16,
                ..KernelConfig::default()
            };
            let refusal = Kernel::attach(&config).err().map(|error| error.to_string());
            HookTrial { hook: *hook, refusal }
        })
        .collect();
    Report {
        kernel_release: read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        architecture: std::env::consts::ARCH,
        conditions: conditions(),
        probes: probe_all(),
        chosen: hooks.iter().find(|trial| trial.refusal.is_none()).map(|trial| trial.hook),
        hooks,
        tasks: runtimes::survey(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn conditions() -> Vec<Condition> {
    let right = |name, capability, why: &str| {
        let held = rights::holds(capability);
        Condition {
            name,
            found: if held { "held" } else { "missing" }.to_owned(),
            blocks: !held && [rights::CAP_BPF, rights::CAP_PERFMON].contains(&capability),
            consequence: why.to_owned(),
        }
    };
    let btf = fs::metadata("/sys/kernel/btf/vmlinux").is_ok();
    let lockdown = read("/sys/kernel/security/lockdown");
    let confidential = lockdown.as_deref().is_some_and(|text| text.contains("[confidentiality]"));
    vec![
        right("CAP_BPF", rights::CAP_BPF, "loads the programs"),
        right("CAP_PERFMON", rights::CAP_PERFMON, "attaches them and reads kernel memory"),
        right(
            "CAP_SYS_PTRACE",
            rights::CAP_SYS_PTRACE,
            "reads other users' /proc/PID/exe, maps and root; without it services are named by \
             their command and port, and TLS is not read in their processes",
        ),
        right(
            "CAP_DAC_READ_SEARCH",
            rights::CAP_DAC_READ_SEARCH,
            "reads other users' /proc/PID/environ and fd, and libraries in directories that only \
             they may enter; without it OTEL_SERVICE_NAME and listening ports are not known, nor \
             TLS of such libraries",
        ),
        Condition {
            name: "kernel type information (BTF)",
            found: if btf { "present" } else { "missing" }.to_owned(),
            blocks: !btf,
            consequence: "fields are found on the running kernel; a kernel built without \
                          CONFIG_DEBUG_INFO_BTF cannot be traced"
                .to_owned(),
        },
        Condition {
            name: "kernel lockdown",
            found: lockdown.unwrap_or_else(|| "not in this kernel".to_owned()),
            blocks: confidential,
            consequence: "in mode confidentiality the kernel refuses to let BPF read its memory; \
                          boot without lockdown=confidentiality to trace"
                .to_owned(),
        },
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Linux {} on {}", self.kernel_release, self.architecture)?;
        writeln!(f, "\nRights and settings")?;
        for condition in &self.conditions {
            let mark = if condition.blocks { "NO" } else { "ok" };
            writeln!(f, "  {mark:<3} {:<32} {}", condition.name, condition.found)?;
            if condition.blocks || condition.found == "missing" {
                writeln!(f, "      {}", condition.consequence)?;
            }
        }
        writeln!(f, "\nFeatures, each tried on this kernel")?;
        for probe in &self.probes {
            match &probe.outcome {
                ProbeOutcome::Works => {
                    writeln!(f, "  ok  {:<36} {}", probe.feature, probe.purpose)?;
                }
                ProbeOutcome::Missing(reason) => {
                    writeln!(f, "  --  {:<36} {}", probe.feature, probe.purpose)?;
                    writeln!(f, "      kernel: {reason}")?;
                    writeln!(f, "      without it: {}", probe.without)?;
                }
            }
        }
        writeln!(f, "\nHooks on socket calls, best first")?;
        for trial in &self.hooks {
            let used = if self.chosen == Some(trial.hook) { "  <- will be used" } else { "" };
            match &trial.refusal {
                None => writeln!(f, "  ok  {:<14}{used}", trial.hook.name())?,
                Some(reason) => writeln!(f, "  --  {:<14} {reason}", trial.hook.name())?,
            }
            writeln!(f, "      {}", trial.hook.consequence())?;
        }
        writeln!(f, "\nProcesses that run now, and handle many requests at once")?;
        for (what, count) in &self.tasks.followed {
            writeln!(f, "  ok  {count} whose {what} are followed")?;
        }
        for (reason, count) in &self.tasks.unknown {
            writeln!(f, "  --  {count} followed only while one request is open: {reason}")?;
        }
        if self.tasks.followed.is_empty() && self.tasks.unknown.is_empty() {
            writeln!(f, "  none is known to")?;
        }
        writeln!(f)?;
        match self.chosen {
            Some(hook) => {
                writeln!(f, "The agent can run, with {hook}.")?;
                writeln!(
                    f,
                    "Seen: TCP over IPv4 and IPv6, stream Unix sockets (not with sys-exit), and DNS \
                     over UDP; what OpenSSL, GnuTLS and Go encrypt, in the clear.\n\
                     Not seen: other UDP, TLS of the JVM and of rustls; payload \
                     moved by sendfile, splice or io_uring is counted, not read (by io_uring not \
                     with sys-exit)."
                )
            }
            None => writeln!(
                f,
                "The agent cannot run here. `spanwise up` still serves what OpenTelemetry clients \
                 send."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_every_feature_and_says_what_is_lost() {
        let report = examine();
        let text = report.to_string();
        for probe in &report.probes {
            assert!(text.contains(probe.feature));
            if probe.outcome != ProbeOutcome::Works {
                assert!(text.contains(probe.without));
            }
        }
        assert_eq!(report.chosen.is_some(), text.contains("The agent can run"));
        assert!(serde_json::to_string(&report).is_ok());
    }
}
