//! The rules as alerting rules of Prometheus, over `/metrics/spans`.

use super::rules::Rule;

/// A file of rules. `window` is in PromQL's spelling, such as `5m`.
pub(super) fn file(rules: &[(String, Rule)], window: &str, before: &str) -> String {
    let mut text = "groups:\n  - name: spanwise\n    rules:\n".to_owned();
    for (written, rule) in rules {
        let (name, expression, summary) = alert(rule, window, before);
        text.push_str(&format!(
            "      # {written}\n      - alert: {name}\n        expr: {}\n        labels:\n          \
             severity: warning\n        annotations:\n          summary: {}\n",
            quoted(&expression),
            quoted(&summary)
        ));
    }
    text
}

/// A string of JSON is one of YAML and of PromQL, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn alert(rule: &Rule, window: &str, before: &str) -> (&'static str, String, String) {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_in_prometheus_own_form() {
        let rules = ["latency ca\"rt > 250ms", "errors * > 5%", "vanished-edge"];
        let rules = rules.map(|text| (text.to_owned(), Rule::read(text).expect("a rule")));
        let text = file(&rules, "5m", "1h");
        let wanted = r#"        expr: "histogram_quantile(0.95, sum by (le, service) (rate(traces_spanmetrics_latency_bucket{service=\"ca\\\"rt\",span_kind=\"SPAN_KIND_SERVER\"}[5m]))) > 0.25""#;
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains(r#"status_code=\"STATUS_CODE_ERROR\"}[5m])) / sum"#), "{text}");
        assert!(text.contains("request_total[1h] offset 5m)) >= 20 unless"), "{text}");
        assert_eq!(text.matches("- alert: ").count(), 3);
    }
}
