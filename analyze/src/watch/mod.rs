//! Rules over figures of services, evaluated as spans come.
//!
//! [`History`] keeps the figures of some time, [`Rule::broken`] says what breaks a rule, and
//! [`Alerts`] follows what begins and ends.

mod alerts;
mod broken;
mod error_kinds;
mod history;
mod prometheus;
mod rule;
#[cfg(test)]
mod tests;

pub use alerts::{Alerts, OpenAlert};
pub use broken::{Alert, Forecasts, StrongEdge};
pub use error_kinds::ErrorKinds;
pub use history::{Entrance, ErrorFigures, Figures, History, HistoryConfig, ServiceFigures};
pub use prometheus::alerting_rules;
pub use rule::{RULE_FORMS, Rule};
