//! Rows that are mostly the same words, found by MinHash (Broder 1997) with banding (Indyk and
//! Motwani 1998).
//!
//! A row is the set of its three-word sequences. Of each of 64 hash functions the smallest value over
//! the set is kept, of which one byte is stored: the part of equal bytes estimates the Jaccard
//! similarity of two rows. Bands of several values are looked up by their hash, so that a row is
//! compared only with rows that share a whole band, and with at most 64 of them.

use crate::text::{hash, mix};
use std::collections::BTreeMap;
use whet_plugin::{Error, host::store};

/// Hash functions, and bytes of a signature.
const HASHES: usize = 64;
/// Words of a sequence.
const SHINGLE: usize = 3;
/// Sequences of a row that count; more would cost time, and prompts that long differ early.
const SHINGLES: usize = 2000;
/// Rows that one row is compared with.
const CANDIDATES: usize = 64;
/// Values of the store that band entries are spread over.
const SHARDS: u64 = 1024;
/// Four bytes of the band's hash, four of the row's number.
const ENTRY: usize = 8;
/// Signatures of one value of the store, each with four bytes of the hash of its row's name.
const PAGE: usize = 256;
const RECORD: usize = HASHES + 4;

/// The rows seen so far.
pub struct Near {
    scope: String,
    threshold: f64,
    /// Hash values of a band.
    band: usize,
    rows: u32,
    /// Values of the store that were read, by key, and whether they have changed.
    pages: BTreeMap<String, (Vec<u8>, bool)>,
}

impl Near {
    /// The rows that are kept under `scope`.
    pub fn open(scope: &str, threshold: f64) -> Result<Self, Error> {
        // A threshold of its own has bands of its own.
        let scope = format!("{scope}/{threshold}");
        let rows = store::get(&format!("{scope}/rows")).unwrap_or_default();
        let rows = rows.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Ok(Near { scope, threshold, band: band_size(threshold), rows, pages: BTreeMap::new() })
    }

    /// Whether a row of another name had mostly these words; only rows that are no repetition are
    /// remembered, so a chain of small changes does not lead away from what was kept.
    pub fn is_repeated(&mut self, words: &[String], row: &str) -> bool {
        let name = (hash(row.as_bytes()) as u32).to_le_bytes();
        let minima = minima(words);
        let bytes: Vec<u8> = minima.iter().map(|minimum| (minimum >> 24) as u8).collect();
        let bands: Vec<u64> =
            minima.chunks(self.band).enumerate().map(|(i, band)| band_hash(i, band)).collect();
        let mut compared = Vec::new();
        for band in &bands {
            for other in self.rows_in(*band) {
                if compared.len() == CANDIDATES {
                    break;
                }
                if compared.contains(&other) {
                    continue;
                }
                compared.push(other);
                let record = self.record(other);
                if record.len() == RECORD && similarity(&record[..HASHES], &bytes) >= self.threshold {
                    return record[HASHES..] != name;
                }
            }
        }
        self.remember(&bytes, &bands, name);
        false
    }

    /// Writes what is new.
    pub fn save(self) -> Result<(), Error> {
        for (key, (bytes, changed)) in &self.pages {
            if *changed {
                store::set(key, bytes)?;
            }
        }
        Ok(store::set(&format!("{}/rows", self.scope), &self.rows.to_le_bytes())?)
    }

    fn page(&mut self, key: String) -> &mut (Vec<u8>, bool) {
        self.pages.entry(key).or_insert_with_key(|key| (store::get(key).unwrap_or_default(), false))
    }

    fn band_key(&self, band: u64) -> String {
        format!("{}/band{}", self.scope, band % SHARDS)
    }

    fn rows_in(&mut self, band: u64) -> Vec<u32> {
        let (bytes, _) = self.page(self.band_key(band));
        let (entries, _) = bytes.as_chunks::<ENTRY>();
        let same = entries.iter().filter(|entry| entry[..4] == band_tag(band));
        same.map(|entry| u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]])).collect()
    }

    fn record(&mut self, row: u32) -> Vec<u8> {
        let key = format!("{}/page{}", self.scope, row as usize / PAGE);
        let (bytes, _) = self.page(key);
        let start = row as usize % PAGE * RECORD;
        bytes.get(start..start + RECORD).map_or_else(Vec::new, <[u8]>::to_vec)
    }

    fn remember(&mut self, signature: &[u8], bands: &[u64], name: [u8; 4]) {
        let row = self.rows;
        let key = format!("{}/page{}", self.scope, row as usize / PAGE);
        let (bytes, changed) = self.page(key);
        bytes.extend(signature);
        bytes.extend(name);
        *changed = true;
        for band in bands {
            let (bytes, changed) = self.page(self.band_key(*band));
            bytes.extend(band_tag(*band));
            bytes.extend(row.to_le_bytes());
            *changed = true;
        }
        self.rows += 1;
    }
}

