//! `spanwise capacity`

use spanwise_api::{Capacity, ForecastMethod, PredictedLoad, RateForecast};

use super::{foot, listed, rate};
use crate::terminal::{Align, Paint, Table, brief};

/// Chains that are named in a row.
const MAX_CHAINS: usize = 2;

pub(super) fn render(answer: &Capacity, paint: Paint) -> String {
    let mut text = String::new();
    if answer.entrances.is_empty() {
        text.push_str("no run was seen in this time; --start -24h looks further back\n");
    } else {
        text.push_str(&entrances(answer).render(paint));
        text.push_str(&format!("\n{}", loads("SERVICE", &answer.services).render(paint)));
        text.push_str(&format!("\n{}", loads("OPERATION", &answer.operations).render(paint)));
        let note = format!(
            "BUSY is how many calls work at a time, in the mean. Peaks are of {:.0} s. The \
             prediction is linear: caches, batches and retries under overload break it.\n",
            answer.peak_seconds
        );
        text.push_str(&paint.dim(&note));
    }
    let listed = listed(answer.operations.len(), answer.total, "operation", "operations");
    text.push_str(&foot(&listed, &answer.observed, &answer.warnings, paint));
    text
}

fn entrances(answer: &Capacity) -> Table {
    let mut table = Table::new([
        ("ENTRANCE", Align::Left),
        ("NOW", Align::Right),
        ("FACTOR", Align::Right),
        ("THEN", Align::Right),
        ("FORECAST", Align::Left),
    ]);
    for entrance in &answer.entrances {
        table.row(vec![
            brief(&format!("{} {}", entrance.service, entrance.operation), 60),
            rate(entrance.now_per_second),
            format!("{:.2}x", entrance.factor),
            rate(entrance.predicted_per_second),
            entrance.forecast.as_ref().map_or(String::new(), forecast),
        ]);
    }
    table
}

/// What a forecast is made from, and how sure it is.
fn forecast(forecast: &RateForecast) -> String {
    let RateForecast { confidence, high_per_second, hours, low_per_second, .. } = forecast;
    let made_from = match forecast.method {
        ForecastMethod::FormerWeeks => format!("same hour of {hours} weeks"),
        ForecastMethod::FormerDays => format!("same hour of {hours} days"),
        ForecastMethod::Trend => format!("trend of {hours} hours"),
        ForecastMethod::AsNow => "as in the last hour: a guess".to_owned(),
    };
    let (low, high) = (rate(*low_per_second), rate(*high_per_second));
    format!("{made_from}, {low} to {high}, {:.0} % sure", confidence * 100.0)
}

fn loads(head: &str, loads: &[PredictedLoad]) -> Table {
    let mut table = Table::new([
        (head, Align::Left),
        ("NOW", Align::Right),
        ("THEN", Align::Right),
        ("PEAK SEEN", Align::Right),
        ("OF PEAK", Align::Right),
        ("BUSY NOW", Align::Right),
        ("BUSY THEN", Align::Right),
        ("MOST FROM", Align::Left),
    ]);
    for load in loads {
        let name = match &load.operation {
            Some(operation) => format!("{} {operation}", load.service),
            None => load.service.clone(),
        };
        let part = |part: &spanwise_api::LoadPart| {
            format!("{} {}", brief(&part.operation, 30), rate(part.predicted_per_second))
        };
        let parts: Vec<String> = load.chains.iter().take(MAX_CHAINS).map(part).collect();
        table.row(vec![
            brief(&name, 60),
            rate(load.now_per_second),
            rate(load.predicted_per_second),
            rate(load.peak_per_second),
            format!("{:.0} %", load.to_peak * 100.0),
            format!("{:.2}", load.busy_now),
            format!("{:.2}", load.busy_predicted),
            parts.join(", "),
        ]);
    }
    table
}
