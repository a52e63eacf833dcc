//! Tests of the whole project that no single stage can do:
//!
//! - `imports`: the table of allowed imports against the manifests
//! - `siblings`: within crates, at most one of two modules in a folder imports the other
//! - `e2e/`: the program with real services, run by `make e2e`

#[cfg(test)]
mod imports;
#[cfg(test)]
mod siblings;
