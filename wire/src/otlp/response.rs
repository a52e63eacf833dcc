//! `ExportTraceServiceResponse`.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;
use serde_json::json;

use super::Rejections;

/// The response as protobuf: empty, or a partial success.
pub fn response_protobuf(rejections: &Rejections) -> Vec<u8> {
    let partial_success = rejections.message().map(|error_message| ExportTracePartialSuccess {
        rejected_spans: i64::try_from(rejections.total()).unwrap_or(i64::MAX),
        error_message,
    });
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

/// The response as protobuf JSON, where 64-bit integers are texts.
pub fn response_json(rejections: &Rejections) -> String {
    match rejections.message() {
        None => "{}".to_owned(),
        Some(message) => json!({
            "partialSuccess": {
                "rejectedSpans": rejections.total().to_string(),
                "errorMessage": message,
            }
        })
        .to_string(),
    }
}
