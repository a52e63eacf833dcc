//! Changed rates of entrances: `checkout=3x`.

use crate::native::parameters::brief;

/// The most of one request.
pub(super) const MAX_SCALES: usize = 64;
const FORMS: &str = "`SERVICE=3x`, `SERVICE OPERATION=3x`, `SERVICE OPERATION=200/s` or `*=2x`";

/// A changed rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    /// A service, a service and an operation, or `*`.
    pub(super) entrance: String,
    pub(super) change: Change,
}

/// How a rate is changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    /// It is multiplied by this.
    Factor(f64),
    /// It is this, per second; that of several entrances together.
    PerSecond(f64),
}

impl Scale {
    /// Reads one of the forms. The error says what to write.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("`scale` is `{}`; write {FORMS}", brief(text));
        // Operations may have a `=`.
        let (entrance, change) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (entrance, change) = (entrance.trim(), change.trim());
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| number.is_finite() && (0.0..=1e12).contains(number))
        };
        let change = match (change.strip_suffix(['x', 'X']), change.strip_suffix("/s")) {
            (Some(factor), _) => number(factor).map(Change::Factor),
            (None, Some(rate)) => number(rate).map(Change::PerSecond),
            (None, None) => None,
        };
        match change {
            Some(change) if !entrance.is_empty() => {
                Ok(Self { entrance: entrance.to_owned(), change })
            }
            _ => Err(wrong()),
        }
    }

    /// Whether it is about this entrance.
    pub(super) fn fits(&self, service: &str, operation: &str) -> bool {
        let rest = self.entrance.strip_prefix(service);
        self.entrance == "*"
            || rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(' ') == Some(operation))
    }
}

/// The factor of each entrance, which are given with service, operation and rate. Of several
/// changes that fit, the last one counts, and `*` only where no other one fits. The error names
/// what fits nothing.
pub(super) fn factors(
    scales: &[Scale],
    entrances: &[(&str, &str, f64)],
) -> Result<Vec<f64>, String> {
    let of = |service: &str, operation: &str| {
        let fitting = || scales.iter().enumerate().rev();
        let named = fitting().find(|(_, it)| it.entrance != "*" && it.fits(service, operation));
        named.or_else(|| fitting().find(|(_, it)| it.entrance == "*")).map(|(place, _)| place)
    };
    let chosen: Vec<Option<usize>> =
        entrances.iter().map(|(service, operation, _)| of(service, operation)).collect();
    for scale in scales {
        if !entrances.iter().any(|(service, operation, _)| scale.fits(service, operation)) {
            let known: Vec<String> = entrances
                .iter()
                .take(10)
                .map(|(service, operation, _)| format!("`{service} {operation}`"))
                .collect();
            return Err(format!(
                "no entrance of this time is `{}`; the most frequent ones are: {}",
                brief(&scale.entrance),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ));
        }
    }
    let rate_of = |place: usize| -> f64 {
        let all = chosen.iter().zip(entrances).filter(|(chosen, _)| **chosen == Some(place));
        all.map(|(_, (_, _, rate))| rate).sum()
    };
    let factor = |chosen: &Option<usize>| match chosen.map(|place| (place, scales[place].change)) {
        None => 1.0,
        Some((_, Change::Factor(factor))) => factor,
        Some((place, Change::PerSecond(rate))) => {
            let now = rate_of(place);
            if now > 0.0 { rate / now } else { 1.0 }
        }
    };
    Ok(chosen.iter().map(factor).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_factors_or_rates() {
        let read = |text| Scale::read(text).map(|scale| (scale.entrance, scale.change));
        assert_eq!(read("shop=3x"), Ok(("shop".into(), Change::Factor(3.0))));
        assert_eq!(
            read("shop GET /?a=b = 0.5x"),
            Ok(("shop GET /?a=b".into(), Change::Factor(0.5)))
        );
        assert_eq!(read("*=200/s"), Ok(("*".into(), Change::PerSecond(200.0))));
        for wrong in [
            "",
            "shop",
            "shop=",
            "shop=3",
            "=3x",
            "shop=-1x",
            "shop=NaNx",
            "shop=infx",
            "shop=1e13x",
        ] {
            let error = Scale::read(wrong).expect_err(wrong);
            assert!(error.contains("SERVICE=3x"), "{error}");
        }
    }

    #[test]
    fn the_last_change_that_fits_counts_and_a_star_is_for_the_others() {
        let entrances = [("shop", "buy", 1.0), ("shop", "look", 3.0), ("shopping", "buy", 5.0)];
        let factors = |texts: &[&str]| {
            let scales: Vec<Scale> =
                texts.iter().map(|text| Scale::read(text).expect("a scale")).collect();
            super::factors(&scales, &entrances)
        };
        assert_eq!(factors(&[]), Ok(vec![1.0, 1.0, 1.0]));
        assert_eq!(factors(&["shop=2x"]), Ok(vec![2.0, 2.0, 1.0]));
        assert_eq!(factors(&["shop=2x", "shop buy=4x", "*=0.5x"]), Ok(vec![4.0, 2.0, 0.5]));
        // A rate is that of all that it is about together.
        assert_eq!(factors(&["shop=8/s"]), Ok(vec![2.0, 2.0, 1.0]));
        let error = factors(&["chop=2x"]).expect_err("unknown");
        assert!(error.contains("`chop`") && error.contains("`shop buy`"), "{error}");
    }
}
