//! The services' runtimes, which determine the names of resources and scopes.

/// A language with its usual instrumentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Go,
    Java,
    Node,
    Python,
}

/// The instrumentation library that made a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Server,
    Client,
    Store,
    App,
}

impl Scope {
    pub(crate) const ALL: [Self; 4] = [Self::Server, Self::Client, Self::Store, Self::App];
}

impl Runtime {
    /// `telemetry.sdk.language`.
    pub(crate) const fn language(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "nodejs",
            Self::Python => "python",
        }
    }

    /// `telemetry.sdk.version`.
    pub(crate) const fn sdk_version(self) -> &'static str {
        match self {
            Self::Go => "1.36.0",
            Self::Java => "1.50.0",
            Self::Node => "2.0.1",
            Self::Python => "1.34.1",
        }
    }

    /// `process.runtime.name` and `process.runtime.version`.
    pub(crate) const fn process(self) -> (&'static str, &'static str) {
        match self {
            Self::Go => ("go", "go1.24.4"),
            Self::Java => ("OpenJDK Runtime Environment", "21.0.7+6-LTS"),
            Self::Node => ("nodejs", "22.16.0"),
            Self::Python => ("cpython", "3.12.11"),
        }
    }

    /// `user_agent.original` of HTTP calls.
    pub(crate) const fn user_agent(self) -> &'static str {
        match self {
            Self::Go => "Go-http-client/1.1",
            Self::Java => "Apache-HttpClient/5.4.4 (Java/21.0.7)",
            Self::Node => "undici/7.10.0 (Node.js/22.16.0; linux; x64)",
            Self::Python => "python-httpx/0.28.1",
        }
    }

    /// Name and version of the instrumentation scope.
    pub(crate) const fn scope(self, scope: Scope) -> (&'static str, &'static str) {
        match (self, scope) {
            (Self::Go, Scope::Server | Scope::Client) => (
                "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
                "0.61.0",
            ),
            (Self::Go, Scope::Store) => ("github.com/XSAM/otelsql", "0.39.0"),
            (Self::Java, Scope::Server) => ("io.opentelemetry.tomcat-10.0", "2.16.0-alpha"),
            (Self::Java, Scope::Client) => ("io.opentelemetry.java-http-client", "2.16.0-alpha"),
            (Self::Java, Scope::Store) => ("io.opentelemetry.jdbc", "2.16.0-alpha"),
            (Self::Node, Scope::Server) => ("@opentelemetry/instrumentation-http", "0.202.0"),
            (Self::Node, Scope::Client) => ("@opentelemetry/instrumentation-undici", "0.13.0"),
            (Self::Node, Scope::Store) => ("@opentelemetry/instrumentation-ioredis", "0.50.0"),
            (Self::Python, Scope::Server) => ("opentelemetry.instrumentation.fastapi", "0.55b1"),
            (Self::Python, Scope::Client) => ("opentelemetry.instrumentation.httpx", "0.55b1"),
            (Self::Python, Scope::Store) => ("opentelemetry.instrumentation.psycopg", "0.55b1"),
            (_, Scope::App) => ("shop.example/tracing", "3.2.0"),
        }
    }

    /// Functions of the service's own code.
    pub(crate) const fn functions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Go => &[
                (
                    "shop.example/internal/handler.(*Service).validate",
                    "/src/shop/internal/handler/service.go",
                ),
                (
                    "shop.example/internal/rules.(*Engine).Evaluate",
                    "/src/shop/internal/rules/engine.go",
                ),
                ("shop.example/internal/encode.Response", "/src/shop/internal/encode/response.go"),
            ],
            Self::Java => &[
                (
                    "com.shop.service.RequestValidator.validate",
                    "com/shop/service/RequestValidator.java",
                ),
                ("com.shop.service.PriceCalculator.total", "com/shop/service/PriceCalculator.java"),
                ("com.shop.mapper.ResponseMapper.toDto", "com/shop/mapper/ResponseMapper.java"),
                ("com.shop.cache.LocalCache.load", "com/shop/cache/LocalCache.java"),
            ],
            Self::Node => &[
                ("renderPage", "/app/dist/render/page.js"),
                ("validateBody", "/app/dist/middleware/validate.js"),
                ("mergeResults", "/app/dist/lib/merge.js"),
            ],
            Self::Python => &[
                ("score_candidates", "/srv/app/scoring.py"),
                ("load_features", "/srv/app/features.py"),
                ("serialize", "/srv/app/serializers.py"),
            ],
        }
    }
}
