//! Data files as people bring them: what every value says, and what is refused with which words.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whet_recipe::data::{
    DataErrors, DataProblem, Finding, Order, Row, Rows, WarningKind, lint, open, overlap,
};
use whet_recipe::{Columns, Data, DataPath};
use whet_trajectory::{Message, Role};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Files(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> DataPath {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        DataPath { path, slice: None }
    }

    fn read(&self, content: impl AsRef<[u8]>) -> Result<Rows, DataErrors> {
        open(&self.write("x.jsonl", content), &Columns::default())
    }

    /// The words for content that must be refused, with the folder left out.
    fn refusal(&self, content: impl AsRef<[u8]>, slice: &str, columns: &Columns) -> String {
        let path = self.write("x.jsonl", content);
        let path: DataPath = format!("{path}{slice}").parse().unwrap();
        self.words(open(&path, columns))
    }

    fn words(&self, result: Result<Rows, DataErrors>) -> String {
        result
            .expect_err("the file must be refused")
            .to_string()
            .replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn labels(rows: &Rows) -> Vec<Option<&str>> {
    rows.rows.iter().map(|row| row.label.as_deref()).collect()
}

fn turns(row: &Row) -> Vec<(&str, String)> {
    row.prompt.iter().map(|m| (m.role.as_str(), m.joined_text())).collect()
}

/// Cases from public bug reports of loaders, each with the right answer.
#[test]
fn the_cases_of_public_bug_reports_are_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases/data.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut elsewhere = Vec::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        if !case_is_right(id, &case["input"], &case["expected"]) {
            elsewhere.push(id.to_owned());
        }
    }
    // What filters, rewards, instruction checkers and media loading must do is tested where that is.
    let others = [
        "data-filter-mutates",
        "data-image-path",
        "data-dynamic-partial",
        "data-contradiction",
        "data-response-missing",
    ];
    assert_eq!(elsewhere, others);
}

