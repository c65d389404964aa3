//! The values that a plugin keeps for its run: a small map with quotas.

use std::collections::{BTreeMap, HashMap};

/// Longest key, in bytes.
const KEY_BYTES: usize = 256;
/// Longest value, in bytes.
const VALUE_BYTES: usize = 64 << 10;
/// What an entry costs beyond its key and value, so that many tiny entries are not free.
const ENTRY_BYTES: usize = 64;

/// Why a value was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    KeyTooLong,
    ValueTooLarge,
    Full,
}

/// Keys and values of one plugin in one run.
#[derive(Debug, Default)]
pub(crate) struct Values {
    entries: HashMap<String, Vec<u8>>,
    bytes: usize,
}

impl Values {
    /// All keys with their values.
    pub fn entries(&self) -> BTreeMap<String, Vec<u8>> {
        self.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// What [`Values::entries`] gave, whatever the quota is now.
    pub fn restored(entries: BTreeMap<String, Vec<u8>>) -> Values {
        let bytes = entries.iter().map(|(key, value)| key.len() + value.len() + ENTRY_BYTES).sum();
        Values { entries: entries.into_iter().collect(), bytes }
    }

    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.entries.get(key).map(Vec::as_slice)
    }

    /// Keeps `value` within `quota` bytes of all entries; an empty value removes the key.
    pub fn set(&mut self, key: String, value: Vec<u8>, quota: usize) -> Result<(), Refusal> {
        if key.len() > KEY_BYTES {
            return Err(Refusal::KeyTooLong);
        }
        if value.len() > VALUE_BYTES {
            return Err(Refusal::ValueTooLarge);
        }
        let cost = |value: &[u8]| key.len() + value.len() + ENTRY_BYTES;
        let before = self.entries.get(&key).map_or(0, |old| cost(old));
        let after = if value.is_empty() { 0 } else { cost(&value) };
        let bytes = self.bytes - before + after;
        if bytes > quota && after > before {
            return Err(Refusal::Full);
        }
        self.bytes = bytes;
        if value.is_empty() {
            self.entries.remove(&key);
        } else {
            self.entries.insert(key, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_counts_replaced_and_removed_values() {
        let mut values = Values::default();
        let quota = 2 * (1 + 10 + ENTRY_BYTES);
        assert_eq!(values.set("a".into(), vec![1; 10], quota), Ok(()));
        assert_eq!(values.set("b".into(), vec![1; 11], quota), Err(Refusal::Full));
        assert_eq!(values.set("b".into(), vec![1; 10], quota), Ok(()));
        assert_eq!(values.set("a".into(), vec![], quota), Ok(()));
        assert_eq!(values.get("a"), None);
        assert_eq!(values.set("c".into(), vec![2; 10], quota), Ok(()));
        assert_eq!(values.get("c"), Some(&[2; 10][..]));
    }

    #[test]
    fn restored_values_are_those_that_were_kept_and_count_as_much() {
        let mut values = Values::default();
        let quota = 2 * (1 + 10 + ENTRY_BYTES);
        for key in ["a", "b"] {
            assert_eq!(values.set(key.into(), vec![3; 10], quota), Ok(()));
        }
        let mut restored = Values::restored(values.entries());
        assert_eq!(restored.entries(), values.entries());
        assert_eq!(restored.set("c".into(), vec![1], quota), Err(Refusal::Full));
        assert_eq!(restored.set("b".into(), vec![], quota), Ok(()));
        assert_eq!(restored.set("c".into(), vec![1; 10], quota), Ok(()));
    }

    #[test]
    fn long_keys_and_large_values_are_refused() {
        let mut values = Values::default();
        assert_eq!(values.set("k".repeat(257), vec![1], usize::MAX), Err(Refusal::KeyTooLong));
        assert_eq!(values.set("k".into(), vec![1; VALUE_BYTES + 1], usize::MAX), Err(Refusal::ValueTooLarge));
    }
}
