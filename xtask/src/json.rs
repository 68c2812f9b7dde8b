//! JSON as `cargo metadata` and `rustdoc` print it.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// `null`, `false`, and numbers that aren't integers from 0 to 2^64 - 1.
    Other,
    /// `true`
    True,
    /// An integer.
    Number(u64),
    /// Text.
    Text(String),
    /// `[...]`
    List(Vec<Json>),
    /// `{...}`, in the order of the text.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text that is one value.
    pub(crate) fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { text: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == text.len() { Ok(value) } else { Err(reader.wrong()) }
    }

    /// Returns a field of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text, if the value is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if the value is one.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Json::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the values of a list; an empty slice for other values.
    pub(crate) fn list(&self) -> &[Json] {
        match self {
            Json::List(values) => values,
            _ => &[],
        }
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

/// Maximum nesting, so that the parser can't overflow the stack.
const DEEPEST: usize = 100;

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEEPEST {
            return Err(self.wrong());
        }
        self.space();
        match self.text.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => Ok(self.other()),
            _ => Err(self.wrong()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut fields = Vec::new();
        self.separated(b'}', |reader| {
            reader.space();
            let name = reader.string()?;
            reader.expect(b':')?;
            fields.push((name, reader.value(depth + 1)?));
            Ok(())
        })?;
        Ok(Json::Object(fields))
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut values = Vec::new();
        self.separated(b']', |reader| {
            values.push(reader.value(depth + 1)?);
            Ok(())
        })?;
        Ok(Json::List(values))
    }

    /// Items with commas between them, from the opening bracket to the closing one.
    fn separated(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.at += 1;
        if self.take(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take(close) {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return String::from_utf8(bytes).map_err(|_| self.wrong()),
                b'\\' => self.escape(&mut bytes)?,
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let byte = match self.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'u' => {
                self.at += 4;
                b'?'
            }
            byte => byte,
        };
        bytes.push(byte);
        Ok(())
    }

    fn other(&mut self) -> Json {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let start = self.at;
        while self.text.get(self.at).is_some_and(is_part) {
            self.at += 1;
        }
        match std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default() {
            "true" => Json::True,
            word => word.parse().map_or(Json::Other, Json::Number),
        }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong()) }
    }

    fn next(&mut self) -> Result<u8, String> {
        let byte = self.text.get(self.at).copied().ok_or_else(|| self.wrong())?;
        self.at += 1;
        Ok(byte)
    }

    fn wrong(&self) -> String {
        format!("not JSON at byte {}", self.at)
    }
}

#[test]
fn parses_values() {
    let json = Json::parse(r#" {"a": [1, -2.5e3, "x\n\"y", null, {}], "b": {"c": "d"}, "e": []} "#).unwrap();
    assert_eq!(json.get("a").unwrap().list().len(), 5);
    assert_eq!(json.get("a").unwrap().list()[2].text(), Some("x\n\"y"));
    assert_eq!(json.get("b").and_then(|b| b.get("c")).and_then(Json::text), Some("d"));
    assert_eq!(json.get("a").unwrap().list()[0].number(), Some(1));
    assert_eq!(json.get("e"), Some(&Json::List(vec![])));
}

#[test]
fn rejects_other_text() {
    for text in ["", "{", "[1,", "{\"a\" 1}", "\"a", "[1] 2", "\"\\u12", "}", &"[".repeat(100_000)] {
        assert!(Json::parse(text).is_err(), "{}", &text[..text.len().min(20)]);
    }
}
