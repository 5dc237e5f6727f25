//! `weft tenant`: the tenants' file, and where its VIFs are.
//!
//! ```text
//!   create, add-vm, route --> tenants.toml, under a lock: text with a table appended --parse, check--> written beside, renamed
//!   publish, fetch        <-> the directory's store: the text `tenants`, which agents keep their files like
//!   add-vm --at           --> the directory: a MAC key and a key for each address, in one update
//! ```

mod edit;
mod file;
mod repository;
mod show;

use clap::{Args, Subcommand};

use super::error::Result;

/// The tenants' file, and where their VMs are.
#[derive(Debug, Args)]
pub struct TenantArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a tenant; makes the file if there is none
    Create(edit::CreateArgs),
    /// Add a VM's interface, or say where it is
    AddVm(edit::AddVmArgs),
    /// Add a virtual router, a route, or a rule
    Route(edit::RouteArgs),
    /// Put the file into the directory's store, for all agents
    Publish(repository::PublishArgs),
    /// Write the file as the directory's store has it
    Fetch(repository::FetchArgs),
    /// Check the file and list the tenants
    List(show::ListArgs),
    /// Show one tenant
    Show(show::ShowArgs),
}

/// Runs one of them.
pub fn run(args: &TenantArgs) -> Result<bool> {
    match &args.command {
        Command::Create(args) => edit::create(args),
        Command::AddVm(args) => edit::add_vm(args),
        Command::Route(args) => edit::route(args),
        Command::Publish(args) => repository::publish(args),
        Command::Fetch(args) => repository::fetch(args),
        Command::List(args) => show::list(args),
        Command::Show(args) => show::show(args),
    }
}
