//! Named documents in etcd, whose requests hold less than a document may have bytes.
//!
//! ```text
//!   /weft/<cluster>.texts/<name>              {"version": 7, "draw": "..", "parts": 3}
//!   /weft/<cluster>.texts/<name>/<draw>/<i>   a part
//! ```
//! The parts of a new document are written first, under a random name of their own; then one transaction puts the head in the place of the one that
//! was expected, and removes all parts but its own: those of the old document, of servers that ended midway, and of others that publish just now and will
//! find another head. So a head's parts are all there, unless another document has just taken its place.

use etcd_client::{Compare, CompareOp, DeleteOptions, Txn, TxnOp};
use serde::{Deserialize, Serialize};

use super::{Etcd, damaged};
use crate::store::{Replaced, StoreError, StoredDocument, random_id};

/// Bytes of a part: less than etcd takes in a request (1.5 MiB).
const PART: usize = 512 << 10;

/// Tries to read a document that others replace while it is read.
const TRIES: usize = 4;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Head {
    version: u32,
    draw: String,
    parts: usize,
}

impl Etcd {
    pub(super) async fn read_document(&self, name: &str, known: u32) -> Result<Option<StoredDocument>, StoreError> {
        for _ in 0..TRIES {
            let Some((head, _)) = self.head(name).await? else { return Ok(None) };
            if head.version == known {
                return Ok(Some(StoredDocument { version: known, bytes: None }));
            }
            if let Some(bytes) = self.parts(name, &head).await? {
                return Ok(Some(StoredDocument { version: head.version, bytes: Some(bytes.into()) }));
            }
        }
        Err(StoreError::Unreachable(format!("the document `{name}` changes faster than it can be read")))
    }

    pub(super) async fn write_document(
        &self,
        name: &str,
        expect: u32,
        version: u32,
        bytes: &[u8],
    ) -> Result<Replaced, StoreError> {
        let before = self.head(name).await?;
        let (held, generation) = before.as_ref().map_or((0, 0), |(head, generation)| (head.version, *generation));
        if held != expect {
            return Ok(Replaced::Conflict(held));
        }
        let head = Head { version, draw: random_id(), parts: bytes.len().div_ceil(PART) };
        for (at, part) in bytes.chunks(PART).enumerate() {
            let put = TxnOp::put(self.part_name(name, &head.draw, at), part, None);
            self.shared.members.transact(Txn::new().and_then([put])).await?;
        }
        let own = serde_json::to_vec(&head).expect("a head is JSON");
        let folder = format!("{}/", self.documents(name));
        let (own_folder, behind) = (format!("{folder}{}/", head.draw), format!("{folder}{}0", head.draw));
        let end = format!("{}0", self.documents(name));
        let remove = |from: String, to: String| TxnOp::delete(from, Some(DeleteOptions::new().with_range(to)));
        let change = [TxnOp::put(self.head_name(name), own, None), remove(folder, own_folder), remove(behind, end)];
        let same = Compare::mod_revision(self.head_name(name), CompareOp::Equal, generation);
        let (response, _) = self.shared.members.transact(Txn::new().when([same]).and_then(change)).await?;
        if response.succeeded() {
            return Ok(Replaced::Done);
        }
        // If the request was sent twice, what the second copy met may be the first.
        let found = self.head(name).await?.map(|(head, _)| head);
        if found.as_ref() == Some(&head) {
            return Ok(Replaced::Done);
        }
        let mine = TxnOp::delete(format!("{}/{}/", self.documents(name), head.draw), Some(DeleteOptions::new().with_prefix()));
        self.shared.members.transact(Txn::new().and_then([mine])).await?;
        Ok(Replaced::Conflict(found.map_or(0, |head| head.version)))
    }

    async fn head(&self, name: &str) -> Result<Option<(Head, i64)>, StoreError> {
        let response = self.shared.members.get(self.head_name(name), None).await?;
        let Some(found) = response.kvs().first() else { return Ok(None) };
        let head = serde_json::from_slice(found.value()).map_err(|error| damaged(found.key(), &error.to_string()))?;
        Ok(Some((head, found.mod_revision())))
    }

    /// The bytes of a document; `None` if they are not there any more.
    async fn parts(&self, name: &str, head: &Head) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = Vec::new();
        for at in 0..head.parts {
            let response = self.shared.members.get(self.part_name(name, &head.draw, at), None).await?;
            let Some(found) = response.kvs().first() else { return Ok(None) };
            bytes.extend_from_slice(found.value());
        }
        Ok(Some(bytes))
    }

    fn head_name(&self, name: &str) -> Vec<u8> {
        self.documents(name).into_bytes()
    }

    fn part_name(&self, name: &str, draw: &str, at: usize) -> Vec<u8> {
        format!("{}/{draw}/{at}", self.documents(name)).into_bytes()
    }

    /// Beside the records' folder, which is watched.
    fn documents(&self, name: &str) -> String {
        format!("/weft/{}.texts/{name}", self.shared.identity.cluster)
    }
}
