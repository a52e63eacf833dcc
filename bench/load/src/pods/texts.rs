//! Varied texts: user agents, statements, and their values.

use std::fmt::Write as _;

use super::zipf;
use crate::ids::{Hex, Time, Uuid};
use crate::random::Random;
use crate::services::Datastore;
use crate::trace::Trace;

const SYSTEMS: [&str; 9] = [
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
    "Linux; Android 10; K",
    "iPhone; CPU iPhone OS 18_6 like Mac OS X",
    "X11; Linux x86_64",
    "Linux; Android 15; SM-S938B",
    "iPad; CPU OS 17_7 like Mac OS X",
    "Linux; Android 14; Pixel 8 Pro",
    "X11; CrOS x86_64 14541.0.0",
];

/// Writes one of about three hundred user agents.
pub(super) fn user_agent(into: &mut String, user: u64) {
    into.clear();
    let mut random = Random::new(user ^ 0x5eed);
    let system = SYSTEMS[zipf(&mut random, SYSTEMS.len() as u64) as usize];
    let version = 143 - zipf(&mut random, 12);
    // Writing to a String cannot fail.
    let _ = match zipf(&mut random, 5) {
        0 => write!(
            into,
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 \
             Safari/537.36"
        ),
        1 => write!(
            into,
            "Mozilla/5.0 ({system}) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.{} \
             Safari/605.1.15",
            version % 6
        ),
        2 => {
            write!(into, "ShopApp/8.{}.{} ({system}) okhttp/4.12.0", version % 20, random.below(3))
        }
        3 => write!(
            into,
            "Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0"
        ),
        _ => write!(
            into,
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 \
             Safari/537.36 Edg/{version}.0.{}.0",
            3000 + version % 7
        ),
    };
}

/// A statement: operation, collection, and text. Braces in the text stand for values.
pub(super) struct Statement(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
);

#[rustfmt::skip]
const RELATIONAL: [Statement; 20] = [
    Statement("SELECT", "orders", "SELECT o.id, o.customer_id, o.state, o.total_cents, o.currency FROM orders o WHERE o.customer_id = '{user}' AND o.created_at > $1 ORDER BY o.created_at DESC LIMIT 20"),
    Statement("SELECT", "products", "SELECT p.id, p.sku, p.title, p.price_cents FROM products p WHERE p.id = $1 AND p.deleted_at IS NULL"),
    Statement("SELECT", "sessions", "SELECT s.* FROM sessions s WHERE s.token = '{hex32}' AND s.expires_at > now()"),
    Statement("UPDATE", "carts", "UPDATE carts SET updated_at = now(), version = version + 1 WHERE id = $1 AND version = $2"),
    Statement("SELECT", "stock", "SELECT warehouse_id, available, reserved FROM stock WHERE sku = $1 AND warehouse_id = ANY($2) FOR UPDATE SKIP LOCKED"),
    Statement("INSERT", "outbox", "INSERT INTO outbox (id, aggregate_id, kind, payload, created_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING"),
    Statement("SELECT", "customers", "SELECT c.id, c.email_hash, c.tier, c.locale FROM customers c LEFT JOIN consents k ON k.customer_id = c.id WHERE c.id = $1"),
    Statement("BEGIN", "", "BEGIN"),
    Statement("COMMIT", "", "COMMIT"),
    Statement("SELECT", "prices", "SELECT sku, amount_cents, currency, valid_until FROM prices WHERE sku IN ({number}, {number}) AND channel = 'web'"),
    Statement("SELECT", "reviews", "SELECT r.id, r.stars, r.body, r.author_id FROM reviews r WHERE r.product_id = $1 AND r.state = 'published' ORDER BY r.helpful DESC OFFSET $2 LIMIT 10"),
    Statement("INSERT", "payments", "INSERT INTO payments (id, order_id, amount_cents, provider_ref) VALUES ($1, $2, $3, '{hex24}')"),
    Statement("UPDATE", "orders", "UPDATE orders SET state = 'paid', paid_at = '{time}' WHERE id = $1"),
    Statement("DELETE", "locks", "DELETE FROM locks WHERE holder = '{hex16}' OR expires_at < now()"),
    Statement("SELECT", "shipments", "SELECT s.id, s.carrier, s.tracking FROM shipments s WHERE s.order_id = $1"),
    Statement("SELECT", "addresses", "SELECT a.id, a.line1, a.line2, a.zip, a.city, a.country FROM addresses a WHERE a.customer_id = $1"),
    Statement("SELECT", "features", "WITH latest AS (SELECT DISTINCT ON (name) name, value FROM features WHERE entity = $1 ORDER BY name, at DESC) SELECT name, value FROM latest"),
    Statement("INSERT", "audit", "INSERT INTO audit (at, actor, action, target) VALUES (now(), $1, $2, '{uuid}')"),
    Statement("SELECT", "ledger_entries", "SELECT sum(amount_cents) FROM ledger_entries WHERE account_id = $2 AND booked_at < $1"),
    Statement("SET", "", "SET LOCAL statement_timeout = '2s'"),
];

