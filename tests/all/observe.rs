//! The run's logs as other programs read them.

use std::path::{Path, PathBuf};
use whet_observe::{EventWriter, Metrics, Recorder, read_metrics};

/// One event as TensorBoard sees it: step, session start, scalars.
#[derive(Debug, Default, PartialEq)]
struct Event {
    step: u64,
    version: Option<String>,
    session_start: bool,
    scalars: Vec<(String, f32)>,
}

/// crc32c bit by bit, from the polynomial: it shares nothing with the table or instruction of the writer.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_right(17)
}

/// Splits a TFRecord file, checking both checksums of every record.
fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let length_crc = u32::from_le_bytes(rest[8..12].try_into().unwrap());
        assert_eq!(unmask(length_crc), crc32c(&rest[..8]), "checksum of the length");
        let data = &rest[12..12 + length];
        let data_crc = u32::from_le_bytes(rest[12 + length..16 + length].try_into().unwrap());
        assert_eq!(unmask(data_crc), crc32c(data), "checksum of the data");
        records.push(data);
        rest = &rest[16 + length..];
    }
    records
}

/// A protobuf field: number, and its value as an integer or as bytes.
enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let take = match key & 7 {
            0 => {
                out.push((key >> 3, Value::Integer(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (value, rest) = bytes.split_at(take);
        out.push((key >> 3, Value::Bytes(value)));
        bytes = rest;
    }
    out
}

fn parse_event(record: &[u8]) -> Event {
    let mut event = Event::default();
    for (number, value) in fields(record) {
        match (number, value) {
            (1, Value::Bytes(time)) => {
                assert!(f64::from_le_bytes(time.try_into().unwrap()) > 1.6e9, "wall time in seconds");
            }
            (2, Value::Integer(step)) => event.step = step,
            (3, Value::Bytes(text)) => event.version = Some(String::from_utf8(text.to_vec()).unwrap()),
            (5, Value::Bytes(summary)) => {
                event.scalars = fields(summary).into_iter().map(parse_scalar).collect()
            }
            (7, Value::Bytes(session)) => {
                event.session_start = fields(session).iter().any(|f| matches!(f, (1, Value::Integer(1))));
            }
            (number, _) => panic!("unexpected field {number}"),
        }
    }
    event
}

fn parse_scalar((number, value): (u64, Value<'_>)) -> (String, f32) {
    let Value::Bytes(entry) = value else { panic!("a summary value is a message") };
    assert_eq!(number, 1);
    let mut scalar = (String::new(), f32::NAN);
    for field in fields(entry) {
        match field {
            (1, Value::Bytes(tag)) => scalar.0 = String::from_utf8(tag.to_vec()).unwrap(),
            (2, Value::Bytes(number)) => scalar.1 = f32::from_le_bytes(number.try_into().unwrap()),
            (number, _) => panic!("unexpected field {number}"),
        }
    }
    scalar
}

fn events_in(dir: &Path) -> Vec<Event> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let bytes: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
    records(&bytes).into_iter().map(parse_event).collect()
}

#[test]
fn tensorboard_events_are_read_by_an_independent_parser() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EventWriter::create(dir.path(), None).unwrap();
    for step in [1, 2, 300] {
        let metrics = Metrics::from([("reward/mean".into(), step as f64 / 4.0), ("loss".into(), -1.5)]);
        writer.scalars(step, &metrics).unwrap();
    }
    let events = events_in(dir.path());
    assert_eq!(events[0].version.as_deref(), Some("brain.Event:2"));
    assert_eq!(events.iter().map(|e| e.step).collect::<Vec<_>>(), [0, 1, 2, 300]);
    assert_eq!(events[3].scalars, [("loss".to_owned(), -1.5), ("reward/mean".to_owned(), 75.0)]);
    let name = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().file_name();
    assert!(name.to_string_lossy().contains("tfevents"), "TensorBoard looks for this part of the name");
}

#[test]
fn a_resumed_run_tells_tensorboard_which_steps_to_forget() {
    let dir = tempfile::tempdir().unwrap();
    let one = Metrics::from([("loss".to_owned(), 1.0)]);
    let mut first = Recorder::open(dir.path(), None, true, false).unwrap();
    for step in 1..=5 {
        first.numbers(step, &one).unwrap();
    }
    drop(first);
    let mut resumed = Recorder::open(dir.path(), Some(3), true, false).unwrap();
    resumed.numbers(4, &one).unwrap();
    let events = events_in(&dir.path().join("tensorboard"));
    let start = events.iter().find(|e| e.session_start).expect("a session start");
    assert_eq!(start.step, 4, "TensorBoard drops what it has from this step on");
    let steps: Vec<u64> =
        read_metrics(&dir.path().join("metrics.jsonl")).unwrap().iter().map(|l| l.step).collect();
    assert_eq!(steps, [1, 2, 3, 4]);
}
