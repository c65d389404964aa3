//! The cases of public bug reports, and what must hold for every answer.

use super::*;
use proptest::prelude::*;
use whet_plugin::testing::{configured, group};

fn outcome(config: &str, label: Option<&str>, metadata: &str, response: &str) -> Option<f64> {
    let plugin: F1 = configured(config).unwrap();
    let mut group = group(label, &[response]);
    group.metadata = metadata.to_owned();
    match plugin.score(&group).remove(0) {
        Outcome::Scored(grade) => Some(grade.components[0].value),
        _ => None,
    }
}

fn f1(response: &str, label: &str) -> f64 {
    outcome("{}", Some(label), "{}", response).expect("scored")
}

/// Disputable cases too, as the documentation decides them.
#[test]
fn every_case_of_the_bug_reports_is_right() {
    let mut cases = 0;
    for line in include_str!("../tests/cases.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let input = &case["input"];
        let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let response = input["response"].as_str().or(input["prediction"].as_str()).unwrap_or("");
        let got = f1(response, &text(&input["gold"]));
        assert!((got - case["expected"].as_f64().unwrap()).abs() < 1e-4, "{}: {got}", case["id"]);
        cases += 1;
    }
    assert!(cases >= 17);
}

#[test]
fn words_are_those_of_squad_with_numbers_kept_whole() {
    for (response, label, expected) in [
        ("Paris Paris Paris Paris Paris", "Paris", 1.0 / 3.0),
        ("The Beatles", "beatles", 1.0),
        ("the the", "A", 0.0),
        ("a cat", "A", 0.0),
        ("“Paris”…", "Paris", 1.0),
        ("Ｐａｒｉｓ", "Paris", 1.0),
        ("cafe\u{301}", "café", 1.0),
        ("Straße", "straße", 1.0),
        ("U.S.", "US", 1.0),
        ("O’Brien", "O'Brien", 1.0),
        ("Shakespeare's", "Shakespeares", 1.0),
        ("$3,000.00", "3000", 1.0),
        ("3.50%", "3.5", 1.0),
        ("-$5", "-5", 1.0),
        ("+5", "5", 1.0),
        ("007", "7", 1.0),
        ("0.5", ".5", 1.0),
        ("1,2,3", "123", 1.0),
        ("5-10", "5–10", 1.0),
        ("10:30", "10.30", 0.0),
        ("3.14.", "3.14", 1.0),
        ("-5", "−5", 1.0),
        ("yes", "Yes.", 1.0),
        ("no", "not", 0.0),
        ("yes it is", "yes it was", 2.0 / 3.0),
        ("東京", "東京都", 0.8),
        ("東京 2020", "東京2020", 1.0),
        ("?!", "?!", 1.0),
        ("?", "!", 0.0),
        ("!", "", 0.0),
        ("   ", "", 1.0),
        ("<think>x</think>\n<answer>Marie\nCurie</answer><|im_end|>", "Marie Curie", 1.0),
        ("<answer>Marie Curie", "Marie Curie", 0.0),
        ("<think>Marie Curie", "Marie Curie", 0.0),
    ] {
        let got = f1(response, label);
        assert!((got - expected).abs() < 1e-9, "{response:?} against {label:?}: {got}, not {expected}");
    }
}

#[test]
fn the_best_of_several_right_answers_counts() {
    assert_eq!(f1("NYC", r#"["New York City", "NYC"]"#), 1.0);
    assert_eq!(f1("1912", r#"["1911", 1912]"#), 1.0);
    assert_eq!(outcome("{}", Some("New York"), r#"{"aliases": ["NYC"]}"#, "nyc"), Some(1.0));
    assert_eq!(
        outcome("{}", None, r#"{"answers": {"text": ["NYC"], "answer_start": [0]}}"#, "nyc"),
        Some(1.0)
    );
    assert_eq!(f1("[1", "[1"), 1.0);
    assert_eq!(outcome("{}", None, "{}", "x"), None);
    assert_eq!(outcome("{}", Some("[]"), "{}", "x"), None);
}

#[test]
fn exact_match_wants_the_same_words_in_order() {
    let em = |response, label| outcome(r#"{"metric": "em"}"#, Some(label), "{}", response);
    assert_eq!(em("The Eiffel Tower.", "eiffel tower"), Some(1.0));
    assert_eq!(em("tower eiffel", "eiffel tower"), Some(0.0));
    assert_eq!(em("3,000", "3000"), Some(1.0));
    assert!(configured::<F1>(r#"{"mode": "relax", "metric": "em"}"#).is_err());
    assert!(configured::<F1>(r#"{"metric": "bleu"}"#).is_err());
}

/// Scores that the projects' own functions gave.
#[test]
fn compat_modes_repeat_the_peers_faults() {
    for (response, gold, relax) in [
        ("A", "A", 0.0),
        ("3.14", "314", 1.0),
        ("−5", "-5", 0.0),
        ("1990–1995", "1990-1995", 0.0),
        ("", "", 0.0),
        ("<think>Could be Pierre Curie.</think><answer>Marie Curie</answer>", "Marie Curie", 0.0),
        ("born in 1912 in London", "London 1912", 4.0 / 7.0),
    ] {
        let got = outcome(r#"{"mode": "relax"}"#, Some(gold), "{}", response).unwrap();
        assert!((got - relax).abs() < 1e-9, "{response:?}: {got}");
    }
    let many = "<answer>Paris</answer>".repeat(11);
    for (response, gold, verl) in [
        ("Paris", "Paris", 0.0),
        ("<answer>The Paris!</answer>", "paris", 1.0),
        ("<answer>Rome</answer><answer>Paris</answer>", "Paris", 1.0),
        ("<answer>3.14</answer>", "314", 1.0),
        (many.as_str(), "Paris", 0.25),
    ] {
        assert_eq!(outcome(r#"{"mode": "verl"}"#, Some(gold), "{}", response), Some(verl), "{response:?}");
    }
}

proptest! {
    #[test]
    fn for_every_answer_the_score_lies_in_its_range_and_itself_scores_one(text in "(\\PC|[a-z0-9 .,-]){0,40}", other in "\\PC{0,20}") {
        prop_assume!(!text.contains("<") && !text.contains('[') && !text.contains("◁") && !other.contains('['));
        let config = r#"{"metric": "em"}"#;
        prop_assert_eq!(f1(&text, &text), 1.0);
        let exact = outcome(config, Some(&text), "{}", &text);
        prop_assert_eq!(exact, Some(1.0));
        let one_way = f1(&text, &other);
        prop_assert!((0.0..=1.0).contains(&one_way));
        for config in [r#"{"mode": "relax"}"#, r#"{"mode": "verl"}"#] {
            let got = outcome(config, Some(&other), "{}", &text).unwrap();
            prop_assert!((0.0..=1.0).contains(&got));
        }
    }

    #[test]
    fn for_every_two_bags_of_words_order_does_not_matter_and_sides_may_change(words in prop::collection::vec("[a-e]{2,3}", 1..8), other in prop::collection::vec("[a-e]{2,3}", 1..8)) {
        let reversed: Vec<String> = words.iter().rev().cloned().collect();
        let (a, b) = (words.join(" "), other.join(" "));
        prop_assert_eq!(f1(&a, &b), f1(&reversed.join(" "), &b));
        prop_assert_eq!(f1(&a, &b), f1(&b, &a));
    }
}
