//! `GET /api/v1/capacity`

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use spanwise_analyze::forecast::ForecastMethod;
use spanwise_analyze::{Chain, Load, Operation, Peak};
use spanwise_api as api;
use spanwise_api::Nano;
use spanwise_api::endpoints::CAPACITY;
use spanwise_query::{ObservedRuns, Queries, RateHistory, RunFigures, now_unix_nano};
use spanwise_store::TimeRange;

use super::scale::{self, MAX_SCALES, Scale};
use super::{Pairs, computed, convert, observed, rows};
use crate::answer_limits::AnswerLimits;
use crate::native::parameters::Parameters;
use crate::problem::Problem;

/// The furthest that is forecast.
const MAX_AHEAD_NANO: i64 = 366 * 24 * 3_600_000_000_000;
/// The most chains that are named for a load.
const MAX_CHAINS: usize = 10;

pub(crate) async fn capacity(
    State(queries): State<Queries>,
    State(limits): State<Arc<AnswerLimits>>,
    UrlQuery(pairs): Pairs,
) -> Result<Json<api::Capacity>, Problem> {
    let parameters = Parameters::of(&CAPACITY, pairs)?;
    let limit = rows(&parameters)?;
    let texts = parameters.all("scale").filter(|text| !text.trim().is_empty());
    let scales: Vec<Scale> =
        texts.map(Scale::read).collect::<Result<_, _>>().map_err(Problem::invalid)?;
    if scales.len() > MAX_SCALES {
        return Err(Problem::invalid(format!(
            "there are {} values of `scale`; {MAX_SCALES} are taken",
            scales.len()
        )));
    }
    let ahead_nano = parameters.duration("forecast")?;
    if ahead_nano.is_some_and(|ahead| !(0..=MAX_AHEAD_NANO).contains(&ahead)) {
        return Err(Problem::invalid("`forecast` is 0s to 366d ahead"));
    }
    let runs =
        observed(&queries, &limits, parameters.time_range()?, RunFigures::Everything).await?;
    let expected = match ahead_nano {
        None => None,
        Some(ahead) => Some(Expected::read(&queries, &runs, ahead).await?),
    };
    let predicted = computed(move || predict(&runs, &scales, expected.as_ref(), limit)).await?;
    predicted.map(Json).map_err(Problem::invalid)
}

/// What entrances are expected to get.
struct Expected {
    at_unix_nano: i64,
    history: RateHistory,
    /// Requests in the time that was observed, counted as in the history.
    now: BTreeMap<Operation, u64>,
}

impl Expected {
    async fn read(
        queries: &Queries,
        runs: &ObservedRuns,
        ahead_nano: i64,
    ) -> Result<Self, Problem> {
        let now_unix_nano = now_unix_nano();
        let time = TimeRange {
            from_unix_nano: runs.from_unix_nano,
            to_unix_nano: runs.time.to_unix_nano.min(now_unix_nano).max(runs.from_unix_nano + 1),
        };
        Ok(Self {
            at_unix_nano: now_unix_nano.saturating_add(ahead_nano),
            history: queries.rate_history().await?,
            now: queries.request_counts(time).await?,
        })
    }

    /// The forecast of an entrance, as a rate of runs: not all of its spans may have been runs.
    fn of(&self, name: &Operation, now_per_second: f64, seconds: f64) -> Option<api::RateForecast> {
        let forecast = self.history.operation(name, self.at_unix_nano)?;
        let spans_per_second = *self.now.get(name)? as f64 / seconds.max(1e-9);
        let runs_of_spans = now_per_second / spans_per_second;
        if !runs_of_spans.is_finite() {
            return None;
        }
        Some(api::RateForecast {
            confidence: forecast.confidence,
            high_per_second: forecast.range.1 * runs_of_spans,
            hours: forecast.hours as u64,
            low_per_second: forecast.range.0 * runs_of_spans,
            method: match forecast.method {
                ForecastMethod::FormerWeeks => api::ForecastMethod::FormerWeeks,
                ForecastMethod::FormerDays => api::ForecastMethod::FormerDays,
                ForecastMethod::Trend => api::ForecastMethod::Trend,
                ForecastMethod::AsNow => api::ForecastMethod::AsNow,
            },
            per_second: forecast.per_second * runs_of_spans,
        })
    }
}

