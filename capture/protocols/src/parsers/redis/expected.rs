//! What replies commands may have, by their types: a reply that cannot be the waiting
//! command's shows that the connection has lost step.

use super::reply::Message;

/// Whether this may be the reply to a command of this name. Of most commands nothing is known.
pub(super) fn may_answer(operation: &str, message: &Message) -> bool {
    // An error may answer anything, and so may what a transaction says of what it will do.
    // Attributes may stand before anything.
    if message.error.is_some() || message.kind == b'|' || message.label.word() == b"QUEUED" {
        return true;
    }
    let kinds: &[u8] = match operation {
        "GET" | "GETDEL" | "GETEX" | "HGET" | "GETRANGE" => b"$_",
        "SET" => b"+$_",
        "SETEX" | "PSETEX" | "MSET" | "MULTI" => b"+",
        "DEL" | "UNLINK" | "EXISTS" | "EXPIRE" | "PEXPIRE" | "TTL" | "PTTL" | "INCR" | "DECR"
        | "INCRBY" | "DECRBY" | "HSET" | "HDEL" | "HLEN" | "SADD" | "SREM" | "SCARD" | "LPUSH"
        | "RPUSH" | "LLEN" | "ZCARD" | "ZREM" | "PUBLISH" | "SETNX" => b":",
        "MGET" | "HMGET" | "LRANGE" => b"*",
        "HGETALL" => b"*%",
        "SMEMBERS" => b"*~",
        "EXEC" => b"*_$",
        _ => return true,
    };
    kinds.contains(&message.kind)
}
