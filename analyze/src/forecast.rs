//! Forecasts of rates from what was counted in former hours.
//!
//! The rate of an hour is forecast from the same hour of former weeks where three of them were
//! counted, else from the same hour of former days, else from the trend of the last hours. Each
//! says which of them it is, between what the former rates were, and how sure that makes it.

/// An hour.
pub const HOUR_NANO: i64 = 3_600_000_000_000;
/// The least former days or weeks.
const LEAST_PERIODS: usize = 3;
/// The least and the most hours of a trend.
const LEAST_HOURS: usize = 3;
const MOST_HOURS: usize = 24;
/// Former weeks and days that are looked at.
const MOST_WEEKS: usize = 8;
const MOST_DAYS: usize = 14;
/// A trend does not go on beyond so many times the highest rate.
const MOST_GROWTH: f64 = 2.0;

/// What a forecast is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForecastMethod {
    /// The same hour of former weeks.
    FormerWeeks,
    /// The same hour of former days.
    FormerDays,
    /// The line through the last hours.
    Trend,
    /// Too little was counted: the rate of the last hour.
    AsNow,
}

/// A rate that is expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The rate of each second.
    pub per_second: f64,
    /// What most former rates were not below, and not above.
    pub range: (f64, f64),
    /// What it is made from.
    pub method: ForecastMethod,
    /// So many hours were used.
    pub hours: usize,
    /// How sure it is, from 0 to 1: less with few former hours, and with such as differ.
    pub confidence: f64,
}

/// Rates of whole hours, the last of which ended before now.
#[derive(Debug, Clone, PartialEq)]
pub struct HourlyRates {
    /// Start of the first hour.
    pub first_unix_nano: i64,
    /// Rates of each second; `None` for hours before anything was stored.
    pub per_second: Vec<Option<f64>>,
}

impl HourlyRates {
    /// Rates from counts. Hours before the first that counted anything of any entrance, which is
    /// `known_from`, are unknown.
    pub fn of_counts(first_unix_nano: i64, counts: &[u64], known_from: usize) -> Self {
        let rate = |(hour, count): (usize, &u64)| {
            (hour >= known_from).then(|| *count as f64 / (HOUR_NANO as f64 / 1e9))
        };
        Self { first_unix_nano, per_second: counts.iter().enumerate().map(rate).collect() }
    }

    /// The rate of the hour that this is in.
    fn at(&self, unix_nano: i64) -> Option<f64> {
        let hour = unix_nano.checked_sub(self.first_unix_nano)?.div_euclid(HOUR_NANO);
        *self.per_second.get(usize::try_from(hour).ok()?)?
    }

    /// The expected rate of the hour that this is in, which may be to come. `None` if nothing was
    /// counted.
    pub fn forecast(&self, unix_nano: i64) -> Option<Forecast> {
        let former = |days: i64, most: usize| -> Vec<f64> {
            let last = self.first_unix_nano + self.per_second.len() as i64 * HOUR_NANO;
            let step = days * 24 * HOUR_NANO;
            let back = (1..).map(|period: i64| unix_nano - period * step);
            // An hour that is days ahead has no yesterday yet.
            let known = back.skip_while(|at| *at >= last).take(most);
            known.map_while(|at| self.at(at)).collect()
        };
        let (weeks, days) = (former(7, MOST_WEEKS), former(1, MOST_DAYS));
        if weeks.len() >= LEAST_PERIODS {
            return Some(of_former(weeks, ForecastMethod::FormerWeeks));
        }
        if days.len() >= LEAST_PERIODS {
            return Some(of_former(days, ForecastMethod::FormerDays));
        }
        self.trend(unix_nano)
    }

    fn trend(&self, unix_nano: i64) -> Option<Forecast> {
        let known: Vec<(f64, f64)> = (self.per_second.iter().enumerate().rev())
            .map_while(|(hour, rate)| Some((hour as f64, (*rate)?)))
            .take(MOST_HOURS)
            .collect();
        let (_, last) = *known.first()?;
        if known.len() < LEAST_HOURS {
            return Some(Forecast {
                per_second: last,
                range: (0.0, last * MOST_GROWTH),
                method: ForecastMethod::AsNow,
                hours: known.len(),
                confidence: 0.0,
            });
        }
        let count = known.len() as f64;
        let mean = |value: fn(&(f64, f64)) -> f64| known.iter().map(value).sum::<f64>() / count;
        let (mean_hour, mean_rate) = (mean(|it| it.0), mean(|it| it.1));
        let (mut both, mut hours) = (0.0, 0.0);
        for (hour, rate) in &known {
            both += (hour - mean_hour) * (rate - mean_rate);
            hours += (hour - mean_hour).powi(2);
        }
        let slope = both / hours;
        let at = (unix_nano - self.first_unix_nano).div_euclid(HOUR_NANO) as f64;
        let highest = known.iter().map(|it| it.1).fold(0.0, f64::max);
        let line = |hour: f64| mean_rate + slope * (hour - mean_hour);
        let per_second = line(at).clamp(0.0, highest * MOST_GROWTH);
        let off = known.iter().map(|(hour, rate)| (rate - line(*hour)).powi(2)).sum::<f64>();
        // The error of a line grows with the distance from what it is drawn through.
        let spread = (off / (count - 2.0).max(1.0)).sqrt()
            * (1.0 + 1.0 / count + (at - mean_hour).powi(2) / hours).sqrt();
        let range = ((per_second - 2.0 * spread).max(0.0), per_second + 2.0 * spread);
        let ahead = (at - known[0].0).max(1.0);
        let confidence = sureness(per_second, spread, known.len()) / ahead.sqrt();
        let method = ForecastMethod::Trend;
        Some(Forecast { per_second, range, method, hours: known.len(), confidence })
    }
}

