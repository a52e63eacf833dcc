//! Tests of the whole: what no single stage can test for itself.
//!
//! - `imports`: the table of allowed imports against the manifests
//! - `siblings`: within crates, of two modules of a folder at most one imports the other
//! - `e2e/`: the program against real services, run by `make e2e`

#[cfg(test)]
mod imports;
#[cfg(test)]
mod siblings;
