//! `weft tenant`: the tenants' file, and where its VIFs are.
//!
//! ```text
//!   create, add-vm, route --> tenants.toml, under a lock: text with a table appended --parse, check--> written beside, renamed
//!   publish, fetch        <-> the directory's store: the document `tenants`, which agents keep their files like
//!   import, export        <-> the directory's store: records, of which agents have those of their VIFs' tenants; `--store` changes them directly
//!   add-vm --at           --> the directory: a MAC key and a key for each address, in one update
//! ```

mod edit;
mod file;
mod place;
pub(super) mod records;
mod remove;
mod repository;
mod show;
mod transfer;

use clap::{Args, Subcommand};

use super::error::Result;

/// Examples at the end of `weft tenant --help`.
const EXAMPLES: &str = "\
Examples:
  weft tenant create acme --id 17 --spaces 1,2
  weft tenant add-vm acme web1 --mac 02:00:00:00:00:01 --space 1
  weft tenant show acme --locations
  weft tenant publish  put the file into the directory's store

Tenants are in a file, or, with --store, in records of the directory's store.";

/// The tenants' file, and where their VMs are.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TenantArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a tenant; create the file if it does not exist
    Create(edit::CreateArgs),
    /// Add a VM's interface, or set its location
    AddVm(edit::AddVmArgs),
    /// Add a virtual router, a route, or a rule
    Route(edit::RouteArgs),
    /// Remove a tenant, its interfaces and its virtual routers
    Remove(remove::RemoveArgs),
    /// Remove a VM's interface
    RemoveVm(remove::RemoveVmArgs),
    /// Remove a virtual router, a route, or a rule
    Unroute(remove::UnrouteArgs),
    /// Set which agents may read a tenant's records
    Readers(edit::ReadersArgs),
    /// Import the tenants of a file into the directory's store, as records
    Import(transfer::ImportArgs),
    /// Export the records of the directory's store to a file
    Export(transfer::ExportArgs),
    /// Publish the file in the directory's store, for all agents
    Publish(repository::PublishArgs),
    /// Update the file to the version in the directory's store
    Fetch(repository::FetchArgs),
    /// Check the file, and list the tenants
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
        Command::Remove(args) => remove::remove(args),
        Command::RemoveVm(args) => remove::remove_vm(args),
        Command::Unroute(args) => remove::unroute(args),
        Command::Readers(args) => edit::readers(args),
        Command::Import(args) => transfer::import(args),
        Command::Export(args) => transfer::export(args),
        Command::Publish(args) => repository::publish(args),
        Command::Fetch(args) => repository::fetch(args),
        Command::List(args) => show::list(args),
        Command::Show(args) => show::show(args),
    }
}
