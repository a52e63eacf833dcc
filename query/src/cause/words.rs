//! Figures as people read them.

/// A duration.
pub(super) fn milliseconds(ms: f64) -> String {
    let rounded = |value: f64| match value {
        value if value >= 99.5 => format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.0}"),
        value => {
            let text = format!("{value:.1}");
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
    };
    match ms {
        ms if ms >= 60_000.0 => format!("{} min", rounded(ms / 60_000.0)),
        ms if ms >= 1_000.0 => format!("{} s", rounded(ms / 1_000.0)),
        ms if ms >= 0.95 => format!("{} ms", rounded(ms)),
        ms => format!("{:.0} µs", ms * 1_000.0),
    }
}

/// A share.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent <= 0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A number of calls.
pub(super) fn number(value: f64) -> String {
    let text = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// `rose` or `fell`.
pub(super) fn moved(value: f64, usual: f64) -> &'static str {
    if value >= usual { "rose" } else { "fell" }
}

/// Words with commas, and `and` before the last.
pub(super) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let texts = [0.012, 0.97, 4.0, 4.26, 42.4, 210.3, 1_500.0, 90_000.0].map(milliseconds);
        assert_eq!(
            texts,
            ["12 µs", "1 ms", "4 ms", "4.3 ms", "42 ms", "210 ms", "1.5 s", "1.5 min"]
        );
        let shares = [0.0, 0.0001, 0.013, 0.311, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "less than 0.1 %", "1.3 %", "31 %", "100 %"]);
        assert_eq!([1.0, 1.26, 12.4].map(number), ["1", "1.3", "12"]);
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!((list(&words), list(&words[..1])), ("a, b and c".to_owned(), "a".to_owned()));
    }
}
