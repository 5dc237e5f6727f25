//! The lines of an export, read and checked before anything is changed.
//!
//! ```text
//!   file --lines--> blocks of 4,096 --> a thread for each processor: JSON, key, value --> all in the order of their keys, or what is wrong with the first few
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use weft_control::directory::{Key, Value};

use super::error::{Error, Result};
use crate::entry::{EntryLine, Heading};

/// A line of a file that is imported.
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) key: Key,
    pub(super) value: Value,
}

/// The lines of a file, in the order of their keys, of which each is there once.
pub(super) struct Lines(Vec<Line>);

impl Lines {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Line> {
        self.0.iter()
    }

    /// The line of a key.
    pub(super) fn get(&self, key: &Key) -> Option<&Line> {
        self.0.binary_search_by(|line| line.key.cmp(key)).ok().map(|at| &self.0[at])
    }
}

impl IntoIterator for Lines {
    type Item = Line;
    type IntoIter = std::vec::IntoIter<Line>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The lines of a file, or of the standard input; all are good, or the first few that are not are named.
pub(super) fn read(file: Option<&Path>) -> Result<Lines> {
    let file = file.filter(|file| *file != Path::new("-"));
    let name = file.unwrap_or_else(|| Path::new("standard input")).display().to_string();
    let reader: Box<dyn BufRead> = match file {
        Some(file) => Box::new(BufReader::new(File::open(file).map_err(|e| Error::io("read", file, e))?)),
        None => Box::new(io::stdin().lock()),
    };
    let mut heading = None;
    let mut entries = EntryReader::new(&name);
    for (at, line) in reader.lines().enumerate() {
        let line = line.map_err(|e| unreadable(&name, at + 1, &e))?;
        if at == 0 && line.contains("\"weft_directory\"") {
            heading =
                Some(read_heading(&line).map_err(|reason| Error::Content { place: format!("{name}:1"), reason, help: "" })?);
        } else if !entries.take(at + 1, line) {
            break;
        }
    }
    let lines = entries.finish()?;
    match heading {
        Some(heading) if heading.entries != lines.len() as u64 => {
            Err(Error::Incomplete { name, entries: lines.len(), declared: heading.entries })
        }
        _ => Ok(lines),
    }
}

/// A line that cannot be read.
pub(super) fn unreadable(name: &str, number: usize, error: &io::Error) -> Error {
    let place = format!("{name}:{number}");
    Error::Content { place, reason: error.to_string(), help: "an export is UTF-8 text, one entry per line" }
}

fn read_heading(line: &str) -> Result<Heading, String> {
    let heading: Heading = serde_json::from_str(line).map_err(|e| e.to_string())?;
    if heading.weft_directory == 1 {
        Ok(heading)
    } else {
        Err(format!("form {}; this program reads form 1", heading.weft_directory))
    }
}

/// Lines with their numbers.
type Block = Vec<(usize, String)>;

/// Reads entries line by line, in several threads, and keeps what is wrong with the first few that are.
pub(super) struct EntryReader<'a> {
    name: &'a str,
    block: Block,
    blocks: SyncSender<Block>,
    parsers: Vec<JoinHandle<Parsed>>,
    /// How many lines were wrong.
    wrong: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Parsed {
    lines: Vec<Line>,
    /// By number.
    wrong: Vec<(usize, String)>,
}

impl<'a> EntryReader<'a> {
    /// Of a file of this name.
    pub(super) fn new(name: &'a str) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (blocks, to_parse) = sync_channel(2 * threads);
        let (to_parse, wrong) = (Arc::new(Mutex::new(to_parse)), Arc::new(AtomicUsize::new(0)));
        let parser = |_| {
            let (to_parse, wrong) = (Arc::clone(&to_parse), Arc::clone(&wrong));
            std::thread::spawn(move || parse(&to_parse, &wrong))
        };
        Self { name, block: Vec::new(), blocks, parsers: (0..threads).map(parser).collect(), wrong }
    }

