//! What Weft makes of OpenFlow messages, for tests against another implementation: `python/tests/test_openflow.py`.
//!
//! ```text
//!   stdin:   a message a line, in hexadecimal
//!   stdout:  for each  used HEX     it is understood; emitted from what was read
//!                      kept HEX     a message, action or other part that Weft does not use is kept as bytes
//!                      error TEXT
//! ```
//! With the argument `flows`, it prints the messages that Weft's scheduler sends, a line each: the name, the bytes.

use std::io::{self, BufRead, Write};

use weft_control::openflow::{Header, Message, Version};

#[path = "../tests/openflow/flows.rs"]
mod flows;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    if std::env::args().nth(1).is_some_and(|it| it == "flows") {
        for (version, name, body) in flows::named() {
            let mut bytes = Vec::new();
            Message { xid: 5, body }.emit(version, &mut bytes).map_err(io::Error::other)?;
            writeln!(out, "{name} {}", hex(&bytes))?;
        }
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        match answer(&line?) {
            Ok(line) => writeln!(out, "{line}")?,
            Err(error) => writeln!(out, "error {error}")?,
        }
    }
    Ok(())
}

fn answer(line: &str) -> Result<String, Box<dyn std::error::Error>> {
    let digits: Vec<char> = line.trim().chars().collect();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16));
    let bytes: Vec<u8> = pairs.collect::<Result<_, _>>()?;
    let version = Version::from_wire(Header::parse(&bytes)?.version).ok_or("a version that Weft does not speak")?;
    let message = Message::parse(version, &bytes)?;
    let mut emitted = Vec::new();
    message.emit(version, &mut emitted)?;
    let word = if format!("{message:?}").contains("Other") { "kept" } else { "used" };
    Ok(format!("{word} {}", hex(&emitted)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
