//! Additional labels.

use crate::attributes::Attributes;

/// Labels such as version, team and zone, the same for all spans of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tags {
    /// None.
    #[default]
    None,
    /// This many, in the resource.
    OfResource(usize),
    /// This many, as attributes of every span.
    OfSpans(usize),
}

/// Writes the labels of an instance as fields with this number: of the team, the version, the host,
/// and so on.
pub(crate) fn write_tags(
    into: &mut Vec<u8>,
    number: u8,
    service: usize,
    instance: usize,
    count: usize,
) {
    let mut scratch = String::new();
    let mut to = Attributes::new(into, number, &mut scratch);
    for tag in 0..count {
        let key = format!("label.company.example/{tag:03}");
        match tag % 4 {
            0 => to.text(&key, "the same for all"),
            1 => to.format(&key, format_args!("of service {:02}, {tag}", service)),
            2 => to.format(&key, format_args!("of instance {service:02}.{instance:02}, {tag}")),
            _ => to.format(&key, format_args!("zone-{}", (service + instance + tag) % 5)),
        }
    }
}
