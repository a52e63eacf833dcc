//! The shop: its services, their endpoints, calls and datastores.

use crate::runtimes::Runtime::{self, Go, Java, Node, Python};

/// A service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) runtime: Runtime,
    pub(crate) store: Option<Datastore>,
    /// Its endpoints; never empty.
    pub(crate) endpoints: &'static [Endpoint],
    /// Indexes in [`SERVICES`] of the services that it calls.
    pub(crate) calls: &'static [usize],
    /// The topic to which it sends messages, and the consumer.
    pub(crate) topic: Option<(&'static str, usize)>,
}

/// A service's datastore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Datastore {
    PostgreSql,
    MySql,
    Redis,
    MongoDb,
}

/// An endpoint of a service.
#[derive(Debug)]
pub(crate) enum Endpoint {
    /// Method and route. Names in braces stand for ids.
    Http(&'static str, &'static str),
    /// Package with service, and method.
    Rpc(&'static str, &'static str),
}

use Datastore::{MongoDb, MySql, PostgreSql, Redis};
use Endpoint::{Http, Rpc};

const fn service(
    name: &'static str,
    runtime: Runtime,
    store: Option<Datastore>,
    endpoints: &'static [Endpoint],
    calls: &'static [usize],
) -> Service {
    Service { name, runtime, store, endpoints, calls, topic: None }
}

/// The service that receives external requests.
pub(crate) const GATEWAY: usize = 0;

