//! The table of protocols that agents parse, and of databases and messaging systems that only SDKs
//! name.
//!
//! Agents, the service graph, the documents' list and the matrix use these names. A new protocol is
//! a row here.

/// The kind of a called service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    /// A program that serves requests.
    Service,
    /// Stores data.
    Database,
    /// Stores data temporarily.
    Cache,
    /// Stores messages for consumers.
    Broker,
    /// An unknown external peer.
    External,
}

impl ServiceKind {
    /// Its name in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Database => "database",
            Self::Cache => "cache",
            Self::Broker => "broker",
            Self::External => "external",
        }
    }
}

/// A protocol that agents parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Its name in the `protocol` column.
    pub name: &'static str,
    /// Its display name.
    pub title: &'static str,
    /// Its usual port.
    pub default_port: Option<u16>,
    /// The system that serves it. `None` if the protocol does not determine that, as with HTTP.
    pub system: Option<System>,
}

const fn protocol(
    name: &'static str,
    title: &'static str,
    default_port: Option<u16>,
    system: Option<System>,
) -> Protocol {
    Protocol { name, title, default_port, system }
}

/// All protocols that agents parse, in the order of the documents' list.
pub const PROTOCOLS: &[Protocol] = &[
    protocol(protocol::HTTP, "HTTP/1.0, 1.1", Some(80), None),
    protocol(protocol::GRPC, "HTTP/2, gRPC", None, None),
    protocol(protocol::WEBSOCKET, "WebSocket", Some(80), None),
    protocol(protocol::DNS, "DNS", Some(53), None),
    protocol(protocol::MYSQL, "MySQL", Some(3306), Some(database("mysql", &[]))),
    protocol(
        protocol::POSTGRESQL,
        "PostgreSQL",
        Some(5432),
        Some(database("postgresql", &["postgres", "pg"])),
    ),
    protocol(
        protocol::REDIS,
        "Redis",
        Some(6379),
        Some(cache("redis", &["valkey", "keydb", "dragonfly"])),
    ),
    protocol(protocol::MONGODB, "MongoDB", Some(27017), Some(database("mongodb", &["mongo"]))),
    protocol(
        protocol::MEMCACHED,
        "Memcached",
        Some(11211),
        Some(cache("memcached", &["memcache"])),
    ),
    protocol(protocol::KAFKA, "Kafka", Some(9092), Some(broker("kafka", &["redpanda"]))),
    // AMQP 0-9-1 is RabbitMQ's.
    protocol(protocol::AMQP, "AMQP 0-9-1", Some(5672), Some(broker("rabbitmq", &["amqp"]))),
    protocol(protocol::MQTT, "MQTT 3.1.1, 5", Some(1883), Some(broker("mqtt", &["mosquitto"]))),
    protocol(protocol::NATS, "NATS", Some(4222), Some(broker("nats", &[]))),
    protocol(protocol::ZMTP, "ZMTP 3 (ZeroMQ)", None, None),
    protocol(protocol::DUBBO, "Dubbo 2", Some(20880), None),
    protocol(protocol::FASTCGI, "FastCGI", Some(9000), None),
    protocol(protocol::TLS, "anything else in TLS", None, None),
    protocol(protocol::TCP, "anything else", None, None),
];

/// A database, cache or broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// OpenTelemetry's name: of `db.system.name` or `messaging.system`.
    pub name: &'static str,
    /// Its kind.
    pub kind: ServiceKind,
    /// Other values of the `protocol` column: the wire protocol's name, and names of older
    /// conventions.
    also: &'static [&'static str],
}

impl System {
    /// The system with this protocol or name. `None` if the protocol does not determine the system,
    /// as with HTTP.
    pub fn named(protocol: &str) -> Option<&'static Self> {
        let of_protocols = PROTOCOLS.iter().filter_map(|protocol| protocol.system.as_ref());
        of_protocols.chain(SYSTEMS).find(|system| {
            let is_it = |name: &str| name.eq_ignore_ascii_case(protocol);
            is_it(system.name) || system.also.iter().any(|name| is_it(name))
        })
    }
}

