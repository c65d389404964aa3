//! Tokenizers: encode, decode, and decode as a stream.

use super::{entries, fixtures, ids, json, name, text};
use serde_json::Value;
use std::path::PathBuf;
use whet_model::Tokenizer;

fn cases() -> Vec<(String, Tokenizer, Value)> {
    let folders: Vec<PathBuf> = entries(&fixtures().join("tokenizers"));
    let found: Vec<_> = folders
        .iter()
        .filter(|folder| folder.join("cases.json").exists())
        .map(|folder| {
            let tokenizer = Tokenizer::from_file(&folder.join("tokenizer.json")).unwrap();
            (name(folder), tokenizer, json(&folder.join("cases.json")))
        })
        .collect();
    assert!(!found.is_empty());
    found
}

fn list<'a>(cases: &'a Value, key: &str) -> &'a [Value] {
    let list = cases[key].as_array().unwrap();
    assert!(!list.is_empty(), "{key}");
    list
}

#[test]
fn texts_become_the_ids_of_the_reference() {
    for (name, tokenizer, cases) in cases() {
        for case in list(&cases, "encode") {
            let text_in = text(case, "text");
            let what = format!("{name}: {text_in:?}");
            let got = tokenizer.encode(text_in, false).unwrap();
            assert_eq!(got, ids(&case["ids"]), "{what}");
            let tokens: Vec<String> = got.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
            assert_eq!(Value::from(tokens), case["tokens"], "{what}");
            assert_eq!(tokenizer.decode(&got, false).unwrap(), text(case, "decoded"), "{what}");
            assert_eq!(tokenizer.decode(&got, true).unwrap(), text(case, "decoded_skip_special"), "{what}");
            if let Some(with_special) = case.get("ids_with_special") {
                assert_eq!(tokenizer.encode(text_in, true).unwrap(), ids(with_special), "{what}");
            }
            if let Some(as_text) = case.get("ids_special_tokens_as_text") {
                assert_eq!(tokenizer.encode_as_text(text_in).unwrap(), ids(as_text), "{what}");
            }
        }
    }
}

#[test]
fn tokens_cover_the_characters_that_the_reference_says() {
    for (name, tokenizer, cases) in cases() {
        for case in list(&cases, "encode") {
            let text_in = text(case, "text");
            let chars = |byte: usize| text_in[..byte].chars().count() as u64;
            let got = tokenizer.encode_with_offsets(text_in, false).unwrap();
            let got = got.iter().map(|(_, r)| Value::from(vec![chars(r.start), chars(r.end)]));
            assert_eq!(got.collect::<Value>(), case["char_offsets"], "{name}: {text_in:?}");
        }
    }
}

#[test]
fn ids_become_the_texts_of_the_reference_even_when_broken() {
    for (name, tokenizer, cases) in cases() {
        for case in list(&cases, "decode") {
            let got = tokenizer.decode(&ids(&case["ids"]), case["skip_special_tokens"] == true).unwrap();
            assert_eq!(got, text(case, "text"), "{name}: {}", case["ids"]);
        }
    }
}

#[test]
fn a_stream_gives_each_text_as_soon_as_the_reference() {
    for (name, tokenizer, cases) in cases() {
        for case in list(&cases, "stream") {
            let skip = case["skip_special_tokens"] == true;
            let mut stream = tokenizer.stream(skip);
            let mut joined = String::new();
            for (id, chunk) in ids(&case["ids"]).into_iter().zip(list_or_empty(case, "chunks")) {
                let got = stream.push(id).unwrap();
                assert_eq!(Value::from(got.clone()), *chunk, "{name}: {}", case["ids"]);
                joined += got.as_deref().unwrap_or_default();
            }
            // What is held back at the end comes with `finish`, as far as the whole begins with the rest.
            let (full, rest) = (text(case, "full_decode"), stream.finish().unwrap());
            match full.strip_prefix(&joined) {
                Some(expected) => assert_eq!(rest, expected, "{name}: {}", case["ids"]),
                None => assert!(rest.chars().all(|c| c == '\u{FFFD}'), "{name}: {}: {rest:?}", case["ids"]),
            }
        }
    }
}

fn list_or_empty<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn special_ids_are_those_of_the_reference() {
    for (name, tokenizer, cases) in cases() {
        assert_eq!(tokenizer.size() as u64, cases["vocab_size"].as_u64().unwrap(), "{name}");
        for (token, id) in cases["special_ids"].as_object().unwrap() {
            assert_eq!(tokenizer.id(token).map(u64::from), id.as_u64(), "{name}: {token}");
        }
    }
}