/// All services. Numbers in comments are their indexes.
pub(crate) const SERVICES: [Service; 30] = [
    // 0
    service(
        "gateway",
        Node,
        None,
        &[
            Http("GET", "/products/{product}"),
            Http("GET", "/search"),
            Http("GET", "/cart"),
            Http("POST", "/cart/items"),
            Http("POST", "/checkout"),
            Http("GET", "/orders/{order}"),
            Http("GET", "/account/{user}"),
        ],
        &[1, 1, 1, 2, 2, 3],
    ),
    // 1
    service(
        "storefront-web",
        Node,
        Some(Redis),
        &[
            Http("GET", "/api/pages/product/{product}"),
            Http("GET", "/api/pages/home"),
            Http("POST", "/api/pages/checkout"),
        ],
        &[4, 5, 6, 7, 14, 17, 19, 21],
    ),
    // 2
    service(
        "mobile-bff",
        Node,
        Some(Redis),
        &[
            Http("GET", "/mobile/v3/feed/{user}"),
            Http("GET", "/mobile/v3/products/{product}"),
            Http("POST", "/mobile/v3/orders"),
        ],
        &[4, 5, 6, 7, 21, 22, 28],
    ),
    // 3
    service(
        "admin-bff",
        Python,
        Some(PostgreSql),
        &[Http("GET", "/admin/orders/{order}"), Http("PUT", "/admin/products/{product}")],
        &[4, 9, 11, 22],
    ),
    // 4
    service(
        "catalog",
        Java,
        Some(PostgreSql),
        &[
            Http("GET", "/v2/products/{product}"),
            Http("GET", "/v2/products/{product}/variants"),
            Http("GET", "/v2/categories/{category}/products"),
        ],
        &[11, 12, 20],
    ),
    // 5
    service(
        "search",
        Java,
        Some(Redis),
        &[Http("GET", "/v1/search"), Http("GET", "/v1/suggest")],
        &[4, 15],
    ),
    // 6
    Service {
        topic: Some(("carts.changed", 14)),
        ..service(
            "cart",
            Java,
            Some(Redis),
            &[
                Http("GET", "/v1/carts/{user}"),
                Http("POST", "/v1/carts/{user}/items"),
                Http("DELETE", "/v1/carts/{user}/items/{product}"),
            ],
            &[11, 12, 13],
        )
    },
    // 7
    service(
        "checkout",
        Java,
        Some(PostgreSql),
        &[Http("POST", "/v1/checkouts"), Http("GET", "/v1/checkouts/{uuid}")],
        &[6, 8, 9, 10, 24, 26],
    ),
    // 8
    Service {
        topic: Some(("payments.captured", 28)),
        ..service(
            "payments",
            Java,
            Some(PostgreSql),
            &[Http("POST", "/v1/payments"), Http("POST", "/v1/payments/{uuid}/capture")],
            &[26, 27],
        )
    },
    // 9
    Service {
        topic: Some(("orders.placed", 28)),
        ..service(
            "orders",
            Java,
            Some(PostgreSql),
            &[Http("POST", "/v1/orders"), Http("GET", "/v1/orders/{order}")],
            &[11, 27],
        )
    },
    // 10
    Service {
        topic: Some(("shipments.requested", 29)),
        ..service(
            "shipping",
            Go,
            Some(PostgreSql),
            &[Rpc("shop.shipping.v1.Shipping", "Quote"), Rpc("shop.shipping.v1.Shipping", "Book")],
            &[23],
        )
    },
    // 11
    service(
        "inventory",
        Go,
        Some(PostgreSql),
        &[
            Rpc("shop.inventory.v1.Inventory", "GetStock"),
            Rpc("shop.inventory.v1.Inventory", "Reserve"),
        ],
        &[29],
    ),
    // 12
    service(
        "pricing",
        Go,
        Some(Redis),
        &[Rpc("shop.pricing.v1.Pricing", "Price"), Rpc("shop.pricing.v1.Pricing", "PriceList")],
        &[13, 25],
    ),
    // 13
    service(
        "promotions",
        Python,
        Some(PostgreSql),
        &[Http("GET", "/promotions/active"), Http("POST", "/promotions/apply/{user}")],
        &[],
    ),
    // 14
    service(
        "recommendations",
        Python,
        Some(Redis),
        &[Http("GET", "/recommend/{user}"), Http("GET", "/similar/{product}")],
        &[4, 15],
    ),
    // 15
    service("ranking", Python, Some(Redis), &[Http("POST", "/rank")], &[16]),
    // 16
    service(
        "features",
        Go,
        Some(Redis),
        &[Rpc("shop.features.v1.Features", "Batch"), Rpc("shop.features.v1.Features", "Get")],
        &[],
    ),
    // 17
    service(
        "reviews",
        Node,
        Some(MongoDb),
        &[Http("GET", "/reviews/{product}"), Http("POST", "/reviews/{product}")],
        &[18, 22],
    ),
    // 18
    service("moderation", Python, None, &[Http("POST", "/moderate/{uuid}")], &[16]),
    // 19
    service(
        "content",
        Node,
        Some(MongoDb),
        &[Http("GET", "/content/blocks/{category}"), Http("GET", "/content/banners")],
        &[20],
    ),
    // 20
    service(
        "media",
        Go,
        Some(Redis),
        &[Rpc("shop.media.v1.Media", "Resolve"), Rpc("shop.media.v1.Media", "Variants")],
        &[],
    ),
    // 21
    service(
        "session",
        Go,
        Some(Redis),
        &[Rpc("shop.session.v1.Sessions", "Validate"), Rpc("shop.session.v1.Sessions", "Touch")],
        &[],
    ),
    // 22
    service(
        "profile",
        Java,
        Some(PostgreSql),
        &[Http("GET", "/v1/profiles/{user}"), Http("PATCH", "/v1/profiles/{user}")],
        &[23],
    ),
    // 23
    service(
        "addresses",
        Go,
        Some(PostgreSql),
        &[
            Rpc("shop.addresses.v1.Addresses", "List"),
            Rpc("shop.addresses.v1.Addresses", "Normalize"),
        ],
        &[],
    ),
    // 24
    service("taxes", Go, Some(Redis), &[Rpc("shop.taxes.v1.Taxes", "Compute")], &[25]),
    // 25
    service("currencies", Go, Some(Redis), &[Rpc("shop.currencies.v1.Rates", "Convert")], &[]),
    // 26
    service(
        "fraud",
        Python,
        Some(Redis),
        &[Http("POST", "/score/{uuid}"), Http("GET", "/history/{user}")],
        &[16, 22],
    ),
    // 27
    service(
        "ledger",
        Java,
        Some(MySql),
        &[Http("POST", "/v1/entries"), Http("GET", "/v1/accounts/{user}/balance")],
        &[],
    ),
    // 28
    service(
        "notifications",
        Node,
        Some(MongoDb),
        &[Http("POST", "/notify/{user}"), Http("GET", "/notifications/{user}")],
        &[22],
    ),
    // 29
    service(
        "warehouse",
        Java,
        Some(MySql),
        &[Http("GET", "/v1/bins/{product}"), Http("POST", "/v1/picks")],
        &[],
    ),
];

