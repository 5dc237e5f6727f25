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
    /// Name of the cluster; a store belongs to one cluster
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLUSTER, help_heading = "Store")]
    pub(super) cluster: String,
    /// Certificate authority of etcd's members
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    etcd_ca: Option<PathBuf>,
    /// Certificate of this server for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_cert_key", help_heading = "Store")]
    etcd_cert: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert", help_heading = "Store")]
    etcd_cert_key: Option<PathBuf>,
    /// File with etcd's user and password, `user:password`
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    etcd_user: Option<PathBuf>,
    /// Connect to etcd on other machines without TLS: mappings and documents can be read and changed in transit
    #[arg(long, help_heading = "Store")]
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
