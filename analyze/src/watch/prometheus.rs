//! The rules as alerting rules of Prometheus, over `/metrics/spans`.

use super::rule::Rule;

/// A file of alerting rules, with what each was written as. `window` and `before` are in PromQL's spelling, such as `5m`.
pub fn alerting_rules(rules: &[(String, Rule)], window: &str, before: &str) -> String {
    let mut text = "groups:\n  - name: spanwise\n    rules:\n".to_owned();
    for (written, rule) in rules {
        let (name, expression, summary) = alert(written, rule, window, before);
        text.push_str(&format!(
            "      # {written}\n      - alert: {name}\n        expr: {}\n        for: 1m\n        labels:\n          \
             severity: warning\n        annotations:\n          summary: {}\n",
            quoted(&expression),
            quoted(&summary)
        ));
    }
    text
}

/// A string of YAML and of PromQL.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other if other.is_control() => {}
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn alert(written: &str, rule: &Rule, window: &str, before: &str) -> (&'static str, String, String) {
    let of = |service: &Option<String>, more: &str| {
        let service = service
            .as_ref()
            .map_or(String::new(), |service| format!("service={},", quoted(service)));
        format!("{{{service}span_kind=\"SPAN_KIND_SERVER\"{more}}}[{window}]")
    };
    let calls = |range: &str| {
        format!("sum by (client, server) (increase(traces_service_graph_request_total{range}))")
    };
    match rule {
        Rule::Latency { service, most_nano } => (
            "SpanwiseLatency",
            format!(
                "histogram_quantile(0.95, sum by (le, service) \
                 (rate(traces_spanmetrics_latency_bucket{}))) > {}",
                of(service, ""),
                *most_nano as f64 / 1e9
            ),
            "the 95th percentile of {{ $labels.service }} is {{ $value }} s".to_owned(),
        ),
        Rule::Errors { service, most } => (
            "SpanwiseErrors",
            format!(
                "sum by (service) (rate(traces_spanmetrics_calls_total{})) / sum by (service) \
                 (rate(traces_spanmetrics_calls_total{})) > {most}",
                of(service, ",status_code=\"STATUS_CODE_ERROR\""),
                of(service, "")
            ),
            "{{ $value | humanizePercentage }} of requests to {{ $labels.service }} failed"
                .to_owned(),
        ),
        // A counter that has just appeared has not increased yet.
        Rule::NewEdge => (
            "SpanwiseNewEdge",
            format!(
                "sum by (client, server) (traces_service_graph_request_total) unless sum by \
                 (client, server) (traces_service_graph_request_total offset {before})"
            ),
            "{{ $labels.client }} calls {{ $labels.server }}, which it did not before".to_owned(),
        ),
        Rule::VanishedEdge => (
            "SpanwiseVanishedEdge",
            format!(
                "{} >= 20 unless {} > 0",
                calls(&format!("[{before}] offset {window}")),
                calls(&format!("[{window}]"))
            ),
            "{{ $labels.client }} does not call {{ $labels.server }} any more".to_owned(),
        ),
        // These need more than figures of spans: the server evaluates them.
        Rule::NewError { .. } => evaluated("SpanwiseNewError", written),
        Rule::Weak { .. } => evaluated("SpanwiseStrongDependency", written),
        Rule::Rate { .. } => evaluated("SpanwiseRate", written),
    }
}

/// A rule that the server evaluates, if it is in its configuration.
fn evaluated(name: &'static str, written: &str) -> (&'static str, String, String) {
    let expression = format!("spanwise_watch_alerts{{rule={}}} > 0", quoted(written));
    (name, expression, "{{ $value }} alerts of the rule {{ $labels.rule }}".to_owned())
}
