//! How far a figure is from what is usual, in units of how much it usually varies.

/// Makes a median absolute deviation comparable to a standard deviation of normal values.
const NORMAL: f64 = 1.4826;

/// A figure, and how far it is from the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Deviation {
    pub(super) value: f64,
    /// The median of the usual ones.
    pub(super) usual: f64,
    /// The distance in units of usual variation; positive if the figure is larger.
    pub(super) score: f64,
}

/// What a figure varies by at least: this share of the usual, and this much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floor {
    pub(super) share: f64,
    pub(super) least: f64,
}

impl Deviation {
    /// `error` is the standard error of the value itself. `None` if less than three are usual.
    pub(super) fn of(value: f64, others: &mut [f64], floor: Floor, error: f64) -> Option<Self> {
        if others.len() < 3 {
            return None;
        }
        let (usual, spread) = usual_and_spread(others);
        let scale = spread + floor.share * usual.abs() + floor.least + error;
        Some(Self { value, usual, score: (value - usual) / scale })
    }

    /// A share of `count` that is `hits` of them. Few hits where there are none usually are judged
    /// as counts, whose square roots vary alike whatever their size (Anscombe, 1948).
    pub(super) fn of_hits(hits: f64, count: f64, others: &mut [f64], floor: Floor) -> Option<Self> {
        if others.len() < 3 || count <= 0.0 {
            return None;
        }
        let (usual, spread) = usual_and_spread(others);
        let most = usual + spread + floor.share * usual + floor.least;
        let root = |hits: f64| (hits + 3.0 / 8.0).sqrt();
        Some(Self { value: hits / count, usual, score: 2.0 * (root(hits) - root(most * count)) })
    }
}

/// The median, and a standard deviation that a few extreme values do not move. Sorts them.
fn usual_and_spread(values: &mut [f64]) -> (f64, f64) {
    let usual = median(values);
    let mut distances: Vec<f64> = values.iter().map(|value| (value - usual).abs()).collect();
    (usual, NORMAL * median(&mut distances))
}

/// The median; 0 if there are no values. Sorts them.
pub(super) fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// A quantile, between the two nearest values; 0 if there are none. Sorts them.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let below = (place as usize).min(last);
    let above = (below + 1).min(last);
    values[below] + (values[above] - values[below]) * (place - below as f64)
}
