//! The source of process names for tracers under test.

use std::sync::Arc;

use spanwise_capture_protocols::process::{Naming, Process, ProcessDirectory, Runtime};
use spanwise_model::ResourceJson;

/// Returns the same name for every process.
pub struct Directory;

impl ProcessDirectory for Directory {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        let executable = "p".to_owned();
        Arc::new(Process {
            process,
            host: "h".to_owned(),
            instance: "h/1".to_owned(),
            runtime: Runtime::Other(executable.clone()),
            resource: ResourceJson::default(),
            default_service: executable.clone(),
            served_ports: Vec::new(),
            search_domains: Vec::new(),
            naming: Naming::ByPort { executable, rules: Arc::new([]) },
        })
    }

    fn forget(&mut self, _process: u32) {}
}