    /// Takes a line; false if so many were wrong that reading on is of no use.
    pub(super) fn take(&mut self, number: usize, line: String) -> bool {
        self.block.push((number, line));
        if self.block.len() == BLOCK {
            self.send();
        }
        self.wrong.load(Ordering::Relaxed) < MAX_ERRORS
    }

    fn send(&mut self) {
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        self.blocks.send(block).expect("parsers end when nothing comes any more");
    }

    /// All of them, if all were good.
    pub(super) fn finish(mut self) -> Result<Lines> {
        self.send();
        drop(self.blocks);
        let (mut lines, mut wrong) = (Vec::new(), Vec::new());
        for parser in self.parsers {
            let parsed = parser.join().expect("a parser does not panic");
            lines.extend(parsed.lines);
            wrong.extend(parsed.wrong);
        }
        lines.sort_by_key(|line| (line.key, line.number));
        let again = lines.windows(2).filter(|pair| pair[0].key == pair[1].key);
        wrong.extend(again.map(|pair| (pair[1].number, format!("{} stands on line {} already", pair[1].key, pair[0].number))));
        if wrong.is_empty() {
            return Ok(Lines(lines));
        }
        wrong.sort_unstable();
        let named = wrong.iter().take(MAX_ERRORS).map(|(number, why)| format!("{}:{number}: {why}", self.name));
        Err(Error::Lines(named.collect::<Vec<_>>().join("\n")))
    }
}

/// Parses blocks until there are no more.
fn parse(blocks: &Mutex<Receiver<Block>>, wrong: &AtomicUsize) -> Parsed {
    let mut parsed = Parsed::default();
    loop {
        // The lock is held only while this thread waits for a block.
        let block = blocks.lock().expect("no panic").recv();
        let Ok(block) = block else { return parsed };
        for (number, line) in block {
            if line.trim().is_empty() {
                continue;
            }
            match EntryLine::parse(&line) {
                Ok((key, value)) => parsed.lines.push(Line { number, key, value }),
                Err(why) => {
                    parsed.wrong.push((number, why));
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Lines that a thread parses at once.
const BLOCK: usize = 4096;
/// Lines that are named, of many that are wrong.
const MAX_ERRORS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str) -> String {
        format!("{{\"key\":\"{key}\",\"locator\":\"10.0.0.1\"}}")
    }

    fn read(lines: &[String]) -> Result<Lines> {
        let mut reader = EntryReader::new("all");
        for (at, line) in lines.iter().enumerate() {
            if !reader.take(at + 1, line.clone()) {
                break;
            }
        }
        reader.finish()
    }

    #[test]
    fn lines_of_many_blocks_are_in_the_order_of_their_keys() {
        let text = |n: usize| format!("100.0.{}.{}", n / 250, n % 250);
        let lines: Vec<String> = (0..10_000).map(|n| line(&text(n * 7 % 10_000))).collect();
        let all = read(&lines).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().is_sorted_by_key(|line| line.key));
        for n in [0, 1, 4_096, 9_999] {
            let found = all.get(&text(n * 7 % 10_000).parse().expect("a key")).expect("it is there");
            assert_eq!(found.number, n + 1);
        }
        assert!(all.get(&"99.0.0.1".parse().expect("a key")).is_none());
    }

    #[test]
    fn the_first_lines_that_are_wrong_are_named() {
        let mut lines: Vec<String> = (0..20_000).map(|n| line(&format!("100.{}.{}.1", n / 250, n % 250))).collect();
        lines[9_000] = lines[5_000].clone();
        lines[17_000] = "{}".to_owned();
        let error = read(&lines).map(|_| ()).expect_err("two are wrong").to_string();
        let twice = error.find("all:9001: 100.20.0.1 stands on line 5001 already");
        assert!(twice < error.find("all:17001: missing field `key`") && twice.is_some(), "{error}");
        lines.iter_mut().for_each(|line| line.clear());
        lines[3..].fill("junk".to_owned());
        let error = read(&lines).map(|_| ()).expect_err("nearly all are wrong").to_string();
        assert_eq!(error.matches("all:").count(), MAX_ERRORS, "{error}");
        assert!(error.contains("all:4: ") && error.contains("all:13: "), "{error}");
    }
}
