//! The reply types that commands may have. A reply whose type does not fit the waiting command
//! shows that pairing has lost step.

use super::reply::Message;

/// Whether this message may be the reply to this command. For most commands, every reply is
/// accepted.
pub(super) fn may_answer(operation: &str, message: &Message) -> bool {
    // Any command may get an error or, in a transaction, QUEUED. Attributes may precede any reply.
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