fn of_former(mut rates: Vec<f64>, method: ForecastMethod) -> Forecast {
    rates.sort_by(f64::total_cmp);
    let hours = rates.len();
    let per_second = median(&rates);
    let mut off: Vec<f64> = rates.iter().map(|rate| (rate - per_second).abs()).collect();
    off.sort_by(f64::total_cmp);
    // 1.48 makes a standard deviation of it where rates are spread as usual.
    let spread = 1.48 * median(&off);
    let low = (per_second - 3.0 * spread).min(rates[0]).max(0.0);
    let high = (per_second + 3.0 * spread).max(rates[hours - 1]);
    let confidence = sureness(per_second, spread, hours);
    Forecast { per_second, range: (low, high), method, hours, confidence }
}

/// From 0 to 1: high if rates are close together and there are several of them.
fn sureness(rate: f64, spread: f64, count: usize) -> f64 {
    let close = if rate > 0.0 { (1.0 - spread / rate).max(0.0) } else { 0.0 };
    let count = count as f64;
    close * count / (count + 1.0)
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(per_second: impl IntoIterator<Item = f64>) -> HourlyRates {
        let per_second = per_second.into_iter().map(Some).collect();
        HourlyRates { first_unix_nano: 0, per_second }
    }

    #[test]
    fn the_same_hour_of_former_days_is_taken_where_three_of_them_are_known() {
        // Ten at night and a hundred by day, for four days. It is midnight.
        let day = |hour: usize| if (8..20).contains(&(hour % 24)) { 100.0 } else { 10.0 };
        let history = rates((0..96).map(day));
        let noon = history.forecast((96 + 12) * HOUR_NANO).expect("known");
        assert_eq!((noon.per_second, noon.range), (100.0, (100.0, 100.0)));
        assert_eq!((noon.method, noon.hours), (ForecastMethod::FormerDays, 4));
        assert!(noon.confidence > 0.75, "{noon:?}");
        // The day after tomorrow has no yesterday yet, and is like the days that are known.
        let later = history.forecast((96 + 24 + 12) * HOUR_NANO).expect("known");
        assert_eq!((later.per_second, later.hours), (100.0, 4));
    }

    #[test]
    fn the_same_hour_of_former_weeks_comes_first() {
        // Sundays have nothing.
        let week = |hour: usize| if hour / 24 % 7 == 6 { 0.0 } else { 50.0 };
        let history = rates((0..4 * 168).map(week));
        let sunday = history.forecast((4 * 168 + 6 * 24 + 3) * HOUR_NANO).expect("known");
        assert_eq!((sunday.per_second, sunday.method), (0.0, ForecastMethod::FormerWeeks));
        let monday = history.forecast((4 * 168 + 3) * HOUR_NANO).expect("known");
        assert_eq!((monday.per_second, monday.hours), (50.0, 4));
    }

    #[test]
    fn with_less_the_trend_goes_on_and_says_that_it_is_one() {
        let history = rates((0..10).map(|hour| 10.0 + f64::from(hour)));
        let next = history.forecast(10 * HOUR_NANO).expect("known");
        assert!((next.per_second - 20.0).abs() < 1e-9, "{next:?}");
        assert_eq!((next.method, next.hours), (ForecastMethod::Trend, 10));
        let far = history.forecast(40 * HOUR_NANO).expect("known");
        assert!(far.per_second <= 38.0 && far.confidence < next.confidence, "{far:?}");
        let falling = rates((0..10).map(|hour| 10.0 - f64::from(hour)));
        assert_eq!(falling.forecast(30 * HOUR_NANO).expect("known").per_second, 0.0);
    }

    #[test]
    fn with_next_to_nothing_it_is_as_now_and_not_sure_at_all() {
        let history = HourlyRates::of_counts(0, &[0, 0, 0, 3600], 3);
        assert_eq!(history.per_second, [None, None, None, Some(1.0)]);
        let next = history.forecast(4 * HOUR_NANO).expect("known");
        assert_eq!((next.per_second, next.method), (1.0, ForecastMethod::AsNow));
        assert_eq!(next.confidence, 0.0);
        assert_eq!(HourlyRates::of_counts(0, &[0; 4], 4).forecast(4 * HOUR_NANO), None);
    }
}
