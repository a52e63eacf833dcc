//! A field of a JSON text that may be cut off.

/// The part of a body that is read, in bytes.
pub(crate) const LONGEST: usize = 16 * 1024;
/// The deepest nesting that is followed.
const DEEPEST: usize = 64;

/// The text or whole number of the field with these names, one below the other. Arrays are entered:
/// the first match counts.
pub(super) fn field(body: &[u8], names: &[String]) -> Option<String> {
    let mut scan = Scan { rest: &body[..body.len().min(LONGEST)] };
    scan.find(Some(names), 0).ok().flatten()
}

/// The first text or whole number of an array, or the value itself.
pub(super) fn first(json: &[u8]) -> Option<String> {
    field(json, &[])
}

/// What is left to read.
struct Scan<'a> {
    rest: &'a [u8],
}

/// The text ends, or is no JSON.
struct End;

impl Scan<'_> {
    fn next(&mut self) -> Result<u8, End> {
        let (byte, rest) = self.rest.split_first().ok_or(End)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Reads a value. Returns the field in it, if one is wanted and there.
    fn find(&mut self, names: Option<&[String]>, depth: usize) -> Result<Option<String>, End> {
        if depth > DEEPEST {
            return Err(End);
        }
        let is_wanted = names.is_some_and(<[String]>::is_empty);
        self.skip_spaces();
        match self.rest.first().ok_or(End)? {
            b'{' => self.object(names, depth),
            b'[' => self.array(names, depth),
            b'"' => self.text().map(|text| is_wanted.then_some(text)),
            _ => self.plain().map(|text| text.filter(|_| is_wanted)),
        }
    }

    fn object(&mut self, names: Option<&[String]>, depth: usize) -> Result<Option<String>, End> {
        self.next()?;
        loop {
            self.skip_spaces();
            match self.rest.first().ok_or(End)? {
                b'}' => {
                    self.next()?;
                    return Ok(None);
                }
                b',' => {
                    self.next()?;
                    continue;
                }
                b'"' => {}
                _ => return Err(End),
            }
            let name = self.text()?;
            self.skip_spaces();
            if self.next()? != b':' {
                return Err(End);
            }
            let below = names.and_then(<[String]>::split_first);
            let below = below.filter(|(wanted, _)| **wanted == name).map(|(_, below)| below);
            let found = self.find(below, depth + 1)?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn array(&mut self, names: Option<&[String]>, depth: usize) -> Result<Option<String>, End> {
        self.next()?;
        loop {
            self.skip_spaces();
            match self.rest.first().ok_or(End)? {
                b']' => {
                    self.next()?;
                    return Ok(None);
                }
                b',' => {
                    self.next()?;
                }
                _ => {
                    let found = self.find(names, depth + 1)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// A text. One that is cut off is none: a part of a key is another key.
    fn text(&mut self) -> Result<String, End> {
        self.next()?;
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return String::from_utf8(bytes).map_err(|_| End),
                b'\\' => {
                    let escaped = match self.next()? {
                        b'n' => '\n',
                        b't' => '\t',
                        b'r' => '\r',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => self.code()?,
                        other => char::from(other),
                    };
                    bytes.extend(escaped.encode_utf8(&mut [0; 4]).bytes());
                }
                byte => bytes.push(byte),
            }
        }
    }

    /// The character of `\uXXXX`, and of a pair of them.
    fn code(&mut self) -> Result<char, End> {
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).ok_or(End);
        }
        if (self.next()?, self.next()?) != (b'\\', b'u') {
            return Err(End);
        }
        let low = self.hex()?.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or(End)?;
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low).ok_or(End)
    }

    fn hex(&mut self) -> Result<u32, End> {
        let mut code = 0;
        for _ in 0..4 {
            code = code * 16 + char::from(self.next()?).to_digit(16).ok_or(End)?;
        }
        Ok(code)
    }

    /// A number or a word. Only whole numbers are keys.
    fn plain(&mut self) -> Result<Option<String>, End> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let length = self.rest.iter().position(|byte| !is_part(byte)).unwrap_or(self.rest.len());
        let (plain, rest) = self.rest.split_at(length);
        self.rest = rest;
        if plain.is_empty() {
            return Err(End);
        }
        let digits = plain.strip_prefix(b"-").unwrap_or(plain);
        // One that reaches the end may be cut off.
        let is_key =
            !rest.is_empty() && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        Ok(is_key.then(|| String::from_utf8_lossy(plain).into_owned()))
    }
}
