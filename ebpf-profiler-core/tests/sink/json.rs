//! JSON, read strictly enough to compare files with profiles.

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Returns a field.
    pub(crate) fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(fields) => fields.get(name).unwrap_or_else(|| unreachable!("no {name} in {self:?}")),
            other => unreachable!("{other:?} has no field {name}"),
        }
    }

    pub(crate) fn list(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            other => unreachable!("{other:?} is no list"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            other => unreachable!("{other:?} is no text"),
        }
    }

    pub(crate) fn number(&self) -> f64 {
        match self {
            Json::Number(number) => *number,
            other => unreachable!("{other:?} is no number"),
        }
    }

    pub(crate) fn index(&self) -> usize {
        let number = self.number();
        assert!(number >= 0.0 && number.fract() == 0.0, "{number} is no index");
        number as usize
    }
}

/// Parses a text that is one value.
pub(crate) fn parse(text: &str) -> Json {
    let mut rest = text;
    let value = value(&mut rest);
    assert_eq!(rest.trim_start(), "", "text behind the value");
    value
}

fn value(rest: &mut &str) -> Json {
    *rest = rest.trim_start();
    match rest.as_bytes().first() {
        Some(b'{') => {
            let mut fields = BTreeMap::new();
            items(rest, '}', |rest| {
                let name = string(rest);
                assert!(eat(rest, ':'), "no colon at {rest:.20}");
                assert!(fields.insert(name, value(rest)).is_none(), "a field twice at {rest:.20}");
            });
            Json::Object(fields)
        }
        Some(b'[') => {
            let mut list = Vec::new();
            items(rest, ']', |rest| list.push(value(rest)));
            Json::List(list)
        }
        Some(b'"') => Json::Text(string(rest)),
        _ => {
            let end = rest.find([',', ']', '}', '\n', ' ']).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            *rest = behind;
            match word {
                "null" => Json::Null,
                "true" | "false" => Json::Bool(word == "true"),
                _ => Json::Number(word.parse().unwrap_or_else(|_| unreachable!("{word:?} is no value"))),
            }
        }
    }
}

/// Reads the items of a list or an object.
fn items(rest: &mut &str, end: char, mut item: impl FnMut(&mut &str)) {
    *rest = &rest[1..];
    if eat(rest, end) {
        return;
    }
    loop {
        item(rest);
        if eat(rest, end) {
            return;
        }
        assert!(eat(rest, ','), "no comma at {rest:.20}");
    }
}

fn eat(rest: &mut &str, character: char) -> bool {
    *rest = rest.trim_start();
    let behind = rest.strip_prefix(character);
    *rest = behind.unwrap_or(rest);
    behind.is_some()
}

fn string(rest: &mut &str) -> String {
    assert!(eat(rest, '"'), "no string at {rest:.20}");
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                *rest = &rest[at + 1..];
                return text;
            }
            '\\' => match characters.next() {
                Some((at, 'u')) => {
                    let code = u32::from_str_radix(&rest[at + 1..at + 5], 16).expect("four digits");
                    text.push(char::from_u32(code).expect("no surrogate is written"));
                    characters.nth(3);
                }
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                other => unreachable!("{other:?} is no escape"),
            },
            _ => {
                assert!(!character.is_control(), "a control character in a string");
                text.push(character);
            }
        }
    }
    unreachable!("a string has no end")
}
