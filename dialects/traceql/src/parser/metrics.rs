//! Metrics functions and operations on series ([TraceQL metrics
//! functions](https://grafana.com/docs/tempo/latest/metrics-from-traces/metrics-queries/functions/)).

use super::pipeline::Node;
use super::{MAX_MEASURES, Parser};
use crate::ast::{Arithmetic, Field, Function, Literal, Metrics, SecondStage};
use crate::error::Error;
use crate::lexer::Token;
use crate::types::{self, Type};

const FUNCTIONS: &str = "a function: count, avg, max, min, sum, by, coalesce, select, rate, \
    count_over_time, min_over_time, max_over_time, avg_over_time, sum_over_time, \
    quantile_over_time, histogram_over_time, compare, topk, bottomk";

/// Values of each attribute that `compare()` tells, unless it is said, and at most.
const COMPARED_VALUES: usize = 10;
const MAX_COMPARED_VALUES: i64 = 1000;

impl Parser<'_> {
    pub(super) fn metrics_function(&mut self, word: &str) -> Result<(Node, usize), Error> {
        if let "topk" | "bottomk" = word {
            self.advance()?;
            self.expect("(")?;
            let count = self.whole(1, i64::MAX, "a number of series of at least 1")? as usize;
            self.expect(")")?;
            let stage =
                if word == "topk" { SecondStage::Top(count) } else { SecondStage::Bottom(count) };
            return Ok((Node::Second(vec![stage]), 1));
        }
        let of: Option<fn(Field) -> Function> = match word {
            "rate" | "count_over_time" | "quantile_over_time" | "compare" => None,
            "min_over_time" => Some(Function::Minimum),
            "max_over_time" => Some(Function::Maximum),
            "avg_over_time" => Some(Function::Average),
            "sum_over_time" => Some(Function::Sum),
            "histogram_over_time" => Some(Function::Histogram),
            _ => return Err(self.expected(FUNCTIONS)),
        };
        self.measures += 1;
        if self.measures > MAX_MEASURES {
            let told = format!("more than {MAX_MEASURES} functions of metrics in one query");
            return Err(self.error(self.at, told));
        }
        self.advance()?;
        self.expect("(")?;
        let mut height = 1;
        let function = match (of, word) {
            (Some(of), _) => of(self.number_field()?),
            (None, "rate") => Function::Rate,
            (None, "count_over_time") => Function::Count,
            (None, "quantile_over_time") => {
                let field = self.number_field()?;
                let mut quantiles = Vec::new();
                self.expect(",")?;
                loop {
                    quantiles.push(self.quantile()?);
                    if !self.take(",")? {
                        break;
                    }
                }
                Function::Quantile { field, quantiles }
            }
            (None, _) => {
                let (function, selection_height) = self.compare()?;
                height = selection_height;
                function
            }
        };
        self.expect(")")?;
        let mut by = Vec::new();
        if !matches!(function, Function::Compare { .. }) && self.take_word("by")? {
            self.expect("(")?;
            by = self.fields()?;
        }
        Ok((Node::Function(function, by, Vec::new()), height))
    }

    fn number_field(&mut self) -> Result<Field, Error> {
        let at = self.at;
        let Some(field) = self.field()? else {
            return Err(
                self.expected("an attribute such as `span.http.response.size`, or `duration`")
            );
        };
        let found = types::of_field(&field);
        if !found.may_be(Type::Number) {
            return Err(self.error(at, format!("expected a number, found {}", found.text())));
        }
        Ok(field)
    }

    fn quantile(&mut self) -> Result<f64, Error> {
        let quantile = match self.token {
            Token::Int(number) => number as f64,
            Token::Float(number) => number,
            _ => f64::NAN,
        };
        if !(0.0..=1.0).contains(&quantile) {
            return Err(self.expected("a quantile from 0 to 1"));
        }
        self.advance()?;
        Ok(quantile)
    }

    fn whole(&mut self, minimum: i64, maximum: i64, what: &str) -> Result<i64, Error> {
        match self.token {
            Token::Int(number) if (minimum..=maximum).contains(&number) => {
                self.advance()?;
                Ok(number)
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Parses the arguments of `compare()`.
    fn compare(&mut self) -> Result<(Function, usize), Error> {
        let (selection, height) = self.braces()?;
        let mut top = COMPARED_VALUES;
        let mut window = None;
        if self.take(",")? {
            top = self.whole(1, MAX_COMPARED_VALUES, "a number of values from 1 to 1000")? as usize;
            if self.take(",")? {
                let start = self.whole(0, i64::MAX, "a start in nanoseconds of Unix time")?;
                self.expect(",")?;
                let at = self.at;
                let end = self.whole(0, i64::MAX, "an end in nanoseconds of Unix time")?;
                if (start, end) != (0, 0) {
                    if start == 0 || end <= start {
                        return Err(self.error(at, "expected an end after a start, both positive"));
                    }
                    window = Some((start, end));
                }
            }
        }
        Ok((Function::Compare { selection, top, window }, height + 1))
    }

    /// Applies stages to series.
    pub(super) fn then(
        &self,
        metrics: Metrics,
        stages: Vec<SecondStage>,
        at: usize,
    ) -> Result<Metrics, Error> {
        self.check_not_compare(&metrics, at)?;
        Ok(match metrics {
            Metrics::Then { metrics, stages: mut before } => {
                before.extend(stages);
                Metrics::Then { metrics, stages: before }
            }
            metrics => Metrics::Then { metrics: Box::new(metrics), stages },
        })
    }

    /// Combines series by arithmetic.
    pub(super) fn computed(
        &self,
        operator: Arithmetic,
        left: Node,
        right: Node,
        at: usize,
    ) -> Result<Node, Error> {
        if let Arithmetic::Remainder | Arithmetic::Power = operator {
            return Err(self.error(at, "series can only be computed with by `+`, `-`, `*` and `/`"));
        }
        let side = |node| match node {
            Node::Metrics(metrics) => {
                self.check_not_compare(&metrics, at)?;
                Ok(Box::new(metrics))
            }
            Node::Number(Literal::Int(number)) => Ok(Box::new(Metrics::Number(number as f64))),
            Node::Number(Literal::Float(number)) => Ok(Box::new(Metrics::Number(number))),
            Node::Number(_) => {
                Err(self.error(at, "series cannot be computed with durations; write seconds"))
            }
            _ => Err(self.error(
                at,
                "expected series in brackets, such as `({} | rate())`, or a number on both sides",
            )),
        };
        Ok(Node::Metrics(Metrics::Arithmetic { operator, left: side(left)?, right: side(right)? }))
    }

    fn check_not_compare(&self, metrics: &Metrics, at: usize) -> Result<(), Error> {
        match metrics {
            Metrics::Measure(measure) if matches!(measure.function, Function::Compare { .. }) => {
                Err(self.error(at, "the series of `compare()` cannot be filtered or computed with"))
            }
            _ => Ok(()),
        }
    }
}