/// The longest bands by which at least 98 % of the pairs at the threshold meet in one of them.
fn band_size(threshold: f64) -> usize {
    let found = |size: i32| 1.0 - (1.0 - threshold.powi(size)).powi(HASHES as i32 / size);
    [16, 8, 4, 2].into_iter().find(|size| found(*size) >= 0.98).map_or(1, |size| size as usize)
}

/// The smallest value of each hash function over the row's sequences of words.
fn minima(words: &[String]) -> [u32; HASHES] {
    let mut minima = [u32::MAX; HASHES];
    let size = SHINGLE.min(words.len().max(1));
    for shingle in words.windows(size).take(SHINGLES) {
        let shingle = hash(shingle.join(" ").as_bytes());
        for (i, minimum) in minima.iter_mut().enumerate() {
            // Multiply-shift (Dietzfelbinger et al. 1997) with fixed odd factors.
            let factor = mix(i as u64 + 1) | 1;
            *minimum = (*minimum).min((factor.wrapping_mul(shingle) >> 32) as u32);
        }
    }
    minima
}

fn band_hash(index: usize, band: &[u32]) -> u64 {
    band.iter().fold(mix(index as u64), |state, value| mix(state ^ u64::from(*value)))
}

fn band_tag(band: u64) -> [u8; 4] {
    ((band >> 32) as u32).to_le_bytes()
}

/// Jaccard similarity from the part of equal bytes, less those that are equal by chance.
fn similarity(a: &[u8], b: &[u8]) -> f64 {
    let equal = a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / HASHES as f64;
    (equal - 1.0 / 256.0) / (1.0 - 1.0 / 256.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::words;
    use std::collections::BTreeSet;

    fn text(numbers: impl Iterator<Item = u64>) -> Vec<String> {
        numbers.map(|n| format!("w{}", mix(n) % 100_000)).collect()
    }

    fn jaccard(a: &[String], b: &[String]) -> f64 {
        let set = |words: &[String]| words.windows(SHINGLE).map(|w| w.join(" ")).collect::<BTreeSet<_>>();
        let (a, b) = (set(a), set(b));
        a.intersection(&b).count() as f64 / a.union(&b).count() as f64
    }

    #[test]
    fn rows_above_the_threshold_are_found_and_rows_below_are_not() {
        let (mut above, mut found) = (0, 0);
        for case in 0..200u64 {
            let mut near = Near::open(&format!("case {case}"), 0.8).unwrap();
            let first = text(case * 1000..case * 1000 + 60);
            assert!(!near.is_repeated(&first, "first"));
            // `change` words in a row are others: similarities from 1 down to 0.2.
            let change = case % 40;
            let mut second = first.clone();
            for (i, word) in second.iter_mut().enumerate().take(10 + change as usize).skip(10) {
                *word = format!("other{i}");
            }
            let (alike, repeated) = (jaccard(&first, &second), near.is_repeated(&second, "second"));
            if alike >= 0.9 {
                above += 1;
                found += u32::from(repeated);
            }
            assert!(alike > 0.65 || !repeated, "a similarity of {alike} was taken for 0.8");
        }
        assert!(above >= 10 && found == above, "{found} of {above}");
    }

    #[test]
    fn short_rows_are_compared_as_far_as_they_go() {
        let mut near = Near::open("short", 0.8).unwrap();
        assert!(!near.is_repeated(&words("7?"), "a"));
        assert!(!near.is_repeated(&words("8?"), "b"));
        assert!(near.is_repeated(&words("7 ?"), "c"));
        assert!(!near.is_repeated(&[], "d"));
        assert!(near.is_repeated(&[], "e"));
    }

    #[test]
    fn bands_are_as_long_as_the_threshold_allows() {
        assert_eq!([1.0, 0.9, 0.8, 0.5].map(band_size), [16, 8, 4, 2]);
    }
}
