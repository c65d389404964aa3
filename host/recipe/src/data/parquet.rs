//! Parquet files as rows. Dates, times and decimals become their text; bytes that are text stay text.

use super::Table;
use super::error::{DataProblem, Origin, Report};
use super::row::{Cell, RawRow};
use indexmap::IndexMap;
use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::{Map, Number, Value};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Reads every row. `None`, and a report, when the file is damaged.
pub(super) fn read(content: File, file: &Arc<Path>, report: &mut Report) -> Option<Table> {
    let mut failed = |line: usize, error: parquet::errors::ParquetError| {
        let text = error.to_string();
        let message = match text.split_once("Disabled feature at compile time: ") {
            Some((_, codec)) => format!("it is compressed with {codec}; write it with zstd, snappy or gzip"),
            None => format!("{text}; it seems damaged, so write or fetch it again"),
        };
        report.add(Origin { file: file.clone(), line, column: 0 }, DataProblem::Unreadable { message });
    };
    let rows = SerializedFileReader::new(content).map_err(|e| failed(0, e)).ok()?.into_iter();
    let mut table = Table { rows: Vec::new(), warnings: Vec::new() };
    for (index, row) in rows.enumerate() {
        let row = row.map_err(|e| failed(index + 1, e)).ok()?;
        let origin = Origin { file: file.clone(), line: index + 1, column: 0 };
        table.rows.push(RawRow { cells: cells(&row), origin, mark: format!(":{}", index + 1) });
    }
    Some(table)
}

fn cells(row: &Row) -> IndexMap<String, Cell> {
    row.get_column_iter()
        // What pandas writes to remember its index is no data.
        .filter(|(name, _)| !(name.starts_with("__index_level_") && name.ends_with("__")))
        .map(|(name, field)| (name.clone(), cell(field)))
        .collect()
}

fn cell(field: &Field) -> Cell {
    let value = value(field);
    let text = match (&value, field) {
        (Value::Null, _) => None,
        (Value::String(text), _) => Some(text.clone()),
        // `{:?}` keeps the point of 1.0 and the digits of the narrow type.
        (_, Field::Float(number)) => Some(format!("{number:?}")),
        (_, Field::Double(number)) => Some(format!("{number:?}")),
        (other, _) => Some(other.to_string()),
    };
    Cell { text, value }
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => Value::Bool(*flag),
        Field::Byte(n) => Value::from(*n),
        Field::Short(n) => Value::from(*n),
        Field::Int(n) => Value::from(*n),
        Field::Long(n) => Value::from(*n),
        Field::UByte(n) => Value::from(*n),
        Field::UShort(n) => Value::from(*n),
        Field::UInt(n) => Value::from(*n),
        Field::ULong(n) => Value::from(*n),
        Field::Float16(n) => float(f64::from(n.to_f32())),
        // Through its decimal text, so that 0.1 stays 0.1.
        Field::Float(n) => float(n.to_string().parse().unwrap_or(f64::from(*n))),
        Field::Double(n) => float(*n),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => Value::Array(bytes.data().iter().map(|b| Value::from(*b)).collect()),
        },
        Field::Decimal(_)
        | Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => Value::String(field.to_string()),
        Field::Group(row) => {
            Value::Object(row.get_column_iter().map(|(k, f)| (k.clone(), value(f))).collect())
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        Field::MapInternal(map) => {
            let key = |field: &Field| match value(field) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Value::Object(map.entries().iter().map(|(k, v)| (key(k), value(v))).collect::<Map<_, _>>())
        }
    }
}

/// A float as JSON has it; NaN and infinities, which it has not, become their names.
fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}
