//! The metadata of CTF 2: fragments in JSON, each after a record separator.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use serde_json::Value;

use crate::metadata::{Clock, EventClass, Metadata, StreamClass};
use crate::types::{
    Arm, Budget, DEPTH_MAX, Encoding, Integer, Length, Location, Mapping, Order, Type, alignment,
    role, structure,
};

/// # Errors
/// If a fragment is no JSON, or its types make no sense.
pub(crate) fn parse(text: &str) -> Result<Metadata, String> {
    let mut parser = Parser::default();
    let fragments = text.split('\u{1e}').filter(|fragment| !fragment.trim().is_empty());
    for (index, fragment) in fragments.enumerate() {
        let value: Value = serde_json::from_str(fragment)
            .map_err(|error| format!("metadata, fragment {}: {error}", index + 1))?;
        let kind = value["type"].as_str().unwrap_or_default();
        if (index == 0) != (kind == "preamble") {
            return Err("metadata: the preamble is not the first fragment".to_owned());
        }
        parser
            .fragment(kind, &value)
            .map_err(|problem| format!("metadata, fragment {} ({kind}): {problem}", index + 1))?;
    }
    Ok(parser.found)
}

#[derive(Default)]
struct Parser {
    aliases: HashMap<String, Type>,
    budget: Budget,
    found: Metadata,
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key].as_u64().ok_or_else(|| format!("{key:?} is no number"))
}

fn optional_id(value: &Value, key: &str) -> Result<u64, String> {
    if value[key].is_null() { Ok(0) } else { number(value, key) }
}

