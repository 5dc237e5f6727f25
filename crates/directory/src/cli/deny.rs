//! `deny`: principals whose keys and certificates no server accepts any more.

use clap::Args;
use weft_control::directory::PrincipalId;
use weft_control::directory::denied::{self, DOCUMENT};

use super::connect::ConnectArgs;
use super::documents::{replace, version_of};
use super::error::{Error, Result};
use crate::client::{Client, Fetched, split};
use crate::daemon::command_line::{print_json, print_text};

#[derive(Debug, Args)]
pub struct DenyArgs {
    /// Principals to deny; without any, print the denied ones
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    principals: Vec<u32>,
    /// Accept these principals again
    #[arg(long, requires = "principals")]
    lift: bool,
    /// Comment to store in the list
    #[arg(long, value_name = "TEXT", conflicts_with = "lift", requires = "principals")]
    reason: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints the list, or changes it.
pub fn run(args: &DenyArgs) -> Result<bool> {
    // Each part has a list of its own, in its store.
    let parts = split(&args.connect.settings()?)?;
    for part in &parts {
        let (version, text, principals) = run_in(&mut Client::new(part.settings.clone())?, args)?;
        report(args, part.name.as_deref(), version, &text, principals)?;
    }
    Ok(true)
}

/// The list of one part afterwards: its version and text, and those who are denied.
fn run_in(client: &mut Client, args: &DenyArgs) -> Result<(u32, String, Vec<u32>)> {
    let held = client.document(DOCUMENT, 0)?.0;
    let text = match &held {
        Fetched::Document { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
        Fetched::None | Fetched::Known => String::new(),
    };
    let mut version = version_of(&held);
    let next = changed(&text, args);
    let list = denied::parse(&next).map_err(|error| Error::Content {
        place: format!("the document `{DOCUMENT}`"),
        reason: error.to_string(),
        help: "correct it with `weft directory fetch` and `publish`",
    })?;
    if next != text {
        version = version.checked_add(1).ok_or(Error::LastVersion)?;
        replace(client, DOCUMENT, &held, version, next.as_bytes())?;
    }
    let mut principals: Vec<u32> = list.iter().map(|principal| principal.0).collect();
    principals.sort_unstable();
    Ok((version, next, principals))
}

fn report(args: &DenyArgs, part: Option<&str>, version: u32, text: &str, principals: Vec<u32>) -> Result<()> {
    let of_part = part.map(|part| format!("part {part}: ")).unwrap_or_default();
    if args.connect.json {
        let mut json = serde_json::json!({ "version": version, "denied": principals });
        if let Some(part) = part {
            json["part"] = part.into();
        }
        Ok(print_json(&json)?)
    } else if args.principals.is_empty() {
        Ok(print_text(&if part.is_some() { format!("# {of_part}\n{text}") } else { text.to_owned() })?)
    } else {
        let count = principals.len();
        let text = format!("{of_part}{count} principals are denied (version {version}); every server knows within a second\n");
        Ok(print_text(&text)?)
    }
}

/// The list after the change that the arguments ask for.
fn changed(text: &str, args: &DenyArgs) -> String {
    let of = |line: &str| line.split('#').next().unwrap_or_default().trim().parse().ok().map(PrincipalId);
    let is_named = |line: &str| of(line).is_some_and(|principal| args.principals.contains(&principal.0));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if args.lift {
        lines.retain(|line| !is_named(line));
    } else {
        let comment = args.reason.as_ref().map(|reason| format!(" # {}", reason.replace(['\n', '\r'], " "))).unwrap_or_default();
        for &principal in &args.principals {
            if !lines.iter().any(|line| of(line) == Some(PrincipalId(principal))) {
                lines.push(format!("{principal}{comment}"));
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