const fn database(name: &'static str, also: &'static [&'static str]) -> System {
    System { name, kind: ServiceKind::Database, also }
}

const fn cache(name: &'static str, also: &'static [&'static str]) -> System {
    System { name, kind: ServiceKind::Cache, also }
}

const fn broker(name: &'static str, also: &'static [&'static str]) -> System {
    System { name, kind: ServiceKind::Broker, also }
}

/// Systems that agents do not parse: those of semantic conventions 1.37, and other names that
/// several senders use.
const SYSTEMS: &[System] = &[
    database("mariadb", &[]),
    database("microsoft.sql_server", &["mssql", "mssqlcompact", "sqlserver"]),
    database("oracle.db", &["oracle"]),
    database("sqlite", &["sqlite3"]),
    database("other_sql", &["sql", "jdbc"]),
    database("elasticsearch", &[]),
    database("opensearch", &[]),
    database("cassandra", &["scylla", "scylladb"]),
    database("clickhouse", &[]),
    database("cockroachdb", &["cockroach"]),
    database("couchbase", &[]),
    database("couchdb", &[]),
    database("aws.dynamodb", &["dynamodb"]),
    database("aws.redshift", &["redshift"]),
    database("azure.cosmosdb", &["cosmosdb"]),
    database("gcp.spanner", &["spanner"]),
    database("neo4j", &[]),
    database("influxdb", &[]),
    database("hbase", &[]),
    database("hive", &[]),
    database("trino", &["presto"]),
    database("teradata", &[]),
    database("vertica", &[]),
    database("sybase", &[]),
    database("snowflake", &[]),
    database("bigquery", &[]),
    database("edb", &[]),
    database("filemaker", &[]),
    database("derby", &["cloudscape"]),
    database("h2database", &["h2"]),
    database("hsqldb", &[]),
    database("firebirdsql", &["firebird", "interbase"]),
    database("ibm.db2", &["db2"]),
    database("ibm.informix", &["informix"]),
    database("ibm.netezza", &["netezza"]),
    database("sap.hana", &["hanadb"]),
    database("sap.maxdb", &["maxdb"]),
    database("actian.ingres", &["ingres"]),
    database("softwareag.adabas", &["adabas"]),
    database("intersystems.cache", &["intersystems_cache"]),
    database("instantdb", &[]),
    database("pervasive", &[]),
    database("pointbase", &[]),
    database("progress", &[]),
    database("firstsql", &[]),
    database("geode", &[]),
    database("etcd", &[]),
    broker("activemq", &["artemis", "stomp"]),
    broker("pulsar", &["apache_pulsar"]),
    broker("rocketmq", &[]),
    broker("aws_sqs", &["aws.sqs", "sqs", "AmazonSQS"]),
    broker("aws.sns", &["sns", "AmazonSNS"]),
    broker("aws_kinesis", &["kinesis", "aws.kinesis"]),
    broker("gcp_pubsub", &["pubsub", "gcp.pubsub"]),
    broker("eventhubs", &["eventhub"]),
    broker("eventgrid", &[]),
    broker("servicebus", &[]),
    broker("jms", &[]),
    broker("zeromq", &[]),
];

/// Values of the `protocol` column: OpenTelemetry's names if it has one (`network.protocol.name`,
/// `db.system.name`). [`PROTOCOLS`] has more about each.
pub mod protocol {
    /// HTTP/1.0 and HTTP/1.1.
    pub const HTTP: &str = "http";
    /// PostgreSQL frontend/backend protocol, version 3.
    pub const POSTGRESQL: &str = "postgresql";
    /// Redis serialization protocol.
    pub const REDIS: &str = "redis";
    /// WebSocket, from the upgrade to the close.
    pub const WEBSOCKET: &str = "websocket";
    /// gRPC over HTTP/2.
    pub const GRPC: &str = "grpc";
    /// MySQL client/server protocol; MariaDB's, too.
    pub const MYSQL: &str = "mysql";
    /// Memcached, text and binary protocol.
    pub const MEMCACHED: &str = "memcached";
    /// MongoDB wire protocol.
    pub const MONGODB: &str = "mongodb";
    /// Apache Kafka.
    pub const KAFKA: &str = "kafka";
    /// AMQP 0-9-1, as RabbitMQ speaks it.
    pub const AMQP: &str = "amqp";
    /// ZMTP, the protocol of ZeroMQ.
    pub const ZMTP: &str = "zmtp";
    /// MQTT.
    pub const MQTT: &str = "mqtt";
    /// NATS client protocol.
    pub const NATS: &str = "nats";
    /// Apache Dubbo.
    pub const DUBBO: &str = "dubbo";
    /// FastCGI.
    pub const FASTCGI: &str = "fastcgi";
    /// Domain name system.
    pub const DNS: &str = "dns";
    /// Transport layer security, if its contents are not visible.
    pub const TLS: &str = "tls";
    /// A TCP connection with an unknown protocol.
    pub const TCP: &str = "tcp";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_of_a_database_or_broker_is_known() {
        use ServiceKind::{Broker, Cache, Database};
        for (protocol, name, kind) in [
            (protocol::POSTGRESQL, "postgresql", Database),
            (protocol::MYSQL, "mysql", Database),
            (protocol::MONGODB, "mongodb", Database),
            (protocol::REDIS, "redis", Cache),
            (protocol::MEMCACHED, "memcached", Cache),
            (protocol::KAFKA, "kafka", Broker),
            (protocol::AMQP, "rabbitmq", Broker),
            (protocol::MQTT, "mqtt", Broker),
            (protocol::NATS, "nats", Broker),
            ("mssql", "microsoft.sql_server", Database),
            ("AmazonSQS", "aws_sqs", Broker),
        ] {
            let system = System::named(protocol).unwrap();
            assert_eq!((system.name, system.kind), (name, kind), "{protocol}");
        }
        for other in [protocol::HTTP, protocol::GRPC, protocol::DNS, protocol::TCP, ""] {
            assert_eq!(System::named(other), None, "{other}");
        }
    }

    #[test]
    fn no_name_stands_for_two() {
        let systems = PROTOCOLS.iter().filter_map(|protocol| protocol.system.as_ref());
        let names = systems.chain(SYSTEMS).flat_map(|it| it.also.iter().chain([&it.name]));
        let mut names: Vec<&str> = names.copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    fn file(path: &str) -> String {
        let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn the_documents_list_is_the_table() {
        let document = file("docs/protocols.md");
        let rows: Vec<&str> = document.lines().filter(|line| line.starts_with("| ")).collect();
        let mut places = Vec::new();
        for Protocol { name, title, default_port, .. } in PROTOCOLS {
            let port = default_port.map_or_else(String::new, |port| format!("{port} "));
            let end = format!("| `{name}` | {port}|");
            let is_it = |row: &&str| {
                let rest = row.strip_prefix("| ").and_then(|row| row.strip_prefix(title));
                rest.is_some_and(|rest| rest.starts_with([' ', ',']) && !rest.starts_with(" in "))
            };
            let place = rows.iter().position(is_it);
            let place = place.unwrap_or_else(|| panic!("docs/protocols.md has no row of {title}"));
            assert!(rows[place].contains(&end), "{} must have {end}", rows[place]);
            places.push(place);
        }
        assert!(places.is_sorted(), "the rows are in another order");
    }

    #[test]
    fn the_matrix_has_a_row_for_every_protocol() {
        let rows = file("tests/matrix/rows.py");
        for protocol in PROTOCOLS {
            let row = format!("Row(\"{}", protocol.name);
            assert!(rows.contains(&row), "tests/matrix/rows.py has no {row}");
        }
    }
}