fn integer_of(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

impl Parser {
    fn fragment(&mut self, kind: &str, value: &Value) -> Result<(), String> {
        // Extensions may change everything that follows.
        if let Some(extensions) = value["extensions"].as_object()
            && !extensions.is_empty()
        {
            return Err("it needs an extension of CTF 2, which is not known here".to_owned());
        }
        match kind {
            "preamble" => {
                if number(value, "version")? != 2 {
                    return Err("the version is not 2".to_owned());
                }
                if let Some(bytes) = value["uuid"].as_array() {
                    let bytes: Vec<u8> =
                        bytes.iter().filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
                    let uuid = bytes.try_into().map_err(|_| "uuid has not 16 bytes")?;
                    self.found.uuid = Some(uuid);
                }
            }
            "field-class-alias" => {
                let name = value["name"].as_str().ok_or("it has no name")?.to_owned();
                let class = self.class(&value["field-class"], 0)?;
                self.budget.take(&class)?;
                if self.aliases.insert(name, class).is_some() {
                    return Err("its name is there twice".to_owned());
                }
            }
            "trace-class" => {
                self.found.packet_header = self.scope(&value["packet-header-field-class"])?;
                for (key, value) in value["environment"].as_object().into_iter().flatten() {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.found.environment.insert(key.clone(), text);
                }
            }
            "clock-class" => self.clock(value)?,
            "data-stream-class" => self.stream(value)?,
            "event-record-class" => self.event(value)?,
            _ => return Err("this type of fragment is not known".to_owned()),
        }
        Ok(())
    }

    fn clock(&mut self, value: &Value) -> Result<(), String> {
        let id = value["id"].as_str().or_else(|| value["name"].as_str()).unwrap_or_default();
        let offset = &value["offset-from-origin"];
        let ticks_per_second = number(value, "frequency")?;
        if ticks_per_second == 0 {
            return Err("the frequency is 0".to_owned());
        }
        self.found.clocks.push(Clock {
            id: id.to_owned(),
            ticks_per_second,
            offset_seconds: integer_of(&offset["seconds"]).unwrap_or(0),
            offset_ticks: integer_of(&offset["cycles"]).unwrap_or(0),
        });
        Ok(())
    }

    fn stream(&mut self, value: &Value) -> Result<(), String> {
        let id = optional_id(value, "id")?;
        let name = &value["default-clock-class-id"];
        let name = name.as_str().or_else(|| value["default-clock-class-name"].as_str());
        let clock = match name {
            Some(name) => {
                let clocks = &self.found.clocks;
                let index = clocks.iter().position(|clock| clock.id == name);
                Some(index.ok_or_else(|| format!("the clock {name:?} is not known"))?)
            }
            None => None,
        };
        let stream = StreamClass {
            packet_context: self.packet_context(value)?,
            event_header: self.scope(&value["event-record-header-field-class"])?,
            event_context: self.scope(&value["event-record-common-context-field-class"])?,
            clock,
            ..StreamClass::default()
        };
        if self.found.streams.insert(id, stream).is_some() {
            return Err(format!("stream {id} is there twice"));
        }
        Ok(())
    }

    fn event(&mut self, value: &Value) -> Result<(), String> {
        let id = optional_id(value, "id")?;
        let stream = optional_id(value, "data-stream-class-id")?;
        let attributes = value["attributes"].as_object();
        let level =
            attributes.into_iter().flatten().find_map(|(_, of)| log_level(&of["log-level"]));
        let event = EventClass {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            log_level: level,
            context: self.scope(&value["specific-context-field-class"])?,
            fields: self.scope(&value["payload-field-class"])?,
        };
        let stream = self.found.streams.get_mut(&stream);
        let stream = stream.ok_or("its stream is not known before it")?;
        if stream.events.insert(id, event).is_some() {
            return Err(format!("event {id} is there twice"));
        }
        Ok(())
    }

    /// The processor has no role: LTTng's name is all there is.
    fn packet_context(&mut self, stream: &Value) -> Result<Option<Type>, String> {
        let mut scope = self.scope(&stream["packet-context-field-class"])?;
        if let Some(context) = &mut scope {
            context.give_role("cpu_id", role::PROCESSOR);
        }
        Ok(scope)
    }

    fn scope(&mut self, value: &Value) -> Result<Option<Type>, String> {
        if value.is_null() { Ok(None) } else { self.class(value, 0).map(Some) }
    }

    fn class(&mut self, value: &Value, depth: usize) -> Result<Type, String> {
        if depth > DEPTH_MAX {
            return Err(format!("its types nest more than {DEPTH_MAX} levels"));
        }
        if let Some(name) = value.as_str() {
            let known = self.aliases.get(name);
            let known = known.ok_or_else(|| format!("{name:?} is no known type"))?;
            self.budget.take(known)?;
            return Ok(known.clone());
        }
        self.budget.one()?;
        let kind = value["type"].as_str().ok_or("a field class has no type")?;
        let align = |key: &str| match &value[key] {
            Value::Null => Ok(1),
            bits => alignment(bits.as_u64().unwrap_or(0)),
        };
        Ok(match kind {
            "fixed-length-unsigned-integer"
            | "fixed-length-signed-integer"
            | "fixed-length-bit-array"
            | "fixed-length-bit-map"
            | "fixed-length-boolean" => {
                let bits = number(value, "length")?;
                let bits = u32::try_from(bits).ok().filter(|bits| (1..=64).contains(bits));
                Type::Integer(Integer {
                    bits: bits.ok_or("an integer's length is not from 1 to 64 bits")?,
                    align: align("alignment")?,
                    order: order(value)?,
                    boolean: kind == "fixed-length-boolean",
                    ..self.integer(value, kind == "fixed-length-signed-integer")?
                })
            }
            "variable-length-unsigned-integer" | "variable-length-signed-integer" => {
                Type::Integer(self.integer(value, kind == "variable-length-signed-integer")?)
            }
            "fixed-length-floating-point-number" => {
                let bits = number(value, "length")?;
                let bits = u32::try_from(bits).ok().filter(|bits| [32, 64].contains(bits));
                Type::Float {
                    bits: bits.ok_or("a floating-point number has neither 32 nor 64 bits")?,
                    align: align("alignment")?,
                    order: order(value)?,
                }
            }
            "null-terminated-string" => Type::Text(encoding(value)?),
            "static-length-string" | "dynamic-length-string" => {
                Type::Bounded { length: length(value)?, encoding: encoding(value)? }
            }
            "static-length-blob" | "dynamic-length-blob" => Type::Blob {
                length: length(value)?,
                uuid: roles(value).any(|role| role == "metadata-stream-uuid"),
            },
            "structure" => {
                let mut fields = Vec::new();
                for member in value["member-classes"].as_array().into_iter().flatten() {
                    let name = member["name"].as_str().ok_or("a field has no name")?;
                    fields.push((name.to_owned(), self.class(&member["field-class"], depth + 1)?));
                }
                structure(fields, align("minimum-alignment")?)
            }
            "static-length-array" | "dynamic-length-array" => Type::Array {
                element: Box::new(self.class(&value["element-field-class"], depth + 1)?),
                length: length(value)?,
                align: align("minimum-alignment")?,
            },
            "variant" => {
                let mut arms = Vec::new();
                for option in value["options"].as_array().into_iter().flatten() {
                    arms.push(Arm {
                        name: option["name"].as_str().unwrap_or_default().to_owned(),
                        ranges: ranges(&option["selector-field-ranges"])?.into(),
                        value: self.class(&option["field-class"], depth + 1)?,
                    });
                }
                Type::Variant { tag: location(&value["selector-field-location"])?, arms }
            }
            "optional" => {
                let written = &value["selector-field-ranges"];
                // Without ranges the tag is a boolean.
                let ranges = if written.is_null() {
                    vec![(1, i128::MAX), (i128::MIN, -1)]
                } else {
                    ranges(written)?
                };
                Type::Optional {
                    tag: location(&value["selector-field-location"])?,
                    arm: Box::new(Arm {
                        name: String::new(),
                        ranges: OnceCell::from(ranges),
                        value: self.class(&value["field-class"], depth + 1)?,
                    }),
                }
            }
            _ => return Err(format!("{kind:?} is no known type of field class")),
        })
    }

    /// What integers of fixed and of variable length have in common.
    fn integer(&mut self, value: &Value, signed: bool) -> Result<Integer, String> {
        let mut found = 0;
        for name in roles(value) {
            found |= match name {
                "packet-magic-number" => role::MAGIC,
                "data-stream-class-id" => role::STREAM_CLASS,
                "data-stream-id" => role::STREAM_ID,
                "packet-total-length" => role::PACKET_SIZE,
                "packet-content-length" => role::CONTENT_SIZE,
                "packet-sequence-number" => role::SEQUENCE,
                "discarded-event-record-counter-snapshot" => role::DISCARDED,
                "packet-end-default-clock-timestamp" => role::END_TIME,
                "event-record-class-id" => role::EVENT_CLASS,
                "default-clock-timestamp" => role::CLOCK,
                _ => 0,
            };
        }
        let mut mappings = Vec::new();
        for (label, written) in value["mappings"].as_object().into_iter().flatten() {
            for (first, last) in ranges(written)? {
                self.budget.one()?;
                mappings.push(Mapping { label: label.clone(), first, last });
            }
        }
        Ok(Integer {
            bits: 0,
            align: 8,
            signed,
            order: Order::Little,
            text: false,
            boolean: false,
            roles: found,
            mappings,
            slot: Cell::new(0),
        })
    }
}

fn roles(value: &Value) -> impl Iterator<Item = &str> {
    value["roles"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn order(value: &Value) -> Result<Order, String> {
    let order = match value["byte-order"].as_str() {
        Some("little-endian") => Order::Little,
        Some("big-endian") => Order::Big,
        _ => return Err("byte-order is neither little-endian nor big-endian".to_owned()),
    };
    match (value["bit-order"].as_str(), order) {
        (None, _)
        | (Some("first-to-last"), Order::Little)
        | (Some("last-to-first"), Order::Big) => Ok(order),
        _ => Err("this bit-order is not read here".to_owned()),
    }
}

fn encoding(value: &Value) -> Result<Encoding, String> {
    Ok(match value["encoding"].as_str().unwrap_or("utf-8") {
        "utf-8" => Encoding::Utf8,
        "utf-16le" => Encoding::Utf16(Order::Little),
        "utf-16be" => Encoding::Utf16(Order::Big),
        "utf-32le" => Encoding::Utf32(Order::Little),
        "utf-32be" => Encoding::Utf32(Order::Big),
        other => return Err(format!("{other:?} is no known encoding")),
    })
}

fn length(value: &Value) -> Result<Length, String> {
    if value["length"].is_null() {
        Ok(Length::Field(location(&value["length-field-location"])?))
    } else {
        Ok(Length::Fixed(number(value, "length")?))
    }
}

fn location(value: &Value) -> Result<Location, String> {
    let scope = match value["origin"].as_str() {
        None => None,
        Some("packet-header") => Some(0),
        Some("packet-context") => Some(1),
        Some("event-record-header") => Some(2),
        Some("event-record-common-context") => Some(3),
        Some("event-record-specific-context") => Some(4),
        Some("event-record-payload") => Some(5),
        Some(other) => return Err(format!("{other:?} is no known origin")),
    };
    // Release candidates wrote the path alone.
    let path = value.get("path").unwrap_or(value).as_array().ok_or("a location has no path")?;
    if path.is_empty() || path.len() > DEPTH_MAX {
        return Err("a location's path is empty or too long".to_owned());
    }
    let path = path.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    Ok(Location { scope, path, slot: Cell::new(0) })
}

fn ranges(value: &Value) -> Result<Vec<(i128, i128)>, String> {
    let range = |range: &Value| Some((integer_of(range.get(0)?)?, integer_of(range.get(1)?)?));
    let written = value.as_array().into_iter().flatten();
    written.map(|value| range(value).ok_or_else(|| "a range is no pair".to_owned())).collect()
}

fn log_level(value: &Value) -> Option<u8> {
    if let Some(level) = value.as_u64() {
        return u8::try_from(level).ok();
    }
    let names = [
        "emergency",
        "alert",
        "critical",
        "error",
        "warning",
        "notice",
        "info",
        "debug:system",
        "debug:program",
        "debug:process",
        "debug:module",
        "debug:unit",
        "debug:function",
        "debug:line",
        "debug",
    ];
    let name = value.as_str()?;
    names.iter().position(|known| *known == name).and_then(|level| u8::try_from(level).ok())
}
