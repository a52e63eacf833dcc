//! Pipelines. An element of a pipeline may be sets of spans, a number, a function or series, and
//! brackets may contain any of them. So its kind is only known after it was parsed: see [`Node`].

use super::field::{arithmetic, comparison};
use super::{MAX_STAGES, Parser};
use crate::ast::{
    Aggregate, Arithmetic, Body, Comparison, Expr, Function, Join, Literal, Measure, Metrics,
    Pipeline, Relation, Scalar, ScalarFilter, SecondStage, Spansets, Stage, Taken,
};
use crate::error::Error;
use crate::lexer::Token;
use crate::types::{self, Type};

/// A parsed element of a pipeline.
pub(super) enum Node {
    Spansets(Spansets),
    Stages(Vec<Stage>),
    Number(Literal),
    Scalar(Scalar),
    /// A metrics function, its grouping fields, and the stages that follow.
    Function(Function, Vec<crate::ast::Field>, Vec<SecondStage>),
    /// `topk(5) > 10`
    Second(Vec<SecondStage>),
    Metrics(Metrics),
}

impl Node {
    fn text(&self) -> &'static str {
        match self {
            Node::Spansets(_) => "spans",
            Node::Stages(_) => "a pipeline",
            Node::Number(_) => "a number",
            Node::Scalar(_) => "a number of each set of spans",
            Node::Function(..) | Node::Metrics(_) => "series",
            Node::Second(_) => "a function of series",
        }
    }
}

/// A node, the height of its tree, and its start.
pub(super) struct Part {
    pub(super) node: Node,
    pub(super) height: usize,
    pub(super) at: usize,
}

/// An operator of pipelines.
#[derive(Clone, Copy)]
enum Operator {
    Logic(Join),
    /// `>` and `<` either compare numbers or relate spans.
    Order {
        comparison: Option<Comparison>,
        join: Option<Join>,
    },
    Arithmetic(Arithmetic),
}

fn structure(symbol: &str) -> Option<Join> {
    let (taken, relation) = match symbol {
        "~" => (Taken::Related, "~"),
        _ => match (symbol.strip_prefix('!'), symbol.strip_prefix('&')) {
            (Some(relation), _) => (Taken::Unrelated, relation),
            (_, Some(relation)) => (Taken::Both, relation),
            _ => (Taken::Related, symbol),
        },
    };
    let relation = match relation {
        ">" => Relation::Child,
        "<" => Relation::Parent,
        ">>" => Relation::Descendant,
        "<<" => Relation::Ancestor,
        "~" => Relation::Sibling,
        _ => return None,
    };
    Some(Join::Structure { relation, taken })
}

fn operator(token: &Token) -> Option<(Operator, u8)> {
    let Token::Symbol(symbol) = token else { return None };
    match *symbol {
        "&&" => return Some((Operator::Logic(Join::And), 1)),
        "||" => return Some((Operator::Logic(Join::Or), 1)),
        _ => {}
    }
    if let Some((operator, precedence)) = arithmetic(symbol) {
        return Some((Operator::Arithmetic(operator), precedence));
    }
    match (comparison(symbol), structure(symbol)) {
        (None, None) => None,
        (comparison, join) => Some((Operator::Order { comparison, join }, 2)),
    }
}

