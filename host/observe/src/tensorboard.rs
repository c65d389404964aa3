//! TensorBoard event files: scalars in TFRecord framing.
//!
//! A record is `length: u64 LE, masked crc32c(length), bytes, masked crc32c(bytes)`; the bytes are a
//! protobuf `Event` (tensorflow/core/util/event.proto). Only the handful of fields that scalars need are
//! written, by hand: the format has been frozen for years and a protobuf compiler would be the larger
//! dependency.
//!
//! A resumed run opens a new file whose first event is a session start at the step after the checkpoint:
//! TensorBoard then forgets what the earlier file holds from that step on.

use crate::metrics::unix_seconds;
use crate::{Metrics, ObserveError};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes one event file.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: File,
}

impl EventWriter {
    /// Starts a new event file in `dir`. `resumed_after`: the checkpoint's step, when a run goes on.
    pub fn create(dir: &Path, resumed_after: Option<u64>) -> Result<Self, ObserveError> {
        std::fs::create_dir_all(dir).map_err(ObserveError::write(dir))?;
        let (path, file) = create_unique(dir)?;
        let mut writer = EventWriter { path, file };
        writer.append(&event(unix_seconds(), 0, &[bytes_field(3, b"brain.Event:2")]))?;
        if let Some(step) = resumed_after {
            // SessionLog { status: START }
            writer.append(&event(unix_seconds(), step + 1, &[bytes_field(7, &varint_field(1, 1))]))?;
        }
        Ok(writer)
    }

    /// Writes every number of one step as one event.
    pub fn scalars(&mut self, step: u64, metrics: &Metrics) -> Result<(), ObserveError> {
        let mut summary = Vec::new();
        for (tag, value) in metrics {
            // Summary.Value { tag: 1, simple_value: 2 }
            let mut entry = bytes_field(1, tag.as_bytes());
            entry.extend(float_field(2, *value as f32));
            summary.extend(bytes_field(1, &entry));
        }
        self.append(&event(unix_seconds(), step, &[bytes_field(5, &summary)]))
    }

    fn append(&mut self, data: &[u8]) -> Result<(), ObserveError> {
        self.file
            .write_all(&record(data))
            .and_then(|()| self.file.flush())
            .map_err(ObserveError::write(&self.path))
    }
}

/// The checksum of TFRecord: crc32c, rotated and offset.
pub fn masked_crc32c(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// TensorBoard reads files in the order of their names, so the name begins with the time; the counter
/// keeps runs apart that start within one second.
fn create_unique(dir: &Path) -> Result<(PathBuf, File), ObserveError> {
    let seconds = unix_seconds() as u64;
    let mut counter = 0;
    loop {
        let path = dir.join(format!("events.out.tfevents.{seconds:010}.{counter:04}.whet"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && counter < 9999 => counter += 1,
            Err(e) => return Err(ObserveError::write(&path)(e)),
        }
    }
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut out = Vec::with_capacity(data.len() + 16);
    out.extend(length);
    out.extend(masked_crc32c(&length).to_le_bytes());
    out.extend(data);
    out.extend(masked_crc32c(data).to_le_bytes());
    out
}

fn event(wall_time: f64, step: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![1 << 3 | 1];
    out.extend(wall_time.to_le_bytes());
    out.extend(varint_field(2, step));
    out.extend(fields.concat());
    out
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn varint_field(number: u8, value: u64) -> Vec<u8> {
    let mut out = vec![number << 3];
    out.extend(varint(value));
    out
}

fn bytes_field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    out.extend(varint(value.len() as u64));
    out.extend(value);
    out
}

fn float_field(number: u8, value: f32) -> Vec<u8> {
    let mut out = vec![number << 3 | 5];
    out.extend(value.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_rfc_3720_masked() {
        // RFC 3720 B.4: crc32c of 32 zero bytes is 0x8a9136aa.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        // Rotated right by 15 bits, plus 0xa282ead8, by hand.
        assert_eq!(masked_crc32c(&[0; 32]), 0x0fd7_fffa);
    }

    #[test]
    fn two_runs_within_one_second_write_two_files() {
        let dir = tempfile::tempdir().unwrap();
        drop(EventWriter::create(dir.path(), None).unwrap());
        drop(EventWriter::create(dir.path(), Some(3)).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
