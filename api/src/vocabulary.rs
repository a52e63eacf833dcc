//! The schemas of the model's vocabularies.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! vocabularies {
    ($($name:ident = $vocabulary:ident, $description:literal;)+) => {
        $(
            #[doc = $description]
            pub(crate) struct $name;

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    let words = spanwise_model::$vocabulary::ALL.iter().map(|word| word.as_str());
                    json_schema!({
                        "type": "string",
                        "enum": words.collect::<Vec<_>>(),
                        "description": $description,
                    })
                }
            }
        )+
    };
}

vocabularies! {
    Capture = Capture, "Where a span was captured.";
    Evidence = Evidence, "Why a span has its parent.";
    SpanKind = Kind, "The role of a span in its exchange.";
}
