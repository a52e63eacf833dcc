//! Names of the reason codes of MQTT 5 (section 2.4) and of the return codes of MQTT 3.1.1
//! (sections 3.2.2.3 and 3.9.3).

/// Codes from here on are failures: in version 5 for all packets, in every version for
/// subscriptions.
const FAILED: u8 = 0x80;

/// The name of a reason code, if it is a failure.
pub(super) fn failure(code: u8) -> Option<&'static str> {
    Some(match code {
        ..FAILED => return None,
        0x80 => "unspecified_error",
        0x81 => "malformed_packet",
        0x82 => "protocol_error",
        0x83 => "implementation_specific_error",
        0x84 => "unsupported_protocol_version",
        0x85 => "client_identifier_not_valid",
        0x86 => "bad_user_name_or_password",
        0x87 => "not_authorized",
        0x88 => "server_unavailable",
        0x89 => "server_busy",
        0x8a => "banned",
        0x8b => "server_shutting_down",
        0x8c => "bad_authentication_method",
        0x8d => "keep_alive_timeout",
        0x8e => "session_taken_over",
        0x8f => "topic_filter_invalid",
        0x90 => "topic_name_invalid",
        0x91 => "packet_identifier_in_use",
        0x92 => "packet_identifier_not_found",
        0x93 => "receive_maximum_exceeded",
        0x94 => "topic_alias_invalid",
        0x95 => "packet_too_large",
        0x96 => "message_rate_too_high",
        0x97 => "quota_exceeded",
        0x98 => "administrative_action",
        0x99 => "payload_format_invalid",
        0x9a => "retain_not_supported",
        0x9b => "qos_not_supported",
        0x9c => "use_another_server",
        0x9d => "server_moved",
        0x9e => "shared_subscriptions_not_supported",
        0x9f => "connection_rate_exceeded",
        0xa0 => "maximum_connect_time",
        0xa1 => "subscription_identifiers_not_supported",
        0xa2 => "wildcard_subscriptions_not_supported",
        _ => "unknown_reason",
    })
}

/// The name of the return code with which version 3 refuses a connection.
pub(super) fn refusal(code: u8) -> Option<&'static str> {
    Some(match code {
        0 => return None,
        1 => "unsupported_protocol_version",
        2 => "client_identifier_not_valid",
        3 => "server_unavailable",
        4 => "bad_user_name_or_password",
        5 => "not_authorized",
        code => return failure(code).or(Some("unknown_reason")),
    })
}
