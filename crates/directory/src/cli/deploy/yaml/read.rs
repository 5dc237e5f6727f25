//! Values of serde's types from nodes; those of `Spanned` with their places.

use std::fmt::Display;
use std::ops::Range;

use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_spanned::de::{SpannedDeserializer, is_spanned};

use super::node::{Key, Node, Problem, Value};

type Result<T> = std::result::Result<T, Problem>;

impl Error for Problem {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None }
    }
}

impl IntoDeserializer<'_, Problem> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Node {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.value {
            Value::Scalar { text, is_plain: false } => visitor.visit_string(text),
            Value::Scalar { text, is_plain: true } => visit_plain(text, visitor),
            Value::List(list) => visitor.visit_seq(List(list.into_iter())),
            Value::Map(map) => visitor.visit_map(Map { rest: map.into_iter(), value: None }),
        }
    }

    fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, is_plain: true } if NULL.contains(&text.as_str()))
    }
}

/// As YAML's core schema has it: only `true` and `false` are booleans.
fn visit_plain<'de, V: Visitor<'de>>(text: String, visitor: V) -> Result<V::Value> {
    let is_number = text.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it));
    match text.as_str() {
        it if NULL.contains(&it) => visitor.visit_unit(),
        "true" | "True" | "TRUE" => visitor.visit_bool(true),
        "false" | "False" | "FALSE" => visitor.visit_bool(false),
        it if is_number => match (it.parse::<i64>(), it.parse::<f64>()) {
            (Ok(number), _) => visitor.visit_i64(number),
            (_, Ok(number)) => visitor.visit_f64(number),
            _ => visitor.visit_string(text),
        },
        _ => visitor.visit_string(text),
    }
}

const NULL: [&str; 5] = ["", "~", "null", "Null", "NULL"];

impl<'de> Deserializer<'de> for Node {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let span = self.span.clone();
        self.visit(visitor).map_err(|problem| problem.or_at(&span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(self, name: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        if !is_spanned(name) {
            return self.deserialize_any(visitor);
        }
        let span = self.span.clone();
        visitor.visit_map(SpannedDeserializer::new(self, span.clone())).map_err(|problem| problem.or_at(&span))
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        let span = self.span;
        match self.value {
            Value::Scalar { text, .. } => visitor.visit_enum(in_text(text)),
            _ => Err(Problem::custom("expected one word")),
        }
        .map_err(|problem| problem.or_at(&span))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

fn in_text(text: String) -> StringDeserializer<Problem> {
    text.into_deserializer()
}

struct List(std::vec::IntoIter<Node>);

impl<'de> SeqAccess<'de> for List {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        self.0.next().map(|node| at(node, seed)).transpose()
    }
}

struct Map {
    rest: std::vec::IntoIter<(Key, Node)>,
    value: Option<Node>,
}

impl<'de> MapAccess<'de> for Map {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let Some((Key { text, span }, node)) = self.rest.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(in_text(text)).map(Some).map_err(|problem: Problem| problem.or_at(&span))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        self.value.take().map_or_else(|| Err(Problem::custom("a value is missing")), |node| at(node, seed))
    }
}

fn at<'de, S: DeserializeSeed<'de>>(node: Node, seed: S) -> Result<S::Value> {
    let span: Range<usize> = node.span.clone();
    seed.deserialize(node).map_err(|problem| problem.or_at(&span))
}