/// The loads with these changes. The error names a change that fits no entrance.
fn predict(
    runs: &ObservedRuns,
    scales: &[Scale],
    expected: Option<&Expected>,
    limit: usize,
) -> Result<api::Capacity, String> {
    let chains = runs.chains.chains();
    let entrances = entrances(runs, scales, expected)?;
    let factors: BTreeMap<(&str, &str), f64> = entrances
        .iter()
        .map(|entrance| ((entrance.service.as_str(), entrance.operation.as_str()), entrance.factor))
        .collect();
    let factor = |chain: &Chain| {
        factors.get(&(chain.service.as_str(), chain.operation.as_str())).copied().unwrap_or(1.0)
    };
    let loads = spanwise_analyze::capacity(&chains, runs.window_seconds, factor);
    let mut of_services: BTreeMap<String, Load> = BTreeMap::new();
    for (operation, load) in &loads {
        of_services.entry(operation.service.clone()).or_default().merge(load);
    }
    let (peaks, of_peaks) = (runs.peaks.operations(), runs.peaks.services());
    let mut operations: Vec<api::PredictedLoad> = loads
        .into_iter()
        .map(|(name, load)| {
            let peak = peaks.get(&name).copied();
            let Operation { service, operation } = name;
            predicted(service, Some(operation), &load, peak, &chains)
        })
        .collect();
    let mut services: Vec<api::PredictedLoad> = of_services
        .into_iter()
        .map(|(name, load)| {
            let peak = of_peaks.get(&name).copied();
            predicted(name, None, &load, peak, &chains)
        })
        .collect();
    for list in [&mut operations, &mut services] {
        list.sort_by(|one, other| {
            let key = |load: &api::PredictedLoad| (load.to_peak, load.predicted_per_second);
            key(other).partial_cmp(&key(one)).unwrap_or(std::cmp::Ordering::Equal)
        });
    }
    let total = operations.len() as u64;
    operations.truncate(limit);
    let mut warnings = runs.warnings.clone();
    let unknown = entrances.iter().filter(|entrance| entrance.forecast.is_none()).count();
    if expected.is_some() && unknown > 0 {
        warnings.push(format!(
            "nothing is forecast for {unknown} entrances, which had no whole hour yet: their rate \
             is that of now"
        ));
    }
    if services.len() > limit {
        warnings.push(format!(
            "{limit} of {} services are listed; raise `limit` for more",
            services.len()
        ));
        services.truncate(limit);
    }
    Ok(api::Capacity {
        entrances,
        forecast_unix_nano: expected.map(|expected| Nano(expected.at_unix_nano)),
        observed: convert::observed(runs),
        operations,
        peak_seconds: runs.peaks.step_seconds(),
        services,
        total,
        warnings,
    })
}

/// The entrances with their changes, most runs first.
fn entrances(
    runs: &ObservedRuns,
    scales: &[Scale],
    expected: Option<&Expected>,
) -> Result<Vec<api::ScaledEntrance>, String> {
    let seconds = runs.window_seconds;
    let mut entrances: Vec<(Operation, f64)> = runs
        .chains
        .entrances()
        .into_iter()
        .map(|(name, entrance)| (name, convert::per_second(entrance.runs, seconds)))
        .collect();
    entrances.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let forecasts: Vec<Option<api::RateForecast>> =
        (entrances.iter()).map(|(name, rate)| expected?.of(name, *rate, seconds)).collect();
    let base = |place: usize, rate: f64| match &forecasts[place] {
        Some(forecast) => forecast.per_second,
        None => rate,
    };
    let named: Vec<(&str, &str, f64)> = (entrances.iter().enumerate())
        .map(|(place, (name, rate))| {
            (name.service.as_str(), name.operation.as_str(), base(place, *rate))
        })
        .collect();
    let factors = scale::factors(scales, &named)?;
    let bases: Vec<f64> = named.iter().map(|(_, _, base)| *base).collect();
    let all = entrances.into_iter().zip(factors).zip(bases).zip(forecasts);
    let scaled = all.map(|((((name, rate), factor), base), forecast)| {
        let Operation { service, operation } = name;
        let (now_per_second, predicted_per_second) = (rate, base * factor);
        // An entrance has runs, so its rate is not 0.
        let factor = if rate > 0.0 { predicted_per_second / rate } else { factor };
        api::ScaledEntrance {
            factor,
            forecast,
            now_per_second,
            operation,
            predicted_per_second,
            service,
        }
    });
    Ok(scaled.collect())
}

fn predicted(
    service: String,
    operation: Option<String>,
    load: &Load,
    peak: Option<Peak>,
    chains: &[Chain],
) -> api::PredictedLoad {
    let mut parts: Vec<(f64, &Chain)> =
        load.by_chain.iter().map(|(place, rate)| (*rate, &chains[*place])).collect();
    parts.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let part = |(rate, chain): (f64, &Chain)| api::LoadPart {
        id: convert::id(chain),
        operation: chain.operation.clone(),
        predicted_per_second: rate,
        service: chain.service.clone(),
    };
    let peak = peak.unwrap_or_default();
    // Runs that lasted less than one interval have a lower rate in it than they had.
    let peak_per_second = peak.per_second.max(load.now_per_second);
    api::PredictedLoad {
        busy_now: load.busy_now,
        busy_predicted: load.busy_predicted,
        chains: parts.into_iter().take(MAX_CHAINS).map(part).collect(),
        now_per_second: load.now_per_second,
        operation,
        peak_per_second,
        peak_unix_nano: Nano(peak.start_unix_nano),
        predicted_per_second: load.predicted_per_second,
        service,
        to_peak: if peak_per_second > 0.0 {
            load.predicted_per_second / peak_per_second
        } else {
            0.0
        },
    }
}
