//! Exact quantiles.

/// The value below which `share` of the sorted values lie (nearest rank); 0 if there are none.
pub fn quantile(sorted: &[i64], share: f64) -> i64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn nearest_rank() {
        let values: Vec<i64> = (1..=100).collect();
        assert_eq!(quantile(&values, 0.5), 50);
        assert_eq!(quantile(&values, 0.95), 95);
        assert_eq!(quantile(&values, 1.0), 100);
        assert_eq!(quantile(&[7], 0.01), 7);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
