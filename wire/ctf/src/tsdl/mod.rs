//! The metadata language of CTF 1.8.

mod tokens;

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;

use crate::metadata::{Clock, EventClass, Metadata, StreamClass};
use crate::types::{
    Arm, Budget, DEPTH_MAX, Encoding, Integer, Length, Location, Mapping, Order, Type, alignment,
    role, structure,
};
use tokens::{Token, at, tokens};

/// What stands behind a `=`.
#[derive(Debug, Clone)]
enum Setting {
    Number(i128),
    Text(String),
    /// Names with dots between them.
    Name(String),
    Type(Type),
}

/// # Errors
/// If the text is no TSDL, or its types make no sense.
pub(crate) fn parse(text: &str) -> Result<Metadata, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
        aliases: vec![HashMap::new()],
        budget: Budget::default(),
        found: Metadata::default(),
        streams: Vec::new(),
    };
    while parser.at < tokens.len() {
        parser.declaration()?;
    }
    Ok(parser.found)
}

struct Parser<'a> {
    tokens: &'a [(Token, u32)],
    at: usize,
    depth: usize,
    /// Named types, by `struct x`, `enum x`, `variant x` or their own words; inner blocks last.
    aliases: Vec<HashMap<String, Type>>,
    budget: Budget,
    found: Metadata,
    streams: Vec<u64>,
}

