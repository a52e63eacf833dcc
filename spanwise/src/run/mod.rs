//! The subcommands that run something: the only place where stages are wired
//! together.

mod listen;
mod logging;
mod port_owner;
mod signals;

use crate::failure::Failure;
use crate::terminal::print;

/// `spanwise doctor`
pub(crate) fn doctor(json: bool) -> Result<(), Failure> {
    let report = spanwise_capture_ebpf::doctor::examine();
    if json {
        let text = serde_json::to_string_pretty(&report).map_err(Failure::cannot)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report.to_string())?;
    }
    if report.chosen.is_some() {
        Ok(())
    } else {
        Err(Failure::cannot("the agent cannot run on this machine; the report says why"))
    }
}
