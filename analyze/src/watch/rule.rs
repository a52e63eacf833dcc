//! The rules, as they are written.

/// The forms of a rule, for messages.
pub const RULE_FORMS: &str = "`latency SERVICE > 250ms` (95th percentile), `errors SERVICE > 5%`, `new-edge`, \
     `vanished-edge`, `new-error SERVICE`, `weak SERVICE` (nothing may strongly depend on it), `rate \
     SERVICE < 50%` or `rate SERVICE > 200%` (of its forecast); `*` stands for every service";

/// What must not happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// The 95th percentile of requests to a service.
    Latency {
        /// `None` for every service.
        service: Option<String>,
        /// The most.
        most_nano: i64,
    },
    /// The share of requests to a service that fail.
    Errors {
        /// `None` for every service.
        service: Option<String>,
        /// The most.
        most: f64,
    },
    /// A call between two services that there was none of before.
    NewEdge,
    /// Calls between two services that there are none of any more.
    VanishedEdge,
    /// A kind of error that a service did not have before.
    NewError {
        /// `None` for every service.
        service: Option<String>,
    },
    /// A strong dependency on a service that is meant to be a weak one.
    Weak {
        /// The service.
        service: String,
    },
    /// The rate of an entrance against its forecast.
    Rate {
        /// `None` for every entrance.
        service: Option<String>,
        /// Whether the rate must not be above, or not below.
        is_above: bool,
        /// The share of the forecast.
        share: f64,
    },
}

impl Rule {
    /// Reads a rule, with what reads durations. `None` if it has none of the [forms](RULE_FORMS).
    pub fn read(text: &str, duration_nano: fn(&str) -> Option<i64>) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let service = |name: &str| (name != "*").then(|| name.to_owned());
        match words[..] {
            ["new-edge"] => Some(Self::NewEdge),
            ["vanished-edge"] => Some(Self::VanishedEdge),
            ["new-error", name] => Some(Self::NewError { service: service(name) }),
            ["weak", name] if name != "*" => Some(Self::Weak { service: name.to_owned() }),
            ["latency", name, ">", most] => {
                let most_nano = duration_nano(most).filter(|nano| *nano > 0)?;
                Some(Self::Latency { service: service(name), most_nano })
            }
            ["errors", name, ">", most] => {
                let most = share(most).filter(|share| *share < 1.0)?;
                Some(Self::Errors { service: service(name), most })
            }
            ["rate", name, than @ ("<" | ">"), most] => {
                let (is_above, share) = (than == ">", share(most)?);
                // Less than nothing, and less than forecast where more is meant.
                let is_useful = if is_above { share >= 1.0 } else { share > 0.0 && share <= 1.0 };
                is_useful.then(|| Self::Rate { service: service(name), is_above, share })
            }
            _ => None,
        }
    }

    /// Whether it needs the time before.
    pub const fn compares(&self) -> bool {
        matches!(self, Self::NewEdge | Self::VanishedEdge | Self::NewError { .. })
    }
}

/// A share that is written as a percentage.
fn share(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100_000.0).contains(&percent).then_some(percent / 100.0)
}
