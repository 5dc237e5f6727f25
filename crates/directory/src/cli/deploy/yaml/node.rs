//! YAML as a tree whose nodes have places.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

/// A value of a document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The line that it begins on.
    pub span: Range<usize>,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Plain ones may be numbers, booleans or nothing.
    Scalar {
        text: String,
        is_plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub text: String,
    pub span: Range<usize>,
}

/// What is wrong with a document, and where.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Problem {
    pub message: String,
    pub span: Option<Range<usize>>,
}

impl Problem {
    /// At this place, unless it has one.
    pub fn or_at(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

type Result<T> = std::result::Result<T, Problem>;

impl Node {
    /// Reads the only document of a text; an empty text is an empty map.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::new(text);
        let mut document = None;
        while let Some((event, span)) = reader.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if document.is_some() => {
                    return Err(reader.problem(span.start, "an inventory is one document"));
                }
                Event::DocumentStart(_) => document = Some(reader.document()?),
                _ => return Err(reader.problem(span.start, "an inventory is one document")),
            }
        }
        Ok(document.unwrap_or(Self { span: 0..1, value: Value::Map(Vec::new()) }))
    }
}

/// Events, and what anchors name.
struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    /// Where each line begins.
    lines: Vec<usize>,
    anchors: BTreeMap<usize, Node>,
    /// Values that aliases stand for.
    copied: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Self { events: Parser::new_from_str(text), lines, anchors: BTreeMap::new(), copied: 0 }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(self.problem(*error.marker(), error.info())),
        }
    }

    fn some(&mut self) -> Result<(Event<'a>, Span)> {
        let end = Problem { message: "the text ends too early".to_owned(), span: None };
        self.next()?.ok_or(end)
    }

    /// The line of a place.
    fn line(&self, at: Marker) -> Range<usize> {
        let start = self.lines.get(at.line().saturating_sub(1)).or(self.lines.last()).copied().unwrap_or(0);
        start..start + 1
    }

    fn problem(&self, at: Marker, message: &str) -> Problem {
        Problem { message: message.to_owned(), span: Some(self.line(at)) }
    }

    fn document(&mut self) -> Result<Node> {
        let event = self.some()?;
        self.node(event, 0)
    }

    fn node(&mut self, (event, span): (Event<'a>, Span), depth: usize) -> Result<Node> {
        let at = span.start;
        if depth > DEPTH_MAX {
            return Err(self.problem(at, "nested too deeply"));
        }
        let (value, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                (Value::Scalar { text: text.into_owned(), is_plain }, anchor, tag)
            }
            Event::SequenceStart(anchor, tag, ..) => (self.list(depth)?, anchor, tag),
            Event::MappingStart(anchor, tag, ..) => (self.map(depth)?, anchor, tag),
            Event::Alias(anchor) => return self.alias(anchor, at),
            _ => return Err(self.problem(at, "a value is missing")),
        };
        if tag.is_some() {
            return Err(self.problem(at, "tags are not read"));
        }
        let node = Node { span: self.line(at), value };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        let mut list = Vec::new();
        loop {
            match self.some()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(list)),
                event => list.push(self.node(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value> {
        let (mut map, mut seen) = (Vec::new(), BTreeSet::new());
        loop {
            let key = match self.some()? {
                (Event::MappingEnd, _) => return Ok(Value::Map(map)),
                (Event::Scalar(text, ..), span) => Key { text: text.into_owned(), span: self.line(span.start) },
                (_, span) => return Err(self.problem(span.start, "a key is a word")),
            };
            if !seen.insert(key.text.clone()) {
                return Err(Problem { message: format!("`{}` is there twice", key.text), span: Some(key.span) });
            }
            let event = self.some()?;
            map.push((key, self.node(event, depth + 1)?));
        }
    }

    /// A copy of what an anchor names. A short text with aliases can stand for a very long one.
    fn alias(&mut self, anchor: usize, at: Marker) -> Result<Node> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(self.problem(at, "an alias of what it is itself a part of"));
        };
        self.copied += size(node);
        if self.copied > COPIED_MAX {
            return Err(self.problem(at, &format!("aliases stand for more than {COPIED_MAX} values")));
        }
        Ok(Node { span: self.line(at), value: node.value.clone() })
    }
}

/// Values in a node, itself included.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|(_, it)| size(it)).sum::<usize>(),
    }
}

const DEPTH_MAX: usize = 64;
const COPIED_MAX: usize = 100_000;
