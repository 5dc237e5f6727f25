//! The status as people read it. Whatever role the agent has, its status has a verdict, a summary, checks and lists of objects.

use std::fmt::Write;

use comfy_table::{Table, presets};
use serde_json::{Map, Value};

/// The first line is the verdict; then checks that are not well, lists as tables, and counters that are not 0.
pub(super) fn status(status: &Value) -> String {
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let mut out = format!("{}: {}\n", text("verdict"), text("summary"));
    for problem in status["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "  {problem}");
    }
    let Some(object) = status.as_object() else { return out };
    for (name, value) in object {
        let list = value.get("list").unwrap_or(value);
        if let Some(rows) = list.as_array().filter(|rows| rows.first().is_some_and(Value::is_object)) {
            let _ = write!(out, "\n{name}\n{}\n", table(rows));
        }
    }
    for name in ["counters", "drops"] {
        let counted: Vec<String> = status[name].as_object().into_iter().flatten().filter_map(counted).collect();
        if !counted.is_empty() {
            let _ = writeln!(out, "\n{name}: {}", counted.join(", "));
        }
    }
    out
}

fn counted((name, value): (&String, &Value)) -> Option<String> {
    let value = value.as_u64().filter(|&value| value > 0)?;
    Some(format!("{name} {value}"))
}

fn table(rows: &[Value]) -> Table {
    let empty = Map::new();
    let columns: Vec<&String> = rows[0].as_object().unwrap_or(&empty).keys().collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(&columns);
    for row in rows {
        table.add_row(columns.iter().map(|column| match &row[column.as_str()] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            other => other.to_string(),
        }));
    }
    table
}