impl Datastore {
    /// `db.system.name`.
    pub(crate) const fn system(self) -> &'static str {
        match self {
            Self::PostgreSql => "postgresql",
            Self::MySql => "mysql",
            Self::Redis => "redis",
            Self::MongoDb => "mongodb",
        }
    }

    /// Its port.
    pub(crate) const fn port(self) -> u64 {
        match self {
            Self::PostgreSql => 5432,
            Self::MySql => 3306,
            Self::Redis => 6379,
            Self::MongoDb => 27017,
        }
    }

    /// Median time of a statement, in nanoseconds.
    pub(crate) const fn median_nano(self) -> f64 {
        match self {
            Self::PostgreSql | Self::MySql => 1_800_000.0,
            Self::MongoDb => 2_500_000.0,
            Self::Redis => 350_000.0,
        }
    }

    /// Operation, collection and text of its statements.
    pub(crate) const fn statements(self) -> &'static [[&'static str; 3]] {
        match self {
            Self::PostgreSql | Self::MySql => &[
                [
                    "SELECT",
                    "items",
                    "select i1_0.id,i1_0.created_at,i1_0.deleted_at,i1_0.description,i1_0.name,\
                     i1_0.owner_id,o1_0.id,o1_0.name,o1_0.tier,i1_0.state,i1_0.updated_at,\
                     i1_0.version from items i1_0 left join owners o1_0 on o1_0.id=i1_0.owner_id \
                     where i1_0.id=? and (i1_0.deleted_at is null)",
                ],
                [
                    "SELECT",
                    "items",
                    "SELECT i.id, i.name, i.state, i.updated_at, p.amount, p.currency, p.valid_from, \
                     p.valid_to FROM items i JOIN prices p ON p.item_id = i.id AND p.valid_to IS \
                     NULL LEFT JOIN stock s ON s.item_id = i.id WHERE i.owner_id = $1 AND i.state \
                     = ANY($2) AND s.available > $3 ORDER BY i.updated_at DESC LIMIT $4 OFFSET $5",
                ],
                [
                    "UPDATE",
                    "items",
                    "UPDATE items SET state = $1, version = version + 1, updated_at = now() WHERE \
                     id = $2 AND version = $3 RETURNING version",
                ],
                [
                    "INSERT",
                    "events",
                    "INSERT INTO events (id, kind, item_id, actor, body, created_at) VALUES ($1, \
                     $2, $3, $4, $5, now()) ON CONFLICT (id) DO NOTHING",
                ],
                [
                    "SELECT",
                    "accounts",
                    "SELECT a.id, a.balance, a.currency, a.limits, a.updated_at FROM accounts a WHERE \
                     a.user_id = $1 AND a.closed_at IS NULL AND a.currency = $2 FOR UPDATE",
                ],
                [
                    "DELETE",
                    "locks",
                    "DELETE FROM locks WHERE holder = $1 AND resource = ANY($2) AND (expires_at < \
                     now() OR released_at IS NOT NULL)",
                ],
            ],
            Self::Redis => &[
                ["GET", "", "GET {user}"],
                ["HGETALL", "", "HGETALL item:{product}"],
                ["SETEX", "", "SETEX session:{uuid} ? ?"],
                ["MGET", "", "MGET ? ? ? ?"],
            ],
            Self::MongoDb => &[
                ["find", "documents", "{\"find\":\"documents\",\"filter\":{\"_id\":\"?\"}}"],
                ["aggregate", "documents", "{\"aggregate\":\"documents\",\"pipeline\":[\"?\"]}"],
                ["insert", "audit", "{\"insert\":\"audit\",\"ordered\":true}"],
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_called_and_the_calls_have_no_cycle() {
        let mut called = [false; SERVICES.len()];
        called[GATEWAY] = true;
        let mut depth = [0_usize; SERVICES.len()];
        // As many rounds as services, because longer chains would be cycles.
        for _ in 0..SERVICES.len() {
            for (caller, service) in SERVICES.iter().enumerate() {
                for callee in service.calls.iter().chain(service.topic.iter().map(|topic| &topic.1))
                {
                    called[*callee] = true;
                    depth[*callee] = depth[*callee].max(depth[caller] + 1);
                }
            }
        }
        assert!(called.iter().all(|called| *called), "{called:?}");
        assert!(depth.iter().all(|depth| *depth < SERVICES.len()), "{depth:?}");
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::HashSet<_> = SERVICES.iter().map(|s| s.name).collect();
        assert_eq!(names.len(), SERVICES.len());
    }
}
