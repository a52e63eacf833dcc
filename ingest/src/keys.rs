//! Business keys of spans that applications sent: found by rules, and added as attributes. Agents
//! have found those of their spans, which see what is removed later.

use std::sync::Arc;

use spanwise_keys::{KeyRules, SpanAttributes};
use spanwise_model::schema::column;
use spanwise_model::{AttributeRef, Capture, ModelError, SpanRows, Texts};

use crate::counters::Counters;

/// Keys that were found.
pub(crate) const FOUND: &str = "keys_found";
/// Keys that were left out because they are to be hashed, and the server has no secret.
pub(crate) const UNHASHED: &str = "keys_left_out_no_secret";

/// Finds keys.
pub(crate) struct Keys {
    rules: Arc<KeyRules>,
    counters: Arc<Counters>,
}

impl Keys {
    pub(crate) fn new(rules: Arc<KeyRules>, counters: Arc<Counters>) -> Self {
        Self { rules, counters }
    }

    /// The rows with their keys.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub(crate) fn add(&self, rows: SpanRows) -> Result<SpanRows, ModelError> {
        if self.rules.is_empty() {
            return Ok(rows);
        }
        let mut added: Vec<(usize, &str, String)> = Vec::new();
        let mut unhashed = 0;
        let captures = Texts::of(rows.columns(), column::CAPTURE)?;
        let services = Texts::of(rows.columns(), column::SERVICE)?;
        let mut attributes: Vec<(&str, AttributeRef<'_>)> = Vec::new();
        for row in 0..rows.num_rows() {
            if captures.get(row) != Some(Capture::App.as_str()) {
                continue;
            }
            attributes.clear();
            rows.attributes_of(row, |key, value| attributes.push((key, value)))?;
            let first = added.len();
            for (number, rule) in self.rules.rules().iter().enumerate() {
                let name = self.rules.attribute(number);
                // A rule before may have found it, or the application tells it.
                let is_known = added[first..].iter().any(|(_, known, _)| *known == name)
                    || attributes.iter().any(|(known, _)| *known == name);
                let is_other =
                    rule.service.as_deref().is_some_and(|of| services.get(row) != Some(of));
                if is_known || is_other {
                    continue;
                }
                match self.rules.find(number, &SpanAttributes(&attributes)) {
                    Ok(Some(key)) => added.push((row, name, key.shown)),
                    Ok(None) => {}
                    Err(_) => unhashed += 1,
                }
            }
        }
        if unhashed > 0 {
            self.counters.add(UNHASHED, unhashed);
        }
        if added.is_empty() {
            return Ok(rows);
        }
        self.counters.add(FOUND, added.len() as u64);
        let added: Vec<_> =
            added.iter().map(|(row, key, text)| (*row, *key, AttributeRef::String(text))).collect();
        rows.with_attributes(&added)
    }
}

#[cfg(test)]
mod tests {
    use spanwise_keys::{KeyHash, KeyRule};
    use spanwise_model::{Kind, Span, SpanBatch, SpanBatchBuilder, SpanId};

    use super::*;

    fn span(service: &str, capture: Capture, attributes: &[(&str, &str)]) -> Span {
        let mut span = Span::new(SpanId([1; 8]), capture, Kind::Server, service, "GET", 1, 1);
        let attributes = attributes.iter().map(|(key, text)| ((*key).to_owned(), (*text).into()));
        span.attributes = attributes.collect();
        span
    }

    fn rule(name: &str, place: &str, service: Option<&str>, hash: bool) -> KeyRule {
        let places = vec![place.parse().expect("a place")];
        KeyRule { name: name.to_owned(), places, service: service.map(str::to_owned), hash }
    }

    fn keys(
        rules: Vec<KeyRule>,
        secret: &[u8],
        spans: &[Span],
    ) -> (Vec<Vec<(String, String)>>, u64) {
        let counters = Arc::new(Counters::new(&[]));
        let rules = KeyRules::new(rules, KeyHash::new(secret)).expect("are rules");
        let keys = Keys::new(Arc::new(rules), Arc::clone(&counters));
        let mut builder: SpanBatchBuilder = spans.iter().collect();
        let rows = keys.add(builder.finish_rows().expect("rows")).expect("rows");
        let of = |span: Span| {
            let own = span.attributes.into_iter();
            let own = own.filter(|(key, _)| key.starts_with("spanwise.key."));
            own.map(|(key, value)| (key, value.to_string())).collect()
        };
        let batch = SpanBatch::try_from(rows).expect("a batch");
        let found = batch.spans().map(|span| of(span.expect("a span"))).collect();
        (found, counters.snapshot()[UNHASHED])
    }

    #[test]
    fn keys_of_applications_are_added() {
        let spans = [
            span("orders", Capture::App, &[("url.full", "http://a/orders/47?user=u1")]),
            span("stock", Capture::App, &[("url.path", "/orders/48")]),
            span("orders", Capture::ServerProcess, &[("url.path", "/orders/49")]),
            span(
                "orders",
                Capture::App,
                &[("spanwise.key.order", "told"), ("url.path", "/orders/5")],
            ),
            span("orders", Capture::App, &[]),
        ];
        let rules = vec![
            rule("order", "path:/orders/{key}", Some("orders"), false),
            rule("order", "path:/orders/{key}", Some("none"), false),
            rule("user", "query:user", None, false),
        ];
        let (found, unhashed) = keys(rules, b"", &spans);
        let key = |name: &str, text: &str| (format!("spanwise.key.{name}"), text.to_owned());
        let expected = [
            vec![key("order", "47"), key("user", "u1")],
            vec![],
            vec![],
            vec![key("order", "told")],
            vec![],
        ];
        assert_eq!((found, unhashed), (expected.to_vec(), 0));
    }

    #[test]
    fn what_cannot_be_hashed_is_left_out_and_counted() {
        let spans = [span("a", Capture::App, &[("app.order", "47")])];
        let rules = || vec![rule("order", "attribute:app.order", None, true)];
        assert_eq!(keys(rules(), b"", &spans), (vec![vec![]], 1));
        let (found, unhashed) = keys(rules(), b"a secret of sixteen", &spans);
        let hash = KeyHash::new(b"a secret of sixteen").expect("long enough").hash("order", "47");
        assert_eq!((found, unhashed), (vec![vec![("spanwise.key.order".to_owned(), hash)]], 0));
    }
}
