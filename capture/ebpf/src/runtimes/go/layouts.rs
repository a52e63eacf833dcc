//! Offsets of fields in Go's runtime, in net/http and in gRPC, by version, in bytes. Versions that
//! are not listed have not been examined.

/// Fields of `runtime.g` and `runtime.m` (`runtime/runtime2.go`), and of
/// `net/http.persistConn` (`net/http/transport.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runtime {
    pub(super) goid: i32,
    pub(super) parent_goid: i32,
    pub(super) m: i32,
    pub(super) curg: i32,
    pub(super) persist_conn: i32,
}

/// By the first minor version of Go 1 with this layout.
const RUNTIMES: &[(u32, Runtime)] = &[
    (21, Runtime { goid: 152, parent_goid: 272, m: 48, curg: 192, persist_conn: 80 }),
    (23, Runtime { goid: 160, parent_goid: 280, m: 48, curg: 192, persist_conn: 80 }),
    (25, Runtime { goid: 152, parent_goid: 272, m: 48, curg: 184, persist_conn: 80 }),
    (26, Runtime { goid: 152, parent_goid: 280, m: 48, curg: 184, persist_conn: 80 }),
];

/// The first version that has not been examined.
const RUNTIMES_END: u32 = 27;

/// The layout of a version, given as `go1.MINOR` with any suffix.
pub(super) fn runtime(version: &str) -> Option<Runtime> {
    let (minor, _) = number(version.strip_prefix("go1.")?)?;
    if minor >= RUNTIMES_END {
        return None;
    }
    RUNTIMES.iter().rev().find(|(first, _)| *first <= minor).map(|(_, runtime)| *runtime)
}

/// Fields of gRPC's streams and transports (`internal/transport` of
/// `google.golang.org/grpc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grpc {
    /// The stream's number.
    pub(super) number: i32,
    /// The object begins with a pointer to the stream.
    pub(super) indirect: bool,
    /// In a client's stream: its transport.
    pub(super) client: i32,
    /// In the stream: its method.
    pub(super) method: i32,
    /// In the transports: the net.Conn.
    pub(super) client_conn: i32,
    pub(super) server_conn: i32,
}

/// The first version that has not been examined.
const GRPC_END: u32 = 86;

/// By the first version of gRPC 1 with this layout, minor and patch.
const GRPCS: &[((u32, u32), Grpc)] = &[
    (
        (53, 0),
        Grpc {
            number: 0,
            indirect: false,
            client: 24,
            method: 80,
            client_conn: 136,
            server_conn: 32,
        },
    ),
    (
        (58, 0),
        Grpc {
            number: 0,
            indirect: false,
            client: 24,
            method: 80,
            client_conn: 128,
            server_conn: 32,
        },
    ),
    (
        (60, 0),
        Grpc {
            number: 0,
            indirect: false,
            client: 24,
            method: 80,
            client_conn: 128,
            server_conn: 16,
        },
    ),
    (
        (66, 0),
        Grpc {
            number: 0,
            indirect: false,
            client: 32,
            method: 88,
            client_conn: 128,
            server_conn: 16,
        },
    ),
    (
        (69, 0),
        Grpc {
            number: 0,
            indirect: true,
            client: 8,
            method: 24,
            client_conn: 128,
            server_conn: 16,
        },
    ),
    (
        (77, 0),
        Grpc {
            number: 108,
            indirect: false,
            client: 328,
            method: 16,
            client_conn: 128,
            server_conn: 16,
        },
    ),
    (
        (83, 1),
        Grpc {
            number: 108,
            indirect: false,
            client: 360,
            method: 16,
            client_conn: 128,
            server_conn: 16,
        },
    ),
];

/// The layout of a version, given as `v1.MINOR.PATCH`. Versions of single commits
/// (`v1.MINOR.PATCH-0.DATE-HASH`) are not supported.
pub(super) fn grpc(version: &str) -> Option<Grpc> {
    let (minor, rest) = number(version.strip_prefix("v1.")?)?;
    let (patch, rest) = number(rest.strip_prefix('.')?)?;
    if minor >= GRPC_END || !rest.is_empty() {
        return None;
    }
    let found = GRPCS.iter().rev().find(|(first, _)| *first <= (minor, patch));
    found.map(|(_, grpc)| *grpc)
}

/// The number at the start of a text, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_or_not() {
        for version in ["go1.26", "go1.26.8", "go1.26rc1", "go1.26.1 X:nodwarf5", "go1.21"] {
            assert!(runtime(version).is_some(), "{version}");
        }
        for version in
            ["go1.2", "go1.20.14", "go1.27rc1", "go1.260", "go1", "devel go1.26-abc", "", "go2.26"]
        {
            assert_eq!(runtime(version), None, "{version}");
        }
        assert_eq!(grpc("v1.57.2").map(|grpc| grpc.client_conn), Some(136));
        assert_eq!(grpc("v1.85.0").map(|grpc| grpc.client), Some(360));
        assert_eq!(grpc("v1.83.0").map(|grpc| grpc.client), Some(328));
        for version in ["v1.52.3", "v1.86.0", "v1.70.1-0.20250101000000-abcdef", "v2.60.0", "x"] {
            assert_eq!(grpc(version), None, "{version}");
        }
    }
}
