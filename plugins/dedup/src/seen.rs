//! A set of texts that have been seen, in `store`.
//!
//! Hashes are spread over 1,024 values, so that a part of the rows reads and writes little of them.
//! An entry is 8 bytes of the text's hash and 4 of the hash of the row's name, by which a row knows
//! itself when the same filter stands in a recipe twice. Two different texts are taken for one with
//! a probability of 1 in 10 million among a million rows.

use crate::text::hash;
use std::collections::BTreeMap;
use whet_plugin::{Error, host::store};

const SHARDS: u64 = 1024;
const ENTRY: usize = 12;

/// The texts seen so far.
pub struct Seen {
    scope: String,
    /// Shards that were read, and whether they have grown.
    shards: BTreeMap<u64, (Vec<u8>, bool)>,
}

impl Seen {
    /// The set that is kept under `scope`.
    pub fn open(scope: &str) -> Self {
        Seen { scope: scope.to_owned(), shards: BTreeMap::new() }
    }

    /// Whether a row of another name had this text; it has been seen from now on.
    pub fn is_repeated(&mut self, text: &str, row: &str) -> bool {
        let (text, row) = (hash(text.as_bytes()), hash(row.as_bytes()) as u32);
        let shard = text % SHARDS;
        let scope = &self.scope;
        let (bytes, grown) = self
            .shards
            .entry(shard)
            .or_insert_with(|| (store::get(&format!("{scope}/{shard}")).unwrap_or_default(), false));
        let found = bytes.chunks_exact(ENTRY).find(|entry| entry[..8] == text.to_le_bytes());
        if let Some(entry) = found {
            return entry[8..] != row.to_le_bytes();
        }
        bytes.extend(text.to_le_bytes());
        bytes.extend(row.to_le_bytes());
        *grown = true;
        false
    }

    /// Writes what is new.
    pub fn save(self) -> Result<(), Error> {
        for (shard, (bytes, grown)) in self.shards {
            if grown {
                store::set(&format!("{}/{shard}", self.scope), &bytes)?;
            }
        }
        Ok(())
    }
}