type Block = Vec<(String, Setting)>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn wrong(&self, problem: impl AsRef<str>) -> String {
        let place = self.at.min(self.tokens.len().saturating_sub(1));
        at(self.tokens.get(place).map_or(1, |(_, line)| *line), problem.as_ref())
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(found)) if *found == mark)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == name)
    }

    fn take(&mut self, mark: &str) -> bool {
        let is = self.is(mark);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.take(mark) { Ok(()) } else { Err(self.wrong(format!("{mark} is missing"))) }
    }

    fn name(&mut self) -> Result<String, String> {
        let Some(Token::Name(name)) = self.peek() else {
            return Err(self.wrong("a name is missing"));
        };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    fn number(&mut self) -> Result<i128, String> {
        let minus = self.take("-");
        let Some(Token::Number(number)) = self.peek() else {
            return Err(self.wrong("a number is missing"));
        };
        let number = *number;
        self.at += 1;
        Ok(if minus { -number } else { number })
    }

    /// One level deeper.
    fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(format!("its types nest more than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        self.aliases.push(HashMap::new());
        let result = parse(self);
        self.aliases.pop();
        self.depth -= 1;
        result
    }

    fn declaration(&mut self) -> Result<(), String> {
        let Some(Token::Name(word)) = self.peek() else {
            if self.take(";") {
                return Ok(());
            }
            return Err(self.wrong("a declaration is missing"));
        };
        let is_block = matches!(self.tokens.get(self.at + 1), Some((Token::Mark("{"), _)));
        match word.clone().as_str() {
            word @ ("trace" | "env" | "clock" | "stream" | "event" | "callsite") if is_block => {
                self.at += 1;
                let block = self.block()?;
                self.take(";");
                let stored = match word {
                    "trace" => self.trace(block),
                    "env" => self.environment(block),
                    "clock" => self.clock(block),
                    "stream" => self.stream(block),
                    "event" => self.event(block),
                    _ => Ok(()),
                };
                stored.map_err(|problem| self.wrong(problem))
            }
            _ => self.type_declaration(),
        }
    }

    /// `typealias`, `typedef`, or a named structure, enumeration or variant.
    fn type_declaration(&mut self) -> Result<(), String> {
        if self.is_name("typealias") {
            self.at += 1;
            let value = self.type_words(&[":="])?;
            self.expect(":=")?;
            let mut words = Vec::new();
            while !self.is(";") {
                words.push(if self.take("*") { "*".to_owned() } else { self.name()? });
            }
            self.at += 1;
            return self.register(words.join(" "), value);
        }
        if self.is_name("typedef") {
            self.at += 1;
            let value = self.type_of_field()?;
            loop {
                let (name, value) = self.declarator(value.clone())?;
                self.register(name, value)?;
                if !self.take(",") {
                    break;
                }
            }
            return self.expect(";");
        }
        self.type_of_field()?;
        self.expect(";")
    }

    fn register(&mut self, name: String, value: Type) -> Result<(), String> {
        self.budget.take(&value).map_err(|problem| self.wrong(problem))?;
        if let Some(inner) = self.aliases.last_mut() {
            inner.insert(name, value);
        }
        Ok(())
    }

    fn named(&mut self, name: &str) -> Result<Type, String> {
        let found = self.aliases.iter().rev().find_map(|aliases| aliases.get(name));
        let found = found.ok_or_else(|| self.wrong(format!("{name:?} is no known type")))?;
        self.budget.take(found).map_err(|problem| self.wrong(problem))?;
        Ok(found.clone())
    }

    /// `{ key = value; name := type; … }`
    fn block(&mut self) -> Result<Block, String> {
        self.expect("{")?;
        self.deeper(|this| {
            let mut settings = Vec::new();
            while !this.take("}") {
                if this.take(";") {
                    continue;
                }
                if ["typealias", "typedef", "struct", "variant", "enum"]
                    .iter()
                    .any(|word| this.is_name(word))
                {
                    this.type_declaration()?;
                    continue;
                }
                let key = this.dotted()?;
                let setting = if this.take(":=") {
                    Setting::Type(this.type_words(&[";"])?)
                } else {
                    this.expect("=")?;
                    this.setting()?
                };
                this.expect(";")?;
                settings.push((key, setting));
            }
            Ok(settings)
        })
    }

    fn dotted(&mut self) -> Result<String, String> {
        let mut name = self.name()?;
        while self.take(".") {
            name.push('.');
            name.push_str(&self.name()?);
        }
        Ok(name)
    }

    fn setting(&mut self) -> Result<Setting, String> {
        match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(Setting::Text(text))
            }
            Some(Token::Name(_)) => self.dotted().map(Setting::Name),
            _ => self.number().map(Setting::Number),
        }
    }

    /// A type that ends before one of these marks.
    fn type_words(&mut self, ends: &[&str]) -> Result<Type, String> {
        if let Some(value) = self.written_type()? {
            return Ok(value);
        }
        let mut words = Vec::new();
        while !ends.iter().any(|end| self.is(end)) {
            words.push(if self.take("*") { "*".to_owned() } else { self.name()? });
        }
        self.named(&words.join(" "))
    }

    /// A field's type: its last name is the field's.
    fn type_of_field(&mut self) -> Result<Type, String> {
        if let Some(value) = self.written_type()? {
            return Ok(value);
        }
        let mut words = vec![self.name()?];
        while matches!(self.tokens.get(self.at + 1), Some((Token::Name(_), _))) {
            words.push(self.name()?);
        }
        self.named(&words.join(" "))
    }

    /// A type that is written out, or a reference to a structure, enumeration or variant.
    fn written_type(&mut self) -> Result<Option<Type>, String> {
        let Some(Token::Name(word)) = self.peek() else {
            return Err(self.wrong("a type is missing"));
        };
        let word = word.clone();
        self.budget.one().map_err(|problem| self.wrong(problem))?;
        let value = match word.as_str() {
            "integer" => {
                self.at += 1;
                let block = self.block()?;
                integer(&block).map(Type::Integer).map_err(|problem| self.wrong(problem))?
            }
            "floating_point" => {
                self.at += 1;
                let block = self.block()?;
                float(&block).map_err(|problem| self.wrong(problem))?
            }
            "string" => {
                self.at += 1;
                if self.is("{") {
                    self.block()?;
                }
                Type::Text(Encoding::Utf8)
            }
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            "enum" => self.enumeration()?,
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    /// The name behind `struct`, `enum` or `variant`.
    fn optional_name(&mut self, word: &str) -> Result<Option<String>, String> {
        self.at += 1;
        match self.peek() {
            Some(Token::Name(_)) => Ok(Some(format!("{word} {}", self.name()?))),
            _ => Ok(None),
        }
    }

    fn reference(&mut self, name: Option<&str>) -> Result<Type, String> {
        match name {
            Some(name) => self.named(name),
            None => Err(self.wrong("{ is missing")),
        }
    }

    fn structure(&mut self) -> Result<Type, String> {
        let name = self.optional_name("struct")?;
        if !self.is("{") {
            return self.reference(name.as_deref());
        }
        let fields = self.fields()?;
        let mut align = 1;
        if self.is_name("align") {
            self.at += 1;
            self.expect("(")?;
            let bits = u64::try_from(self.number()?).unwrap_or(0);
            align = alignment(bits).map_err(|problem| self.wrong(problem))?;
            self.expect(")")?;
        }
        let value = structure(fields, align);
        if let Some(name) = name {
            self.register(name, value.clone())?;
        }
        Ok(value)
    }

    /// `{ type name[2], other; … }`
    fn fields(&mut self) -> Result<Vec<(String, Type)>, String> {
        self.expect("{")?;
        self.deeper(|this| {
            let mut fields = Vec::new();
            while !this.take("}") {
                if this.is_name("typealias") || this.is_name("typedef") {
                    this.type_declaration()?;
                    continue;
                }
                let value = this.type_of_field()?;
                if this.take(";") {
                    continue; // a named type's declaration
                }
                loop {
                    let declared = this.declarator(value.clone())?;
                    if !this.is(",") {
                        fields.push(declared);
                        break;
                    }
                    this.budget.take(&value).map_err(|problem| this.wrong(problem))?;
                    fields.push(declared);
                    this.at += 1;
                }
                this.expect(";")?;
            }
            Ok(fields)
        })
    }

    /// A name and lengths of arrays; the last is the innermost.
    fn declarator(&mut self, value: Type) -> Result<(String, Type), String> {
        let name = self.name()?;
        let mut lengths = Vec::new();
        while self.take("[") {
            let length = if let Some(Token::Name(_)) = self.peek() {
                Length::Field(location(&self.dotted()?))
            } else {
                let number = self.number()?;
                Length::Fixed(u64::try_from(number).map_err(|_| self.wrong("a length below 0"))?)
            };
            self.expect("]")?;
            lengths.push(length);
            if lengths.len() > DEPTH_MAX {
                return Err(self.wrong("too many dimensions"));
            }
        }
        let mut value = value;
        for length in lengths.into_iter().rev() {
            self.budget.one().map_err(|problem| self.wrong(problem))?;
            value = match value {
                Type::Integer(integer)
                    if integer.text && integer.bits == 8 && integer.align == 8 =>
                {
                    Type::Bounded { length, encoding: Encoding::Utf8 }
                }
                value => Type::Array { element: Box::new(value), length, align: 1 },
            };
        }
        Ok((name, value))
    }

    fn variant(&mut self) -> Result<Type, String> {
        let name = self.optional_name("variant")?;
        let mut tag = None;
        if self.take("<") {
            tag = Some(location(&self.dotted()?));
            self.expect(">")?;
        }
        if !self.is("{") {
            let mut value = self.reference(name.as_deref())?;
            if let (Type::Variant { tag: known, .. }, Some(tag)) = (&mut value, tag) {
                *known = tag;
            }
            return Ok(value);
        }
        let arm = |(name, value)| Arm { name, ranges: OnceCell::new(), value };
        let arms = self.fields()?.into_iter().map(arm).collect();
        let value = Type::Variant { tag: tag.unwrap_or_default(), arms };
        if let Some(name) = name {
            self.register(name, value.clone())?;
        }
        Ok(value)
    }

    fn enumeration(&mut self) -> Result<Type, String> {
        let name = self.optional_name("enum")?;
        let mut container = None;
        if self.take(":") {
            container = Some(self.type_words(&["{"])?);
        } else if !self.is("{") {
            return self.reference(name.as_deref());
        }
        let container = match container {
            Some(container) => container,
            None => self.named("int")?,
        };
        let Type::Integer(mut integer) = container else {
            return Err(self.wrong("an enumeration is of integers"));
        };
        self.expect("{")?;
        let mut next = 0;
        while !self.take("}") {
            let label = if let Some(Token::Text(text)) = self.peek() {
                let text = text.clone();
                self.at += 1;
                text
            } else {
                self.name()?
            };
            let (mut first, mut last) = (next, next);
            if self.take("=") {
                first = self.number()?;
                last = if self.take("...") { self.number()? } else { first };
            }
            next = last + 1;
            self.budget.one().map_err(|problem| self.wrong(problem))?;
            integer.mappings.push(Mapping { label, first, last });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        let value = Type::Integer(integer);
        if let Some(name) = name {
            self.register(name, value.clone())?;
        }
        Ok(value)
    }

    // ---- blocks ----------------------------------------------------------------------------

    fn trace(&mut self, block: Block) -> Result<(), String> {
        for (key, setting) in block {
            match (key.as_str(), setting) {
                ("byte_order", Setting::Name(name)) => {
                    self.found.big_endian = match name.as_str() {
                        "le" => false,
                        "be" | "network" => true,
                        _ => return Err(format!("byte_order = {name} is not le or be")),
                    };
                }
                ("uuid", Setting::Text(text)) => self.found.uuid = Some(uuid(&text)?),
                ("packet.header", Setting::Type(mut value)) => {
                    for (name, role) in [
                        ("magic", role::MAGIC),
                        ("stream_id", role::STREAM_CLASS),
                        ("stream_instance_id", role::STREAM_ID),
                    ] {
                        value.give_role(name, role);
                    }
                    if let Some(Type::Array { length: Length::Fixed(16), .. }) =
                        value.field_mut("uuid")
                        && let Some(field) = value.field_mut("uuid")
                    {
                        *field = Type::Blob { length: Length::Fixed(16), uuid: true };
                    }
                    self.found.packet_header = Some(value);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn environment(&mut self, block: Block) -> Result<(), String> {
        for (key, setting) in block {
            let value = match setting {
                Setting::Number(number) => number.to_string(),
                Setting::Text(text) | Setting::Name(text) => text,
                Setting::Type(_) => continue,
            };
            self.found.environment.insert(key, value);
        }
        Ok(())
    }

    fn clock(&mut self, block: Block) -> Result<(), String> {
        let mut clock = Clock::default();
        for (key, setting) in block {
            match (key.as_str(), setting) {
                ("name", Setting::Name(name) | Setting::Text(name)) => clock.id = name,
                ("freq", Setting::Number(number)) => {
                    clock.ticks_per_second =
                        u64::try_from(number).ok().filter(|ticks| *ticks > 0).ok_or("freq is 0")?;
                }
                ("offset_s", Setting::Number(number)) => clock.offset_seconds = number,
                ("offset", Setting::Number(number)) => clock.offset_ticks = number,
                _ => {}
            }
        }
        self.found.clocks.push(clock);
        Ok(())
    }

    fn stream(&mut self, block: Block) -> Result<(), String> {
        let (mut id, mut stream) = (0, StreamClass::default());
        for (key, setting) in block {
            match (key.as_str(), setting) {
                ("id", Setting::Number(number)) => {
                    id = u64::try_from(number).map_err(|_| "a stream's id is below 0")?;
                }
                ("packet.context", Setting::Type(mut value)) => {
                    for (name, role) in [
                        ("packet_size", role::PACKET_SIZE),
                        ("content_size", role::CONTENT_SIZE),
                        ("packet_seq_num", role::SEQUENCE),
                        ("events_discarded", role::DISCARDED),
                        ("cpu_id", role::PROCESSOR),
                    ] {
                        value.give_role(name, role);
                    }
                    if let Some(Type::Integer(end)) = value.field_mut("timestamp_end") {
                        // The clock is there only when the packet ends.
                        end.roles = end.roles & !role::CLOCK | role::END_TIME;
                    }
                    stream.packet_context = Some(value);
                }
                ("event.header", Setting::Type(mut value)) => {
                    value.give_role("id", role::EVENT_CLASS);
                    stream.event_header = Some(value);
                }
                ("event.context", Setting::Type(value)) => stream.event_context = Some(value),
                _ => {}
            }
        }
        if self.streams.contains(&id) {
            return Err(format!("stream {id} is there twice"));
        }
        self.streams.push(id);
        // Its events may have come before it.
        let known = self.found.streams.entry(id).or_default();
        stream.events = std::mem::take(&mut known.events);
        *known = stream;
        Ok(())
    }

    fn event(&mut self, block: Block) -> Result<(), String> {
        let (mut id, mut stream) = (0, 0);
        let mut event = EventClass::default();
        for (key, setting) in block {
            let number = |number| u64::try_from(number).map_err(|_| "an event's id is below 0");
            match (key.as_str(), setting) {
                ("name", Setting::Name(name) | Setting::Text(name)) => event.name = name,
                ("id", Setting::Number(value)) => id = number(value)?,
                ("stream_id", Setting::Number(value)) => stream = number(value)?,
                ("loglevel", Setting::Number(value)) => event.log_level = u8::try_from(value).ok(),
                ("context", Setting::Type(value)) => event.context = Some(value),
                ("fields", Setting::Type(value)) => event.fields = Some(value),
                _ => {}
            }
        }
        let stream = self.found.streams.entry(stream).or_default();
        if stream.events.insert(id, event).is_some() {
            return Err(format!("event {id} is there twice"));
        }
        Ok(())
    }
}

const SCOPES: [&str; 6] = [
    "trace.packet.header",
    "stream.packet.context",
    "stream.event.header",
    "stream.event.context",
    "event.context",
    "event.fields",
];

fn location(text: &str) -> Location {
    let found = SCOPES.iter().enumerate().find_map(|(index, scope)| {
        let rest = text.strip_prefix(scope)?.strip_prefix('.')?;
        Some((index, rest))
    });
    let (scope, rest) = found.map_or((None, text), |(index, rest)| (Some(index), rest));
    let path = rest.split('.').map(|name| Some(name.to_owned())).collect();
    Location { scope, path, slot: Cell::new(0) }
}

fn order(name: &str) -> Result<Order, String> {
    match name {
        "native" => Ok(Order::Native),
        "le" => Ok(Order::Little),
        "be" | "network" => Ok(Order::Big),
        _ => Err(format!("byte_order = {name} is not native, le, be or network")),
    }
}

fn integer(block: &Block) -> Result<Integer, String> {
    let mut found = Integer {
        bits: 0,
        align: 0,
        signed: false,
        order: Order::Native,
        text: false,
        boolean: false,
        roles: 0,
        mappings: Vec::new(),
        slot: Cell::new(0),
    };
    for (key, setting) in block {
        match (key.as_str(), setting) {
            ("size", Setting::Number(number)) => {
                found.bits = u32::try_from(*number).unwrap_or(0);
            }
            ("align", Setting::Number(number)) => {
                found.align = alignment(u64::try_from(*number).unwrap_or(0))?;
            }
            ("signed", Setting::Number(number)) => found.signed = *number != 0,
            ("signed", Setting::Name(name)) => {
                found.signed = matches!(name.as_str(), "true" | "TRUE");
            }
            ("byte_order", Setting::Name(name)) => found.order = order(name)?,
            ("encoding", Setting::Name(name)) => {
                found.text = matches!(name.as_str(), "UTF8" | "ASCII" | "utf8" | "ascii");
            }
            ("map", Setting::Name(_)) => found.roles |= role::CLOCK,
            _ => {}
        }
    }
    if !(1..=64).contains(&found.bits) {
        return Err("an integer's size is not from 1 to 64 bits".to_owned());
    }
    if found.align == 0 {
        found.align = if found.bits.is_multiple_of(8) { 8 } else { 1 };
    }
    Ok(found)
}

fn float(block: &Block) -> Result<Type, String> {
    let (mut exponent, mut mantissa, mut align, mut by) = (0, 0, 0, Order::Native);
    for (key, setting) in block {
        match (key.as_str(), setting) {
            ("exp_dig", Setting::Number(number)) => exponent = *number,
            ("mant_dig", Setting::Number(number)) => mantissa = *number,
            ("align", Setting::Number(number)) => {
                align = alignment(u64::try_from(*number).unwrap_or(0))?;
            }
            ("byte_order", Setting::Name(name)) => by = order(name)?,
            _ => {}
        }
    }
    let bits = match (exponent, mantissa) {
        (8, 24) => 32,
        (11, 53) => 64,
        _ => return Err("a floating_point is neither of 32 nor of 64 bits".to_owned()),
    };
    Ok(Type::Float { bits, align: if align == 0 { 8 } else { align }, order: by })
}

/// # Errors
/// If it is no UUID.
pub(crate) fn uuid(text: &str) -> Result<[u8; 16], String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digits = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).map_err(|_| format!("{text:?} is no UUID"))?;
    }
    if digits.len() == 32 { Ok(bytes) } else { Err(format!("{text:?} is no UUID")) }
}
