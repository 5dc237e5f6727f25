//! What ends a command with exit code 2: the problem and the remedy.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::validity::Invalid;
use weft_control::directory::{Generation, GroupId, Key, KeyError, MAX_GROUP_ADDRESSES, PrincipalId};
use weft_control::wire::directory::{MAX_DOCUMENT, MAX_OPS};

use crate::bench::BenchError;
use crate::client::ClientError;
use crate::daemon::command_line::{OutputError, file_remedy};
use crate::server::ServeError;
use crate::store::StoreError;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the user.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    /// The content of a file is wrong.
    #[error("{place}: {reason}")]
    Content { place: String, reason: String, help: &'static str },
    /// A file that is to be created exists.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The secret's file has the wrong mode.
    #[error("{} can be read by others (mode {mode:o})", path.display())]
    SecretMode { path: PathBuf, mode: u32 },
    /// A folder is in use.
    #[error("{} has a secret already", .0.display())]
    HasSecret(PathBuf),
    /// The secret is being replaced.
    #[error("{} exists: a rotation is under way", .0.display())]
    Rotating(PathBuf),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Sign(rcgen::Error),
    /// A file with a user and a password has none.
    #[error("{} has no `user:password`", .0.display())]
    NoPassword(PathBuf),
    /// etcd on another machine without TLS.
    #[error("{0} is etcd on another machine without TLS: what goes there can be read and changed on the way")]
    Plaintext(String),
    /// There is no store in a folder.
    #[error("there is no store {}", .0.display())]
    NoStore(PathBuf),
    /// The runtime does not start.
    #[error("cannot start: {0}")]
    Runtime(io::Error),

    /// No principal is given.
    #[error("no principal given")]
    NoPrincipal,
    /// A service is named, and there is no policy with names.
    #[error("service `{service}`: no {}", path.display())]
    NoPolicy { service: String, path: PathBuf },
    /// The policy has no service of this name.
    #[error("no service `{service}` in {}", path.display())]
    NoService { service: String, path: PathBuf, known: String },
    /// Not `host:port`.
    #[error("`{0}` is not a server's address")]
    ServerAddress(String),
    /// Not a prefix.
    #[error("`{0}` is not a prefix")]
    Prefix(String),
    /// Not a key.
    #[error(transparent)]
    Key(#[from] KeyError),

    /// An inventory cannot be deployed.
    #[error(transparent)]
    Deploy(#[from] super::deploy::DeployError),
    /// The servers do not answer as they should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What is asked is of one part, and the directory has several.
    #[error("the directory is divided into parts, which have revisions of their own: {}", .0.join(", "))]
    PartNeeded(Vec<String>),
    /// The server does not start, or has ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The benchmark does not run.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// An address that nobody can have.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The directory has no such group.
    #[error("no group {} in the directory", .0.0)]
    NoGroup(GroupId),
    /// What a mapping is now can only be looked up with a key.
    #[error("the key of principal {} is not known: it cannot look up which owner, service and group the mapping has now", .0.0)]
    NotVisible(PrincipalId),
    /// A file that is to be written to is a pipe, a device or a link.
    #[error("{} is {kind}, which is not replaced", path.display())]
    NotRegular { path: PathBuf, kind: &'static str },
    /// An update may have been applied or not.
    #[error("{error}")]
    InDoubt { error: ClientError, number: u64, known: Generation },
    /// Too many keys for one update.
    #[error("{0} keys: an update has at most {MAX_OPS}")]
    TooManyKeys(usize),
    /// One expectation for several keys.
    #[error("`--expect` is of one key")]
    ExpectMany,
    /// A key twice in an update.
    #[error("{0} is named twice")]
    KeyTwice(Key),
    /// The server cannot read an update.
    #[error("the server finds {0} malformed")]
    MalformedUpdate(String),
    /// No server takes updates.
    #[error("{0} cannot take updates now, and no other server took it")]
    NotApplied(String),
    /// A lease of more than 32 bits of milliseconds.
    #[error("the lease is too long")]
    Lease,
    /// A group with the attributes of a mapping.
    #[error("a group has addresses and nothing else")]
    GroupOnly,
    /// A group's address is none.
    #[error("`{0}` is not an address")]
    GroupAddress(String),
    /// A group with too many addresses.
    #[error("{0} addresses")]
    GroupAddresses(usize),

    /// `--version` differs from the version in the document.
    #[error("{} declares version {own}", path.display())]
    DeclaredVersion { path: PathBuf, own: u32, given: u32 },
    /// The greatest version is in use.
    #[error("there is no greater version")]
    LastVersion,
    /// The document is too long.
    #[error("{0} bytes are too many for a document")]
    DocumentSize(usize),
    /// The store has this version, or a newer one.
    #[error("the store has version {held} of `{name}`, and {version} is not greater")]
    NotNewer { name: String, held: u32, version: u32 },
    /// Another writer was faster.
    #[error("another writer has published version {version} of `{name}` since it was read")]
    PublishConflict { name: String, version: u32 },
    /// The policy refuses it.
    #[error("{server} does not let this principal publish `{name}`")]
    PublishRefused { server: String, name: String },
    /// The store did not answer.
    #[error("{server} is a replica, or its store did not answer: `{name}` may be version {version} now, or not")]
    PublishUnknown { server: String, name: String, version: u32 },
    /// The server cannot read what it was sent.
    #[error("{0} does not understand what it was sent")]
    PublishMalformed(String),

    /// There is no tenants' file.
    #[error("there is no tenants' file {}", .0.display())]
    NoTenants(PathBuf),
    /// A change would make the tenants' file wrong.
    #[error("{0}")]
    Tenants(String),
    /// The file has no tenant of this name.
    #[error("no tenant `{tenant}` in {}", path.display())]
    NoTenant { tenant: String, path: PathBuf, known: String },
    /// There is an interface of this name.
    #[error("`{tenant}` has an interface `{vif}` already")]
    VifExists { tenant: String, vif: String },
    /// There is no interface of this name.
    #[error("`{tenant}` has no interface `{vif}` yet")]
    NoVif { tenant: String, vif: String },
    /// An interface is in the file no more.
    #[error("`{vif}` is gone from {}", path.display())]
    VifGone { vif: String, path: PathBuf },
    /// Not `edge:MAC/PORT`.
    #[error("{0} is no edge switch's port")]
    NotEdge(String),
    /// A port number that does not exist.
    #[error("port {0} is not 1 to 126")]
    EdgePort(u16),
    /// The directory refuses an interface's bindings.
    #[error("{server} did not take the bindings of {vif}: {result:?}")]
    BindingsRefused { server: String, vif: String, result: UpdateResult, remedy: String },
    /// An interface's bindings could not be published.
    #[error("{error}")]
    Bindings { error: Box<Error>, remedy: String },
    /// There is a router of this name.
    #[error("`{tenant}` has a router `{router}` already")]
    RouterExists { tenant: String, router: String },
    /// Neither a route nor a rule is given.
    #[error("nothing is to be added")]
    NothingToAdd,
    /// A rule cannot be read.
    #[error("{0}")]
    Rule(String),
    /// There is nothing of this name to be removed.
    #[error("`{tenant}` has no {what}")]
    NothingOf { tenant: String, what: String },
    /// The store has no record of this tenant.
    #[error("the directory has no tenant `{0}`")]
    NoTenantRecord(String),
    /// The store's tenants are a document.
    #[error("the store's tenants are the document `tenants`, which agents read")]
    DocumentInUse,
    /// The store's tenants are records.
    #[error("the store's tenants are records, and agents do not read the document `tenants`")]
    RecordsInUse,
    /// The store has no records of tenants.
    #[error("the store has no records of tenants")]
    NoRecords,
    /// Records that cannot be read as such.
    #[error("the store's records of tenants do not fit together: {0}")]
    Records(String),
    /// The principal may not read or change records of all tenants.
    #[error("{0} refuses: the policy does not let this principal read or change all tenants' records")]
    RecordsRefused(String),
    /// The server's store does not answer.
    #[error("the store of {0} does not answer")]
    RecordsAway(String),
    /// A change may have been applied or not.
    #[error("whether the records were changed is not known: {0} is a replica, or its store did not answer")]
    RecordsUnknown(String),
    /// Others change the same.
    #[error("others change the same records again and again")]
    RecordsBusy,
    /// The store's tenants' file is not older.
    #[error("{} is version {version}, and the store has {which} version {held}", path.display())]
    StoreNewer { path: PathBuf, version: u32, which: &'static str, held: u32 },
    /// The store has no tenants' file.
    #[error("the store has no tenants' file")]
    NoneStored,
    /// The store's tenants' file is not UTF-8.
    #[error("the store's tenants' file is not text")]
    StoredNotText,
    /// The file here is newer than the store's.
    #[error("{} is version {own}, newer than the store's {stored}", path.display())]
    FileNewer { path: PathBuf, own: u32, stored: u32 },

    /// `--provisioner` with a policy.
    #[error("`--provisioner` is of `--policy open`")]
    ProvisionerWithPolicy,
    /// No measurement is named.
    #[error("what is to be measured is not given")]
    NoSet,
    /// A measurement that kills servers.
    #[error("`failover` kills servers")]
    FailoverServers,
    /// A rate that is none.
    #[error("a rate is greater than 0")]
    Rate,
    /// A measurement of no length.
    #[error("a case of no length measures nothing")]
    NoDuration,

    /// Lines of an export are wrong, one a line.
    #[error("{0}")]
    Lines(String),
    /// An export is not complete.
    #[error("{name} has {entries} entries, and its first line says {declared}")]
    Incomplete { name: String, entries: usize, declared: u64 },
    /// There is no such document.
    #[error("the store has no document `{0}`")]
    NoDocument(String),
    /// A backup is of another cluster.
    #[error("{} is of another cluster: its authority's certificate is not that of ca.pem here", .0.display())]
    OtherCluster(PathBuf),
    /// An import ended early.
    #[error("{error}; {done} changes were made before")]
    Partial { error: Box<Error>, done: u64 },
    /// An import's change is not permitted.
    #[error("{0} is refused: the policy does not let this principal change it")]
    ImportRefused(String),
    /// An import's change cannot be read.
    #[error("{what} is malformed, {server} finds")]
    ImportMalformed { what: String, server: String },
    /// An import's change may have been applied or not.
    #[error("whether {0} was written is not known")]
    ImportUnknown(String),
    /// The server takes no updates.
    #[error("{0} cannot take updates now")]
    ImportUnable(String),
}

impl Error {
    /// A file could not be read or written.
    pub fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::File { action, path: path.to_owned(), cause }
    }

    /// The remedy.
    fn remedy(&self) -> String {
        match self {
            Self::File { cause, .. } => of_file(cause.kind()).to_owned(),
            Self::SecretMode { path, .. } => format!("chmod 600 {}; if others have read it, make a new one", path.display()),
            Self::NoService { known, .. } if known.is_empty() => {
                "it has none: add a [[service]], raise `version`; or `--unchecked`, if the servers have another policy".to_owned()
            }
            Self::NoService { known, .. } | Self::NoTenant { known, .. } => format!("it has: {known}"),
            Self::NoGroup(group) => {
                format!("put it first: `weft directory put group:{} ADDRESS,...`; or `--unchecked`, to put it later", group.0)
            }
            Self::Deploy(error) => error.remedy(),
            Self::Client(error) => error.help().to_owned(),
            Self::PartNeeded(_) => "name one with `--part`, and run the command for each".to_owned(),
            Self::Bench(error) => error.help().to_owned(),
            Self::InDoubt { error, number, known } => {
                format!("{}. The same again, with `--number {number} --known {}`, finds out", error.help(), known.0)
            }
            Self::GroupAddresses(_) => format!("a group has at most {MAX_GROUP_ADDRESSES}"),
            Self::DeclaredVersion { given, .. } => format!("leave `--version {given}` out, or change the file"),
            Self::DocumentSize(_) => format!("at most {MAX_DOCUMENT}"),
            Self::NotNewer { name, .. } => format!("see what is there: weft directory fetch {name}"),
            Self::BindingsRefused { remedy, .. } => format!("does the policy let this principal change them? {remedy}"),
            Self::Bindings { remedy, .. } => remedy.clone(),
            _ => self.fixed_remedy().to_owned(),
        }
    }

    /// The remedy where it depends on nothing; empty if there is none.
    const fn fixed_remedy(&self) -> &'static str {
        match self {
            Self::Content { help, .. } => help,
            Self::Exists(_) => "choose another place, or delete it",
            Self::HasSecret(_) => "another folder, or delete this one: hosts that have keys of its secret need new ones then",
            Self::Rotating(_) => "end it with `weft directory rotate --finish` once every host has its new key",
            Self::Sign(_) => "is every `--name` a host name or an address?",
            Self::NoPassword(_) => "write both on one line",
            Self::Plaintext(_) => "write https:// and name its authority with --etcd-ca; or allow it with --etcd-plaintext",
            Self::NoStore(_) => "`--store embedded:DIR` or `--dir` names another",
            Self::NoPrincipal => "give `--principal N`, or `--dir DIR` of a folder that `weft directory init` made",
            Self::NoPolicy { .. } => "give the service's number, or `--dir` of a folder whose policy.toml names it",
            Self::ServerAddress(_) => "write host:port",
            Self::Prefix(_) => "write 10.0.0.0/8 or 2001:db8::/32",
            Self::Serve(error) => of_server(error),
            Self::TooManyKeys(_) => "delete them in several updates",
            Self::ExpectMany => "delete the keys one by one",
            Self::KeyTwice(_) => "an update changes a key once",
            Self::MalformedUpdate(_) => "is it of the same version?",
            Self::NotApplied(_) => "`weft directory status` prints why: loading, store lost, leaving, or a replica",
            Self::Invalid(_) => "nothing was written; `weft directory list` shows what there is",
            Self::NotVisible(_) => "give `--key FILE`, or `--replace` to set all of it",
            Self::NotRegular { .. } => "name a new file or a regular one; to write to a pipe: `> FILE`",
            Self::Lease => "49 days at most",
            Self::GroupOnly => "leave out --service, --owner, --mac, --group and --lease",
            Self::GroupAddress(_) => "write a group's addresses as 10.9.0.1,10.9.0.2",
            Self::LastVersion => "use another name",
            Self::PublishConflict { .. } => "nothing was changed; see what is there and try again",
            Self::PublishRefused { .. } => "an administrator may, and a provisioner of all services: see the policy",
            Self::PublishUnknown { .. } => "publishing it again is safe; name a server that is no replica with `--servers`",
            Self::PublishMalformed(_) => "is it as new as this program?",
            Self::NoTenants(_) => "`weft tenant create NAME --id N` makes it; `--file FILE` or WEFT_TENANTS names another",
            Self::Tenants(_) => "nothing was written; docs/tenants.md has the rules",
            Self::VifExists { .. } => "edit the file to change it; `--at` alone says where it is",
            Self::NoVif { .. } => "a new one needs `--mac`",
            Self::VifGone { .. } => "somebody edits it",
            Self::NotEdge(_) => "write edge:02:00:00:00:00:09/12",
            Self::EdgePort(_) => "seven bits name the port, and 127/8 is the loopback",
            Self::RouterExists { .. } => {
                "add the interface to its list in the file; `--to`, `--via` and `--rule` are for routers that exist"
            }
            Self::NothingToAdd => "give `--to PREFIX --via ADDRESS` or `--rule RULE`",
            Self::Rule(_) => "write \"deny tcp from 10.0.0.0/24 to 10.0.1.0/24 port 22\"",
            Self::NothingOf { .. } | Self::NoTenantRecord(_) => {
                "`weft tenant show` and `list` print what there is; with `--store`, of the store's records"
            }
            Self::DocumentInUse => {
                "move it: `weft tenant fetch --file FILE`, then `weft tenant import FILE`; from then on agents read the records"
            }
            Self::RecordsInUse => "`weft tenant import FILE` and `export FILE` transfer records; `--store` changes them",
            Self::NoRecords => "`weft tenant import FILE`, or `weft tenant create NAME --id N --store`, makes the first",
            Self::RecordsRefused(_) => "an administrator may, and a provisioner of all services: see the policy",
            Self::RecordsAway(_) | Self::RecordsBusy => "try again",
            Self::RecordsUnknown(_) => "`weft tenant show --store` shows what there is; the same again is safe",
            Self::StoreNewer { .. } => "compare them: `weft tenant fetch --file OTHER` writes the store's; a version only grows",
            Self::NoneStored => "`weft tenant publish` puts one there",
            Self::StoredNotText => "publish another",
            Self::FileNewer { .. } => "`weft tenant publish` puts it into the store",
            Self::ProvisionerWithPolicy => "in a policy file: [[principal]] with role = \"provisioner\"",
            Self::NoSet => "`weft directory bench lookups`, `updates`, `convergence` or `failover`",
            Self::FailoverServers => "it has servers of its own: leave out `--servers`",
            Self::Rate => "write such as `--rate 10000`, a second",
            Self::NoDuration => "write such as `--duration 5s`",
            Self::Lines(_) => "nothing was written; correct these lines and import again",
            Self::Incomplete { .. } => "it is not whole; if it was cut on purpose, take out the first line",
            Self::NoDocument(_) => "nothing was written; `weft directory publish NAME FILE` makes one",
            Self::OtherCluster(_) => "nothing was changed; name another file, or `--other-cluster`",
            Self::Partial { .. } => "the same import again makes the rest",
            _ => "",
        }
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        Self::io("write to", Path::new("standard output"), error.0)
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        let remedy = self.remedy();
        (!remedy.is_empty()).then(|| Box::new(remedy) as Box<dyn Display>)
    }
}

const fn of_file(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => {
            "check the path; `weft directory init DIR` makes a folder with all that is needed, and `--dir DIR` or WEFT_DIRECTORY names it"
        }
        _ => file_remedy(kind),
    }
}

const fn of_server(error: &ServeError) -> &'static str {
    match error {
        ServeError::Secret { .. } | ServeError::Certificate { .. } => {
            "`weft directory init DIR` makes a folder with all that is needed; `--dir DIR` or WEFT_DIRECTORY names it"
        }
        ServeError::Core(_) => "cores are numbered from 0, and `nproc` counts them; or leave `--cores` out",
        // These say it themselves.
        ServeError::Store(StoreError::OneServer(_) | StoreError::Absent(_)) => "",
        ServeError::Store(StoreError::Refused(_)) => {
            "of `--store etcd:...`: check --etcd-user and the others; a server needs permission to read and write `/weft` and what begins so, a replica to read it"
        }
        ServeError::Store(_) => "`--store embedded:DIR` names a folder that is not there yet or has a store of this cluster",
        ServeError::Policy { .. } => "docs/directory.md has every key of a policy; nothing was changed",
        _ => "",
    }
}
