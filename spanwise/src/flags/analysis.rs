//! Flags of the commands that analyse chains.

use clap::Args;

use super::ServerUrl;

/// The range of time of an analysis, and the server.
#[derive(Debug, Args)]
pub(crate) struct AnalysisFlags {
    /// Runs that started after this: -15m, -2h, a date and time, or nanoseconds since 1970
    /// [default: -1h]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Runs that started before this, in the same format [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// How many lines are printed.
#[derive(Debug, Args)]
pub(crate) struct RowFlags {
    /// Maximum number of lines of a table
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
}

/// Flags of `chains`.
#[derive(Debug, Args)]
pub(crate) struct ChainsFlags {
    /// Print the table of the chain with this id, instead of the list
    #[arg(value_name = "ID", conflicts_with_all = ["service", "entrance", "limit"])]
    pub(crate) id: Option<String>,
    /// Only chains that call this service
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// Only chains that begin in this service
    #[arg(long, value_name = "NAME")]
    pub(crate) entrance: Option<String>,
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}

/// Flags of `depends`.
#[derive(Debug, Args)]
pub(crate) struct DependsFlags {
    /// Only what this service calls, or who calls it
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}

/// Flags of `entrances`.
#[derive(Debug, Args)]
pub(crate) struct EntrancesFlags {
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}

/// Flags of `sources`.
#[derive(Debug, Args)]
pub(crate) struct SourcesFlags {
    /// The service, or the protocol of what is called and not captured, such as `mysql`
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// Only this operation of it
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: Option<String>,
    /// The most calls between it and what is listed; 1 for direct callers and calls
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = clap::value_parser!(u8).range(1..=128))]
    pub(crate) depth: u8,
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}

/// Flags of `journey`.
#[derive(Debug, Args)]
pub(crate) struct JourneyFlags {
    /// The key, for example order=4711; of a key that is hashed, its hash (`spanwise key hash`)
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) key: String,
    /// Spans that started after this: -15m, -2h, a date and time, or nanoseconds since 1970
    /// [default: a week ago]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) start: Option<String>,
    /// Spans that started before this, in the same format [default: now]
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,
    /// A time without steps is a gap from this length on, for example 30s or 2h
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub(crate) gap: String,
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) server: ServerUrl,
}

/// Flags of `bottlenecks`.
#[derive(Debug, Args)]
pub(crate) struct BottlenecksFlags {
    /// Only runs that begin in this service
    #[arg(long, value_name = "NAME")]
    pub(crate) entrance: Option<String>,
    /// Maximum number of lines of each table
    #[arg(long, value_name = "NUMBER", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}

/// Flags of `capacity`.
#[derive(Debug, Args)]
pub(crate) struct CapacityFlags {
    /// An entrance with its factor or rate: checkout=3x, 'frontend POST /checkout=200/s', or '*=2x'
    /// for all others; repeat it for several
    #[arg(long, value_name = "ENTRANCE=FACTORx")]
    pub(crate) scale: Vec<String>,
    /// How far ahead, such as 24h: entrances get what is expected then, from the same hour of
    /// former weeks or days, or from the trend
    #[arg(long, value_name = "TIME")]
    pub(crate) forecast: Option<String>,
    #[command(flatten)]
    pub(crate) rows: RowFlags,
    #[command(flatten)]
    pub(crate) analysis: AnalysisFlags,
}