fn aggregate(word: &str) -> Option<Aggregate> {
    Some(match word {
        "avg" => Aggregate::Average,
        "max" => Aggregate::Maximum,
        "min" => Aggregate::Minimum,
        "sum" => Aggregate::Sum,
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn body(&mut self) -> Result<Body, Error> {
        let part = self.pipeline()?;
        match part.node {
            Node::Metrics(metrics) => Ok(Body::Metrics(metrics)),
            node => self.stages(node, part.at).map(|stages| Body::Search(Pipeline { stages })),
        }
    }

    /// Converts the node to stages of a pipeline.
    fn stages(&self, node: Node, at: usize) -> Result<Vec<Stage>, Error> {
        match node {
            Node::Spansets(spansets) => Ok(vec![Stage::Spansets(spansets)]),
            Node::Stages(stages) => Ok(stages),
            Node::Scalar(scalar) => Err(self
                .error(at, format!("expected a comparison with a number, such as `{scalar} > 0`"))),
            Node::Function(..) => {
                Err(self.error(at, "expected spans before it, such as `{} | rate()`"))
            }
            Node::Second(_) => {
                Err(self.error(at, "expected series before it, such as `{} | rate() | topk(10)`"))
            }
            Node::Number(_) => {
                Err(self.error(at, "expected spans, such as `{ … }`, found a number"))
            }
            Node::Metrics(_) => {
                Err(self.error(at, "expected spans, such as `{ … }`, found series"))
            }
        }
    }

    /// Stages joined by `|`.
    fn pipeline(&mut self) -> Result<Part, Error> {
        let mut left = self.part(0)?;
        if matches!(&left.node, Node::Stages(stages) if stages.first() == Some(&Stage::Coalesce)) {
            return Err(self.error(left.at, "`coalesce()` cannot be the first stage"));
        }
        while self.is("|") {
            self.advance()?;
            let right = self.part(0)?;
            left = self.piped(left, right)?;
        }
        Ok(left)
    }

    fn piped(&self, left: Part, right: Part) -> Result<Part, Error> {
        let at = left.at;
        let height = left.height.max(right.height);
        let node = match (left.node, right.node) {
            (Node::Metrics(metrics), Node::Second(stages)) => {
                Node::Metrics(self.then(metrics, stages, right.at)?)
            }
            (Node::Metrics(_), _) => {
                return Err(self.error(
                    right.at,
                    "expected `topk(n)` or `bottomk(n)`, as series stand before it",
                ));
            }
            (node, Node::Function(function, by, then)) => {
                let spans = Pipeline { stages: self.stages(node, at)? };
                let metrics = Metrics::Measure(Measure { spans, function, by });
                Node::Metrics(if then.is_empty() {
                    metrics
                } else {
                    self.then(metrics, then, right.at)?
                })
            }
            (node, more) => {
                let mut stages = self.stages(node, at)?;
                stages.extend(self.stages(more, right.at)?);
                if stages.len() > MAX_STAGES {
                    return Err(self
                        .error(right.at, format!("a pipeline of more than {MAX_STAGES} stages")));
                }
                Node::Stages(stages)
            }
        };
        Ok(Part { node, height, at })
    }

    fn part(&mut self, minimum: u8) -> Result<Part, Error> {
        let mut left = self.first()?;
        while let Some((operator, precedence)) = operator(&self.token) {
            if precedence < minimum {
                break;
            }
            let at = self.at;
            self.advance()?;
            let power = matches!(operator, Operator::Arithmetic(Arithmetic::Power));
            let least = if power { precedence } else { precedence + 1 };
            let right = self.nested(|parser| parser.part(least))?;
            let height = left.height.max(right.height) + 1;
            self.check_depth(height, at)?;
            let start = left.at;
            let node = self.joined(operator, left.node, right.node, at)?;
            left = Part { node, height, at: start };
        }
        Ok(left)
    }

    fn first(&mut self) -> Result<Part, Error> {
        let at = self.at;
        if self.is("{") {
            let (condition, height) = self.braces()?;
            return Ok(Part { node: Node::Spansets(Spansets::Where(condition)), height, at });
        }
        if self.take("(")? {
            return self.brackets(at);
        }
        if self.take("-")? {
            let operand = self.nested(Self::first)?;
            return match operand.node {
                Node::Number(number) => {
                    let node = Node::Number(self.negative(&number, at)?);
                    Ok(Part { node, height: 1, at })
                }
                other => Err(self.error(at, format!("expected a number, found {}", other.text()))),
            };
        }
        let number = match self.token {
            Token::Int(number) => Some(Literal::Int(number)),
            Token::Float(number) => Some(Literal::Float(number)),
            Token::Duration(nanoseconds) => Some(Literal::Duration(nanoseconds)),
            Token::Word(ref word) if word == "minInt" => Some(Literal::Int(i64::MIN)),
            Token::Word(ref word) if word == "maxInt" => Some(Literal::Int(i64::MAX)),
            _ => None,
        };
        if let Some(number) = number {
            self.advance()?;
            return Ok(Part { node: Node::Number(number), height: 1, at });
        }
        let Token::Word(word) = self.token.clone() else {
            return Err(self.expected("spans, such as `{ … }`, or a function, such as `count()`"));
        };
        let (node, height) = self.called(&word)?;
        Ok(Part { node, height, at })
    }

    /// `{ condition }`
    pub(super) fn braces(&mut self) -> Result<(Expr, usize), Error> {
        self.expect("{")?;
        if self.take("}")? {
            return Ok((Expr::Literal(Literal::Bool(true)), 1));
        }
        let condition = self.condition()?;
        if !self.is("}") {
            return Err(self.expected("an operator or `}`"));
        }
        self.advance()?;
        Ok(condition)
    }

    /// Parses the content of brackets, after the opening one.
    fn brackets(&mut self, at: usize) -> Result<Part, Error> {
        let inner = self.nested(Self::pipeline)?;
        if !self.is(")") {
            return Err(self.expected("an operator, `|` or `)`"));
        }
        self.advance()?;
        let height = inner.height + 1;
        self.check_depth(height, at)?;
        let node = match inner.node {
            Node::Stages(stages) => Node::Spansets(Spansets::Pipeline(Pipeline { stages })),
            node @ (Node::Function(..) | Node::Second(_)) => {
                return Err(self
                    .stages(node, inner.at)
                    .err()
                    .unwrap_or_else(|| self.error(inner.at, "expected spans, such as `{ … }`")));
            }
            node => node,
        };
        Ok(Part { node, height, at })
    }

    /// Parses the arguments of a function.
    fn called(&mut self, word: &str) -> Result<(Node, usize), Error> {
        if let Some(function) = aggregate(word) {
            self.advance()?;
            self.expect("(")?;
            let (of, height, at) = self.expr()?;
            let found = types::of_expr(&of);
            if !found.may_be(Type::Number) {
                return Err(self.error(at, format!("expected a number, found {}", found.text())));
            }
            self.check_field(&of, at)?;
            self.expect(")")?;
            return Ok((
                Node::Scalar(Scalar::Aggregate { function, of: Box::new(of) }),
                height + 1,
            ));
        }
        match word {
            "count" => {
                self.advance()?;
                self.expect("(")?;
                self.expect(")")?;
                Ok((Node::Scalar(Scalar::Count), 1))
            }
            "by" => {
                self.advance()?;
                self.expect("(")?;
                let (expr, height, at) = self.expr()?;
                self.check_field(&expr, at)?;
                self.expect(")")?;
                Ok((Node::Stages(vec![Stage::Group(expr)]), height + 1))
            }
            "coalesce" => {
                self.advance()?;
                self.expect("(")?;
                self.expect(")")?;
                Ok((Node::Stages(vec![Stage::Coalesce]), 1))
            }
            "select" => {
                self.advance()?;
                self.expect("(")?;
                Ok((Node::Stages(vec![Stage::Select(self.fields()?)]), 1))
            }
            word => self.metrics_function(word),
        }
    }

    /// Refuses constants, which have the same value for all spans, as grouping keys and measured
    /// values.
    fn check_field(&self, expr: &Expr, at: usize) -> Result<(), Error> {
        if types::has_field(expr) {
            return Ok(());
        }
        Err(self
            .error(at, "expected something of the span, such as an attribute; found a constant"))
    }

    fn joined(
        &self,
        operator: Operator,
        left: Node,
        right: Node,
        at: usize,
    ) -> Result<Node, Error> {
        let refused = |left: &Node, right: &Node, verb: &str| {
            self.error(
                at,
                format!("{} and {} cannot be {verb} by this operator", left.text(), right.text()),
            )
        };
        match operator {
            Operator::Logic(join) => match (left, right) {
                (Node::Spansets(left), Node::Spansets(right)) => {
                    self.join_spansets(join, left, right, at)
                }
                (left, right) => Err(refused(&left, &right, "joined")),
            },
            Operator::Order { comparison, join } => match (left, right, comparison, join) {
                (Node::Spansets(left), Node::Spansets(right), _, Some(join)) => {
                    self.join_spansets(join, left, right, at)
                }
                (Node::Metrics(metrics), Node::Number(number), Some(comparison), _) => {
                    let stages = vec![SecondStage::Compare(comparison, number)];
                    self.then(metrics, stages, at).map(Node::Metrics)
                }
                (Node::Function(function, by, mut then), Node::Number(number), Some(op), _) => {
                    then.push(SecondStage::Compare(op, number));
                    Ok(Node::Function(function, by, then))
                }
                (Node::Second(mut stages), Node::Number(number), Some(comparison), _) => {
                    stages.push(SecondStage::Compare(comparison, number));
                    Ok(Node::Second(stages))
                }
                (left, right, Some(operator), _) => match (scalar(left), scalar(right)) {
                    (Ok(Scalar::Number(_)), Ok(Scalar::Number(_))) => Err(self.error(
                        at,
                        "expected something of the spans on one side, such as `count()`; both are constants",
                    )),
                    (Ok(left), Ok(right)) => {
                        Ok(Node::Stages(vec![Stage::Filter(ScalarFilter { operator, left, right })]))
                    }
                    (Err(left), Err(right)) => Err(refused(&left, &right, "compared")),
                    (Err(left), Ok(right)) => {
                        Err(refused(&left, &Node::Scalar(right), "compared"))
                    }
                    (Ok(left), Err(right)) => Err(refused(&Node::Scalar(left), &right, "compared")),
                },
                (left, right, None, _) => Err(refused(&left, &right, "joined")),
            },
            Operator::Arithmetic(operator) => match (left, right) {
                (Node::Number(left), Node::Number(right)) => types::fold(operator, &left, &right)
                    .map(Node::Number)
                    .map_err(|told| self.error(at, told)),
                (left @ Node::Metrics(_), right) | (left, right @ Node::Metrics(_)) => {
                    self.computed(operator, left, right, at)
                }
                (left, right) => match (scalar(left), scalar(right)) {
                    (Ok(left), Ok(right)) => {
                        let (left, right) = (Box::new(left), Box::new(right));
                        Ok(Node::Scalar(Scalar::Arithmetic { operator, left, right }))
                    }
                    (Err(node), _) | (_, Err(node)) => Err(self.error(
                        at,
                        match *node {
                            Node::Function(..) => {
                                "put brackets around series to compute with them: `({} | rate()) / ({} | rate())`".to_owned()
                            }
                            node => format!("expected numbers on both sides, found {}", node.text()),
                        },
                    )),
                },
            },
        }
    }

    fn join_spansets(
        &self,
        operator: Join,
        left: Spansets,
        right: Spansets,
        at: usize,
    ) -> Result<Node, Error> {
        let splits =
            |side: &Spansets| matches!(side, Spansets::Pipeline(pipeline) if pipeline.may_split());
        if matches!(operator, Join::Structure { .. }) && (splits(&left) || splits(&right)) {
            return Err(self.error(
                at,
                "expected one set of spans on each side; end what is grouped with `coalesce()`",
            ));
        }
        let (left, right) = (Box::new(left), Box::new(right));
        Ok(Node::Spansets(Spansets::Join { operator, left, right }))
    }
}

/// Converts the node to a number of a set of spans, or returns it.
fn scalar(node: Node) -> Result<Scalar, Box<Node>> {
    match node {
        Node::Number(number) => Ok(Scalar::Number(number)),
        Node::Scalar(scalar) => Ok(scalar),
        node => Err(Box::new(node)),
    }
}
