//! The file's tables as they stand in it.

use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub version: i64,
    #[serde(default)]
    pub service: i64,
    #[serde(default)]
    pub tenant: Vec<Tenant>,
    #[serde(default)]
    pub vif: Vec<Vif>,
    #[serde(default)]
    pub router: Vec<Router>,
    #[serde(default)]
    pub route: Vec<Route>,
    #[serde(default)]
    pub rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    pub id: i64,
    pub name: String,
    pub spaces: Option<Vec<i64>>,
    pub readers: Option<Vec<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vif {
    pub tenant: String,
    pub name: String,
    pub space: Option<Space>,
    pub mac: String,
    #[serde(default)]
    pub addresses: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Space {
    Id(i64),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Router {
    pub tenant: String,
    pub name: String,
    pub interfaces: Vec<Interface>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interface {
    pub space: i64,
    pub mac: String,
    pub address: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub tenant: String,
    pub router: String,
    pub to: String,
    pub via: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub tenant: String,
    pub router: String,
    pub action: String,
    pub protocol: Option<NumberOrName>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub port: Option<NumberOrName>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum NumberOrName {
    Number(i64),
    Name(String),
}