/// Checks one case; false when it is not about reading data.
fn case_is_right(id: &str, input: &Value, expected: &Value) -> bool {
    let files = Files::new();
    let jsonl = input["jsonl"].as_str().unwrap_or_default();
    let read = || files.read(jsonl).unwrap_or_else(|e| panic!("{id}: {e}"));
    let one = |row: &Value| files.read(row.to_string());
    match id {
        "data-label-leading-zero" => assert_eq!(json!(labels(&read())), expected["labels"], "{id}"),
        "data-label-date" => {
            let rows = read();
            assert_eq!(json!(rows.rows[0].label), expected["label"], "{id}");
            assert_eq!(rows.rows[0].metadata["date"], expected["date"], "{id}");
        }
        "data-label-bigint-null" => assert_eq!(labels(&read()), [Some("9007199254740993"), None], "{id}"),
        "data-label-int-null" => assert_eq!(json!(labels(&read())), expected["label_text"], "{id}"),
        "data-label-bool" => assert_eq!(labels(&read()), [Some("true")], "{id}: as JSON writes it"),
        "data-empty-list-first" => {
            let parts = input["jsonl_files"].as_array().unwrap().iter().enumerate();
            let train: Vec<String> = parts
                .map(|(i, text)| files.write(&format!("{i}.jsonl"), text.as_str().unwrap()).to_string())
                .collect();
            let data: Data = serde_json::from_value(json!({"train": train})).unwrap();
            assert_eq!(json!(whet_recipe::data::train(&data).unwrap().rows.len()), expected["rows"], "{id}");
        }
        "data-null-first" | "data-crlf" | "data-bom" | "data-u2028" | "data-extra-field" => {
            let bom: &[u8] = if id == "data-bom" { b"\xEF\xBB\xBF" } else { b"" };
            let rows = files.read([bom, jsonl.as_bytes()].concat()).unwrap_or_else(|e| panic!("{id}: {e}"));
            assert_eq!(json!(rows.rows.len()), expected["rows"], "{id}");
            assert!(
                !rows.rows[0].metadata.contains_key("source"),
                "{id}: a row has no column of another row"
            );
        }
        "data-truncated-last" => {
            let words = files.refusal(jsonl, "", &Columns::default());
            assert!(words.contains(&format!("x.jsonl:{}:", expected["error_line"])), "{id}: {words}");
            assert!(words.contains("fetch it again"), "{id}: {words}");
        }
        "data-array-file" => {
            let rows = files.read(input["json"].as_str().unwrap()).unwrap();
            assert_eq!(json!(rows.rows.len()), expected["rows"], "{id}");
        }
        "data-dup-key" => {
            let rows = read();
            assert_eq!(json!(rows.rows[0].prompt[0].joined_text()), expected["prompt"], "{id}");
            assert_eq!(rows.warnings[0].kind, WarningKind::RepeatedKey { key: "prompt".into() }, "{id}");
        }
        "data-nan" => {
            let words = files.refusal(jsonl, "", &Columns::default());
            assert!(words.contains("x.jsonl:1:") && words.contains("write null"), "{id}: {words}");
        }
        "data-pandas-index" => {
            let columns: Vec<&str> =
                input["parquet_columns"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
            let path = text_parquet(&files, &columns, &[&["a", "1", "0"]]);
            assert_eq!(json!(open(&path, &Columns::default()).unwrap().columns), expected["columns"], "{id}");
        }
        "data-image-count" => {
            let errors = one(&input["row"]).unwrap_err();
            assert!(matches!(errors.errors[0].problem, DataProblem::Media { .. }), "{id}: {errors}");
        }
        "data-dedup-exact" => {
            let lines: Vec<String> = input["prompts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| json!({"prompt": p}).to_string())
                .collect();
            assert_eq!(json!(distinct(&files.read(lines.join("\n")).unwrap())), expected["kept"], "{id}");
        }
        "data-dedup-list-prompt" => {
            let lines: Vec<String> = input["rows"].as_array().unwrap().iter().map(Value::to_string).collect();
            assert_eq!(json!(distinct(&files.read(lines.join("\n")).unwrap())), expected["kept"], "{id}");
        }
        "data-metadata-string" => {
            assert_eq!(one(&input["row"]).unwrap().rows[0].metadata["rm_type"], expected["rm_type"], "{id}");
        }
        "data-sharegpt" => {
            let path = files.write("x.jsonl", input["row"].to_string());
            let columns = Columns { prompt: "conversations".into(), ..Columns::default() };
            let rows = open(&path, &columns).unwrap();
            let messages: Vec<Value> = rows.rows[0].prompt.iter().map(Message::to_json).collect();
            assert_eq!(Value::Array(messages), expected["messages"], "{id}");
        }
        "data-ends-with-assistant" => {
            assert_eq!(one(&input["row"]).unwrap().warnings[0].kind, WarningKind::EndsWithAnswer, "{id}");
        }
        "data-string-prompt-templated" => {
            let words = files.words(one(&input["row"]));
            assert!(
                words.contains("`<|im_start|>`") && words.contains("prompt-format = \"raw\""),
                "{id}: {words}"
            );
            let train = files.write("x.jsonl", input["row"].to_string()).to_string();
            let data: Data = serde_json::from_value(json!({"train": train, "prompt-format": "raw"})).unwrap();
            let rows = whet_recipe::data::train(&data).unwrap();
            assert_eq!(json!(rows.rows[0].prompt[0].joined_text()), input["row"]["prompt"], "{id}");
        }
        // Text stays text unless a person says otherwise; that it looks like messages is worth a word.
        "data-prompt-json-string" => {
            let rows = one(&input["row"]).unwrap();
            assert_eq!(json!(rows.rows[0].prompt[0].joined_text()), input["row"]["prompt"], "{id}");
            assert_eq!(rows.warnings[0].kind, WarningKind::MessagesAsText, "{id}");
        }
        "data-wrap" => {
            let (rows, batch) = (input["rows"].as_u64().unwrap(), input["batch"].as_u64().unwrap());
            let taken = Order::new(rows as usize, 3).rows(0..batch);
            assert_eq!(taken.len() as u64, batch, "{id}: the rest comes from the next epoch");
        }
        "data-first-rows-block" => {
            let mut text = "{\"prompt\":\"a\",\"x\":null}\n".repeat(20_000);
            text.push_str("{\"prompt\":\"b\",\"x\":\"text\"}\n");
            let rows = files.read(text).unwrap();
            assert_eq!(json!(rows.rows.len()), expected["rows"], "{id}");
            assert_eq!(rows.rows[20_000].metadata["x"], "text", "{id}");
        }
        _ => return false,
    }
    true
}

/// Prompts that are left when repetitions are taken out.
fn distinct(rows: &Rows) -> usize {
    let (statistics, findings) = lint(rows);
    let repeated = findings.iter().find_map(|f| match f {
        Finding::DuplicatePrompts { repeated, .. } => Some(*repeated),
        _ => None,
    });
    statistics.rows - repeated.unwrap_or(0)
}

/// A Parquet file of text columns.
fn text_parquet(files: &Files, columns: &[&str], rows: &[&[&str]]) -> DataPath {
    use parquet::data_type::{ByteArray, ByteArrayType};
    let fields: String = columns.iter().map(|c| format!("optional binary {c} (UTF8);")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message m {{ {fields} }}")).unwrap();
    let path = files.0.path().join("x.parquet");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in 0..columns.len() {
        let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(row[column])).collect();
        let mut out = group.next_column().unwrap().unwrap();
        out.typed::<ByteArrayType>().write_batch(&values, Some(&vec![1; rows.len()]), None).unwrap();
        out.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    DataPath { path, slice: None }
}

#[test]
fn parquet_rows_keep_their_texts_and_types() {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
    let files = Files::new();
    let schema = "message m {
        optional binary prompt (UTF8); optional double label; optional int64 big; optional int32 day (DATE);
        optional int32 price (DECIMAL(9, 2)); optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
    }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let path = files.0.path().join("x.parquet");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = |t: &str| ByteArray::from(t);
    let mut next =
        |write: &mut dyn FnMut(&mut parquet::file::writer::SerializedColumnWriter<'_>) -> usize| {
            let mut column = group.next_column().unwrap().unwrap();
            write(&mut column);
            column.close().unwrap();
        };
    next(&mut |c| {
        c.typed::<ByteArrayType>().write_batch(&[text("a"), text("b")], Some(&[1, 1]), None).unwrap()
    });
    next(&mut |c| c.typed::<DoubleType>().write_batch(&[1.0], Some(&[1, 0]), None).unwrap());
    next(&mut |c| {
        c.typed::<Int64Type>().write_batch(&[9_007_199_254_740_993, 7], Some(&[1, 1]), None).unwrap()
    });
    next(&mut |c| c.typed::<Int32Type>().write_batch(&[19_727, 0], Some(&[1, 1]), None).unwrap());
    next(&mut |c| c.typed::<Int32Type>().write_batch(&[1250, 5], Some(&[1, 1]), None).unwrap());
    next(&mut |c| {
        let tags = [text("x"), text("y")];
        c.typed::<ByteArrayType>().write_batch(&tags, Some(&[3, 3, 0]), Some(&[0, 1, 0])).unwrap()
    });
    group.close().unwrap();
    writer.close().unwrap();

    let rows = open(&DataPath { path, slice: None }, &Columns::default()).unwrap();
    assert_eq!(labels(&rows), [Some("1.0"), None]);
    let metadata = &rows.rows[0].metadata;
    assert_eq!(metadata["big"], json!(9_007_199_254_740_993_i64));
    assert_eq!(metadata["day"], "2024-01-05");
    assert_eq!(metadata["price"], "12.50");
    assert_eq!(metadata["tags"], json!(["x", "y"]));
    assert_eq!(rows.rows[1].id, "x.parquet:2");
}

#[test]
fn a_damaged_parquet_file_is_one_clear_error() {
    let files = Files::new();
    let path = files.write("x.parquet", b"PAR1 and then nothing that a reader knows");
    let words = files.words(open(&path, &Columns::default()));
    assert!(words.contains("the data file cannot be read") && words.contains("--> x.parquet"), "{words}");
}

#[test]
fn labels_keep_their_text_whatever_their_type() {
    let files = Files::new();
    let texts =
        ["1.0", "1.50", "-0", "1e3", "123456789012345678901234567890", "0.1000000000000000000001", "true"];
    let mut text: String =
        texts.iter().map(|t| format!("{{\"prompt\": \"a\", \"label\": {t} }}\n")).collect();
    text.push_str(r#"{"prompt": "a", "label": ["a", 1.0]}"#);
    let rows = files.read(text).unwrap();
    let expected: Vec<Option<&str>> = texts.iter().copied().chain([r#"["a", 1.0]"#]).map(Some).collect();
    assert_eq!(labels(&rows), expected);
}

#[test]
fn system_message_and_solved_examples_come_before_the_question() {
    let files = Files::new();
    let solved = files.write("solved.jsonl", "{\"prompt\": \"1 + 1 =\", \"label\": 2}\n").to_string();
    let own_system =
        json!({"prompt": [{"role": "system", "content": "mine"}, {"role": "user", "content": "q"}]});
    let train = files.write("x.jsonl", format!("{{\"prompt\": \"2 + 2 =\"}}\n{own_system}\n")).to_string();
    let data = json!({"train": train, "system": "Be brief.", "examples": solved});
    let rows = whet_recipe::data::train(&serde_json::from_value(data).unwrap()).unwrap();
    let said = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|(role, text)| (*role, (*text).to_owned())).collect()
    };
    let example = [("user", "1 + 1 ="), ("assistant", "2")];
    let first = said(&[&[("system", "Be brief.")][..], &example, &[("user", "2 + 2 =")]].concat());
    let second = said(&[&[("system", "mine")][..], &example, &[("user", "q")]].concat());
    assert_eq!(turns(&rows.rows[0]), first);
    assert_eq!(turns(&rows.rows[1]), second, "a prompt's own system message stays the only one");

    let unsolved = files.write("solved.jsonl", "{\"prompt\": \"1 + 1 =\"}\n").to_string();
    let data: Data = serde_json::from_value(json!({"train": train, "examples": unsolved})).unwrap();
    assert!(files.words(whet_recipe::data::train(&data)).contains("the example has no label"));
}

#[test]
fn rows_carry_id_metadata_and_origin() {
    let files = Files::new();
    let text = "\n{\"id\": 12, \"prompt\": \"a\", \"level\": 3, \"tags\": [\"x\"]}\n{\"prompt\": \"b\"}\n";
    let rows = files.read(text).unwrap();
    let ids: Vec<&str> = rows.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["12", "x.jsonl:3"]);
    assert_eq!(Value::Object(rows.rows[0].metadata.clone()), json!({"level": 3, "tags": ["x"]}));
    assert_eq!(rows.rows[0].origin.line, 2);
    let columns = Columns { metadata: Some(vec!["level".into()]), ..Columns::default() };
    let rows = open(&files.write("x.jsonl", text), &columns).unwrap();
    assert_eq!(Value::Object(rows.rows[0].metadata.clone()), json!({"level": 3}));
}

#[test]
fn two_files_of_one_name_do_not_share_ids() {
    let files = Files::new();
    let paths: Vec<PathBuf> = ["a", "b"].map(|folder| files.0.path().join(folder).join("x.jsonl")).to_vec();
    for path in &paths {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{\"prompt\": \"a\"}\n").unwrap();
    }
    let data: Data = serde_json::from_value(json!({"train": paths})).unwrap();
    let rows = whet_recipe::data::train(&data).unwrap();
    assert_eq!([rows.rows[0].id.as_str(), rows.rows[1].id.as_str()], ["0/x.jsonl:1", "1/x.jsonl:1"]);
}

#[test]
fn a_slice_takes_the_rows_it_says() {
    let files = Files::new();
    let text: String = (0..6).map(|i| format!("{{\"prompt\": \"{i}\"}}\n\n")).collect();
    let path = files.write("x.jsonl", text);
    for (slice, expected) in
        [("[1..3]", "12"), ("[..2]", "01"), ("[4..]", "45"), ("@[5:6]", "5"), ("", "012345")]
    {
        let rows = open(&format!("{path}{slice}").parse().unwrap(), &Columns::default()).unwrap();
        let prompts: String = rows.rows.iter().map(|row| row.prompt[0].joined_text()).collect();
        assert_eq!(prompts, expected, "{slice}");
    }
}

#[test]
fn bad_files_are_refused_with_place_and_remedy() {
    let files = Files::new();
    let default = Columns::default();
    let label = Columns { label: Some("answr".into()), ..Columns::default() };
    let row = "{\"prompt\": \"a\", \"answer\": 1}\n";
    for (content, slice, columns, message, help) in [
        ("", "", &default, "the data file has no rows\n  --> x.jsonl\n", "one JSON object per line"),
        (" \n\n", "", &default, "the data file has no rows", "one JSON object per line"),
        ("[]", "", &default, "the data file has no rows", "one JSON object per line"),
        (row, "[0..2]", &default, "the slice [0..2] reaches beyond the file", "within [0..1]"),
        (row, "[1..]", &default, "the slice [1..] reaches beyond the file", "within [0..1]"),
        (
            row,
            "",
            &label,
            "no row has a column `answr`",
            "did you mean `answer`? Then write `data.columns.label = \"answer\"`",
        ),
        ("{\"question\": \"a\"}", "", &default, "no row has a column `prompt`", "did you mean `question`?"),
        ("{\"q\": 1, \"z\": 2}", "", &default, "no row has a column `prompt`", "has the columns `q` and `z`"),
        (
            "{\"prompt\": null}",
            "",
            &default,
            "the prompt (column `prompt`) is null\n  --> x.jsonl:1\n",
            "give the row a prompt",
        ),
        ("{\"prompt\": \" \"}", "", &default, "(column `prompt`) is empty", "give the row a prompt"),
        ("{\"prompt\": []}", "", &default, "is an empty list", "give the row a prompt"),
        (
            "{\"prompt\": \"a\"}\n{\"x\": 1}",
            "",
            &default,
            "is missing\n  --> x.jsonl:2\n",
            "give the row a prompt",
        ),
        (
            "{\"prompt\": [{\"role\": \"bot\", \"content\": \"a\"}]}",
            "",
            &default,
            "not a list of chat messages",
            "{\"role\": \"user\"",
        ),
        (
            "{\"prompt\": 'a'}",
            "",
            &default,
            "not valid JSON: expected value\n  --> x.jsonl:1:12\n",
            "double quotes",
        ),
        ("{\"prompt\": \"ä\", \"b\": None}", "", &default, "x.jsonl:1:22", "null, true and false"),
        (
            "[{\"prompt\": \"a\"},\n{\"prompt\": }]",
            "",
            &default,
            "not valid JSON: expected value\n  --> x.jsonl:2:12",
            "",
        ),
        ("\"a\"", "", &default, "the row is a text, not an object", "every row is an object"),
        (
            "[{\"prompt\": \"a\"},\n\n 3]",
            "",
            &default,
            "the row is a number, not an object\n  --> x.jsonl:3\n",
            "",
        ),
        (
            "{\"id\": 1, \"prompt\": \"a\"}\n{\"id\": \"1\", \"prompt\": \"b\"}",
            "",
            &default,
            "the id `1` was used before, at x.jsonl:1\n  --> x.jsonl:2",
            "unique",
        ),
        ("{\"prompt\": \"<image> what?\"}", "", &default, "placeholder <image>", "take the row out"),
    ] {
        let words = files.refusal(content, slice, columns);
        assert!(words.contains(message) && words.contains(help), "{content}: {words}");
        assert!(!words.contains("\n\n"), "one mistake, one message: {words}");
    }
    let broken = files.refusal("{\"prompt\": \"a\n\"}\n{\"prompt\": \"b\"}\n", "", &default);
    assert!(
        broken.contains("x.jsonl:1:") && broken.contains("a line break inside a text is written \\n"),
        "{broken}"
    );
    let latin1 = files.words(files.read(b"{\"prompt\": \"\xE4\"}"));
    assert!(latin1.contains("not valid UTF-8\n  --> x.jsonl:1:13\n"), "{latin1}");
    let csv = files.words(open(&files.write("x.csv", "prompt,label\na,1\n"), &default));
    assert!(csv.contains("the data file is CSV"), "{csv}");
    let gzip = files.words(open(&files.write("x.jsonl.gz", b"\x1f\x8b\x08"), &default));
    assert!(gzip.contains("gunzip"), "{gzip}");
    let missing = DataPath { path: files.0.path().join("y.jsonl"), slice: None };
    let words = files.words(open(&missing, &default));
    assert!(
        words.contains("the data file does not exist\n  --> y.jsonl")
            && words.contains("did you mean `x.jsonl`"),
        "{words}"
    );
    let folder = DataPath { path: files.0.path().to_owned(), slice: None };
    assert!(open(&folder, &default).unwrap_err().to_string().contains("it is a folder"));
}

#[test]
fn many_mistakes_are_counted_after_the_first_twenty() {
    let files = Files::new();
    let words =
        files.refusal("{\"prompt\": \"a\"}\n".to_owned() + &"{broken\n".repeat(50), "", &Columns::default());
    assert_eq!(words.matches("error: ").count(), 20);
    assert!(words.ends_with("... and 30 more like these"), "{words}");
}

#[test]
fn the_lint_sees_what_no_single_row_shows() {
    let files = Files::new();
    let rows = |pairs: &[(&str, Option<&str>)]| {
        let lines: Vec<String> =
            pairs.iter().map(|(p, l)| json!({"prompt": p, "label": l}).to_string()).collect();
        files.read(lines.join("\n")).unwrap()
    };
    let found = |pairs: &[(&str, Option<&str>)]| lint(&rows(pairs)).1;
    assert_eq!(found(&[("a", Some("1")), ("b", Some("2"))]), []);
    assert_eq!(found(&[("a", None), ("b", None)]), [Finding::NoLabels]);
    assert_eq!(found(&[("a", Some("1")), ("b", Some("1"))]), [Finding::OneLabel { label: "1".into() }]);
    assert!(matches!(
        &found(&[("a", Some("1")), ("b", None), ("c", Some("2"))])[..],
        [Finding::MissingLabels { missing: 1, .. }]
    ));
    assert!(matches!(
        &found(&[("a", Some("1")), ("a ", Some("2"))])[..],
        [Finding::ConflictingLabels { rows: 1, .. }]
    ));
    let skewed: Vec<(String, Option<&str>)> =
        (0..10).map(|i| (format!("p{i}"), Some(if i == 0 { "no" } else { "yes" }))).collect();
    let skewed: Vec<(&str, Option<&str>)> = skewed.iter().map(|(p, l)| (p.as_str(), *l)).collect();
    assert_eq!(found(&skewed), [Finding::DominantLabel { label: "yes".into(), percent: 90 }]);
    let (statistics, _) = lint(&rows(&skewed));
    assert_eq!((statistics.rows, statistics.labelled, statistics.distinct_labels), (10, 10, 2));
    assert_eq!(statistics.frequent_labels, [("yes".to_owned(), 9), ("no".to_owned(), 1)]);

    let train = rows(&[("What is 2+2?", None), ("b", None)]);
    let test = rows(&[("What  is 2+2? ", None), ("c", None)]);
    assert_eq!(overlap(&train, &test).len(), 1);
}

#[test]
fn a_prompt_of_messages_keeps_every_turn() {
    let files = Files::new();
    let row = json!({"prompt": [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]});
    let prompt = files.read(row.to_string()).unwrap().rows.remove(0).prompt;
    assert_eq!(prompt.iter().map(|m| m.role).collect::<Vec<_>>(), [Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(prompt[1].tool_calls[0].name, "w");
}

proptest! {
    #[test]
    fn for_every_length_each_epoch_takes_every_row_once(len in 1usize..200, seed: u64, epoch in 0u64..5) {
        let order = Order::new(len, seed);
        let mut rows = order.rows(epoch * len as u64..(epoch + 1) * len as u64);
        rows.sort_unstable();
        prop_assert_eq!(rows, (0..len).collect::<Vec<_>>());
    }

    #[test]
    fn for_every_split_positions_give_the_same_rows(len in 1usize..50, seed: u64, stop in 1u64..200, cut in 0u64..200) {
        let order = Order::new(len, seed);
        let cut = cut.min(stop);
        let resumed = [order.rows(0..cut), order.rows(cut..stop)].concat();
        prop_assert_eq!(resumed, Order::new(len, seed).rows(0..stop));
    }

    #[test]
    fn for_every_text_a_label_reads_back_exactly(label in ".*", number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?") {
        let files = Files::new();
        let text = format!("{}\n{{\"prompt\": \"b\", \"label\": {number}}}\n", json!({"prompt": "a", "label": label}));
        let rows = files.read(text).unwrap();
        prop_assert_eq!(labels(&rows), [Some(label.as_str()), Some(number.as_str())]);
    }
}

#[test]
fn the_order_is_the_same_on_every_machine_and_in_every_version() {
    assert_eq!(Order::new(8, 1).rows(0..16), ORDER_OF_SEED_1);
    assert_ne!(Order::new(8, 2).rows(0..16), ORDER_OF_SEED_1);
    assert_eq!(Order::in_file_order(3).rows(1..5), [1, 2, 0, 1]);
    assert_eq!(Order::new(0, 1).rows(0..5), [] as [usize; 0]);
}

/// Written down once; resuming old runs depends on it.
const ORDER_OF_SEED_1: [usize; 16] = [7, 3, 1, 0, 4, 6, 2, 5, 4, 3, 7, 6, 2, 5, 0, 1];
