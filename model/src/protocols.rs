//! What services are called by: one table of protocols and of OpenTelemetry's names
//! of databases and messaging systems.

/// What kind of thing is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    /// A program that serves requests.
    Service,
    /// Keeps data.
    Database,
    /// Keeps data for a while.
    Cache,
    /// Takes messages for others.
    Broker,
    /// Something outside, of which nothing more is known.
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

/// A database, cache or broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// OpenTelemetry's name: of `db.system.name` or `messaging.system`.
    pub name: &'static str,
    /// What it is.
    pub kind: ServiceKind,
    /// Other names that stand in the `protocol` column: the wire protocol's, and those
    /// of older conventions.
    also: &'static [&'static str],
}

impl System {
    /// The system that is spoken to by this protocol, or is called so. `None` where a
    /// protocol does not tell what serves it, as HTTP.
    pub fn named(protocol: &str) -> Option<&'static Self> {
        SYSTEMS.iter().find(|system| {
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

/// Semantic conventions 1.37; what several senders use besides.
const SYSTEMS: &[System] = &[
    database("postgresql", &["postgres", "pg"]),
    database("mysql", &[]),
    database("mariadb", &[]),
    database("mongodb", &["mongo"]),
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
    cache("redis", &["valkey", "keydb", "dragonfly"]),
    cache("memcached", &["memcache"]),
    broker("kafka", &["redpanda"]),
    // AMQP 0-9-1 is RabbitMQ's.
    broker("rabbitmq", &["amqp"]),
    broker("mqtt", &["mosquitto"]),
    broker("nats", &[]),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol;

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
        let mut names: Vec<&str> =
            SYSTEMS.iter().flat_map(|it| it.also.iter().copied().chain([it.name])).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
