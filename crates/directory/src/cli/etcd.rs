//! How to speak to etcd, for every command that opens a store.

use std::path::PathBuf;

use clap::Args;

use super::error::{Error, Result};
use crate::store::{EtcdOptions, StoreAddress};

/// The name of a cluster that was given none.
const DEFAULT_CLUSTER: &str = "weft";

/// Which store, and how to speak to etcd.
#[derive(Clone, Debug, Args)]
pub struct EtcdArgs {
    /// The cluster's name: a store belongs to one
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLUSTER)]
    pub(super) cluster: String,
    /// The authority that signed the certificates of etcd's members
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// This server's certificate for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_cert_key")]
    etcd_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_cert_key: Option<PathBuf>,
    /// A file with etcd's user and password, `user:password`
    #[arg(long, value_name = "FILE")]
    etcd_user: Option<PathBuf>,
    /// Speak to members of etcd on other machines without TLS: mappings and documents can be read and changed on the way
    #[arg(long)]
    etcd_plaintext: bool,
}

impl EtcdArgs {
    /// The files read; members on other machines are spoken to over TLS, unless the operator says otherwise.
    pub(super) fn options(&self, store: &StoreAddress) -> Result<EtcdOptions> {
        if let (Some(url), false) = (store.plaintext(), self.etcd_plaintext) {
            return Err(Error::Plaintext(url.to_owned()));
        }
        let read = |file: &PathBuf| std::fs::read(file).map_err(|e| Error::io("read", file, e));
        let client = match (&self.etcd_cert, &self.etcd_cert_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let user = match &self.etcd_user {
            None => None,
            Some(file) => {
                let text = String::from_utf8_lossy(&read(file)?).trim().to_owned();
                let (user, password) = text.split_once(':').ok_or_else(|| Error::NoPassword(file.clone()))?;
                Some((user.to_owned(), password.to_owned()))
            }
        };
        Ok(EtcdOptions { ca: self.etcd_ca.as_ref().map(read).transpose()?, client, user })
    }
}