const REDIS: [Statement; 7] = [
    Statement("GET", "", "GET session:{hex32}"),
    Statement("HGETALL", "", "HGETALL cart:{user}"),
    Statement("SETEX", "", "SETEX rate:{hex16} 60 {small}"),
    Statement("MGET", "", "MGET price:{number} price:{number}"),
    Statement("ZRANGEBYSCORE", "", "ZRANGEBYSCORE recent:{user} {number} +inf LIMIT 0 20"),
    Statement("EVALSHA", "", "EVALSHA 6b1bf486c81ceb7edf3c093f4c48582e38c0e791 1 lock:{uuid}"),
    Statement("PING", "", "PING"),
];

const MONGO: [Statement; 4] = [
    Statement(
        "find",
        "documents",
        "{\"find\":\"documents\",\"filter\":{\"_id\":{\"$oid\":\"{hex24}\"}},\"limit\":1}",
    ),
    Statement(
        "aggregate",
        "documents",
        "{\"aggregate\":\"documents\",\"pipeline\":[{\"$match\":{\"owner\":\"{user}\"}},\
         {\"$sort\":{\"at\":-1}},{\"$limit\":{small}}]}",
    ),
    Statement("insert", "audit", "{\"insert\":\"audit\",\"documents\":[\"?\"],\"ordered\":true}"),
    Statement(
        "update",
        "documents",
        "{\"update\":\"documents\",\"updates\":[{\"q\":{\"_id\":\"{hex24}\",\"v\":{small}}}]}",
    ),
];

/// The statements of a datastore, most frequent first.
pub(super) const fn statements(store: Datastore) -> &'static [Statement] {
    match store {
        Datastore::PostgreSql | Datastore::MySql => &RELATIONAL,
        Datastore::Redis => &REDIS,
        Datastore::MongoDb => &MONGO,
    }
}

/// Writes a text with values in place of the names in braces.
pub(super) fn fill(into: &mut String, text: &str, trace: &Trace, at: i64, random: &mut Random) {
    into.clear();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        into.push_str(before);
        let name = after.split_once('}').map_or("", |(name, _)| name);
        // Writing to a String cannot fail.
        let _ = match name {
            "user" => write!(into, "{}", Uuid(trace.user)),
            "order" => write!(into, "{}", trace.order.unwrap_or(trace.session >> 32)),
            "product" => write!(into, "sku-{:06}", random.skewed(60_000)),
            "category" => write!(into, "{}", random.below(120)),
            "uuid" => write!(into, "{}", Uuid(random.next())),
            "hex16" => write!(into, "{}", Hex(random.next(), 16)),
            "hex24" => write!(into, "{}", Hex(random.next(), 24)),
            "hex32" => write!(into, "{}", Hex(trace.session, 32)),
            "number" => write!(into, "{}", 1_000 + random.skewed(40_000_000)),
            "small" => write!(into, "{}", 1 + random.below(40)),
            "time" => write!(into, "{}", Time(at - random.skewed(86_400_000) as i64 * 1_000_000)),
            // Plain text.
            _ => {
                into.push('{');
                rest = after;
                continue;
            }
        };
        rest = &after[name.len() + 1..];
    }
    into.push_str(rest);
}
