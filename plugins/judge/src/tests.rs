//! Verdicts as judges write them, and what the plugin makes of them.

use super::*;
use proptest::prelude::*;
use whet_plugin::host::judge::{Failure, Reply};
use whet_plugin::testing::{answer_judge, configured, group};

/// The note of a reply's verdict, and what it is worth; none where there is no verdict.
fn read(config: &str, reply: &str) -> Option<(String, f64)> {
    let plugin: Judge = configured(config).unwrap_or_else(|e| panic!("{config}: {e}"));
    verdict::verdict(reply, &plugin.scale).ok().map(|v| (v.note, v.reward))
}

fn note(config: &str, reply: &str) -> Option<String> {
    read(config, reply).map(|(note, _)| note)
}

#[track_caller]
fn all(config: &str, cases: &[(&str, Option<&str>)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(reply, expected)| {
            let found = note(config, reply);
            (found.as_deref() != *expected).then(|| format!("{reply:?}: {found:?}, not {expected:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_pass_and_a_fail_are_told_apart_in_every_form() {
    let cases = [
        ("CORRECT", Some("pass")),
        ("INCORRECT", Some("fail")),
        ("Incorrect.", Some("fail")),
        ("Yes", Some("pass")),
        ("No.", Some("fail")),
        ("Verdict: CORRECT", Some("pass")),
        ("Verdict: INCORRECT", Some("fail")),
        ("**Verdict:** INCORRECT", Some("fail")),
        ("**Final Verdict: Incorrect**", Some("fail")),
        ("Verdict - PASS", Some("pass")),
        ("verdict = fail", Some("fail")),
        ("## Verdict\n\n**FAIL**", Some("fail")),
        ("Verdict:\nFAIL", Some("fail")),
        ("The answer is correct.", Some("pass")),
        ("Overall, the response is incorrect.", Some("fail")),
        ("The final answer is not correct.", Some("fail")),
        ("Therefore, the grade is: FAIL", Some("fail")),
        ("I judge this response as **incorrect**.", Some("fail")),
        ("\"CORRECT\"", Some("pass")),
        ("Decision: ACCEPT", Some("pass")),
        ("Is it equivalent? Yes.", Some("pass")),
        ("The answer is incorrect.", Some("fail")),
        ("The answer is not correct.", Some("fail")),
        ("The answer isn't correct.", Some("fail")),
        ("The response does not match.", Some("fail")),
        ("The final verdict is that the response is incorrect.", Some("fail")),
        ("Judgement: the answer is not correct", Some("fail")),
        ("[[CORRECT]]", Some("pass")),
        ("My verdict: \\boxed{\\text{INCORRECT}}", Some("fail")),
        ("<verdict>PASS</verdict>", Some("pass")),
        ("Score: 1", Some("pass")),
        ("Score: 0", Some("fail")),
        ("[[0]]", Some("fail")),
        ("extracted_final_answer: 5\nreasoning: they agree\ncorrect: yes\nconfidence: 90%", Some("pass")),
        ("correct: no", Some("fail")),
        ("CORRECT: the answer matches the reference.", Some("pass")),
        ("INCORRECT: the correct answer is 5.", Some("fail")),
        ("Reasoning is fine.\nFinal answer: INCORRECT", Some("fail")),
    ];
    all("{}", &cases);
    all(r#"{"scale": "binary"}"#, &cases);
}

#[test]
fn the_last_announced_verdict_counts() {
    all(
        "{}",
        &[
            (
                "The page suggests SUCCESS at first, but the form was not sent.\nFinal verdict: NOT SUCCESS",
                Some("fail"),
            ),
            ("Yes, the method is standard, but the result is wrong. Judgement: No", Some("fail")),
            ("Verdict: CORRECT\nWait, the unit differs.\nVerdict: INCORRECT", Some("fail")),
            ("Criteria: CORRECT if equal, INCORRECT if not.\nVerdict: CORRECT", Some("pass")),
            ("At first INCORRECT came to mind.\n\nCORRECT", Some("pass")),
            ("Final verdict: FAIL\nNote: a verdict of PASS would need a unit.", Some("fail")),
            ("The candidate's final answer: yes. Verdict: INCORRECT", Some("fail")),
            ("The candidate wrote `[[A]]`. Final verdict: [[B]]", Some("B")),
            ("[[A]] has the better style, yet B is right.\nVerdict: [[B]]", Some("B")),
        ],
    );
}

#[test]
fn thoughts_are_no_verdicts() {
    all(
        "{}",
        &[
            ("<think>Verdict: CORRECT? Yes.</think>\nVerdict: INCORRECT", Some("fail")),
            ("<think>It could be INCORRECT.</think>CORRECT", Some("pass")),
            ("It is wrong, I believe.</think>\nVerdict: PASS", Some("pass")),
            ("<think>Verdict: CORRECT, or maybe", None),
            ("<think>Verdict: CORRECT</think>", None),
        ],
    );
}

#[test]
fn what_is_no_verdict_is_none() {
    all(
        "{}",
        &[
            ("", None),
            ("   \n", None),
            ("I'm sorry, but I can't help with that.", None),
            ("I cannot determine whether the answer is correct.", None),
            ("Is the answer correct?", None),
            ("Verdict: CORRECT or INCORRECT", None),
            ("Verdict: CORRECT/INCORRECT", None),
            ("Verdict: partially correct", None),
            ("The answer is mostly correct.", None),
            ("Verdict: unable to judge", None),
            ("Verdict: not sure", None),
            ("Verdict: While it looks correct, it is wrong", None),
            ("Verdict: CORRECT\nVerdict: cannot be decided", None),
            ("The first half is correct. The second half is incorrect. Both matter.", None),
            ("If the unit is right, the answer is correct.", None),
            ("Yes, the method is standard, and the result is wrong.", None),
            ("Score: 7", None),
            ("Verdict:", None),
            ("I am unable to give a verdict of correct or incorrect.", None),
            ("It would be correct.", None),
            ("There are no errors in the question.", None),
        ],
    );
}

#[test]
fn json_is_read_by_its_field() {
    let ten = r#"{"scale_max": 10}"#;
    all(
        ten,
        &[
            (r#"{"reasoning": "score 3 would be too low", "score": 9}"#, Some("0.9")),
            ("```json\n{\"score\": 9}\n```", Some("0.9")),
            ("Here you are:\n```json\n{\"score\": \"7/10\"}\n```\nHope that helps! Score: 3", Some("0.7")),
            (r#"{"score": 3} no, rather {"score": 8}"#, Some("0.8")),
            (r#"{"evaluation": {"Overall Score": 5, "style": {"note": "x"}}, "score": 2}"#, Some("0.5")),
            (r#"{"score": 11}"#, None),
            (r#"{"score": null}"#, None),
            (r#"{"score": "n/a"}"#, None),
            ("{\"reasoning\": \"a\nb\", \"score\": 6}", Some("0.6")),
            (r#"{"reasoning": "long", "score": 1"#, None),
            (r#"{"reasoning": "the score: 3 is too"#, None),
            (r#"{"a": {"b": 1}} Score: 4"#, Some("0.4")),
        ],
    );
    all(
        "{}",
        &[
            (r#"{"explanation": "CORRECT would need 5", "verdict": "INCORRECT"}"#, Some("fail")),
            (r#"{"correct": false}"#, Some("fail")),
            (r#"{"is_correct": true, "answer": "no"}"#, Some("pass")),
            (r#"{"Verdict": "pass"}"#, Some("pass")),
            (r#"{"explanation": "no", "criteria_met": false}"#, Some("fail")),
            (r#"{"verdict": "unsure"}"#, None),
        ],
    );
}

#[test]
fn scores_are_read_with_their_maximum_and_never_cut_to_it() {
    all(
        r#"{"scale": "score", "scale_max": 10}"#,
        &[
            ("Score: 7/10", Some("0.7")),
            ("**Score:** 8", Some("0.8")),
            ("Score: **8**/10.", Some("0.8")),
            ("I would give it 7 out of 10.", Some("0.7")),
            ("Score (0-10): 7", Some("0.7")),
            ("Score on a scale of 0 to 10: 7", Some("0.7")),
            ("Rating for this response: **8**", Some("0.8")),
            ("| Score | 9 |", Some("0.9")),
            ("Final answer: 5 is what it says. Score: 9", Some("0.9")),
            ("Answer: 4", None),
            ("Total score: 8/10", Some("0.8")),
            ("Score of 3 would be: harsh. Score: 6", Some("0.6")),
            ("I rate this response 8.", Some("0.8")),
            ("Overall, the rating for this is 8", Some("0.8")),
            ("I give it a 6. It has 3 errors.", Some("0.6")),
            ("I could give it an 8.", None),
            ("I give 3 reasons and 2 examples.", None),
            ("The score is 10", Some("1.0")),
            ("Score: 0", Some("0.0")),
            ("Rating: [[5]]", Some("0.5")),
            ("7.5", Some("0.75")),
            ("Score: 9.", Some("0.9")),
            ("Accuracy score: 3\nOverall score: 6\nStyle score: 9", Some("0.6")),
            ("A score of 3 would be harsh. Score: 6", Some("0.6")),
            ("Score: 3 is for guesses.\nScore: 8", Some("0.8")),
            ("Score: 11", None),
            ("Score: -1", None),
            ("Score: 8\nScore: 11", None),
            ("Score: 4/5", None),
            ("Score: 90%", None),
            ("Score: 7-8", None),
            ("Score: 7 to 8", None),
            ("Score: 7 or 8", None),
            ("Score: high", None),
            ("There are 3 errors.", None),
            ("Score: 1e1", None),
        ],
    );
    all(r#"{"scale_max": 100}"#, &[("Score: 90%", Some("0.9")), ("Grade: 55/100", Some("0.55"))]);
}

#[test]
fn ratings_are_worth_themselves() {
    all(
        r#"{"scale": [0, 1, 2]}"#,
        &[
            ("Rubric: [[1]] is for partial answers. This one is complete.\nRating: [[2]]", Some("2")),
            ("Rating: 1", Some("1")),
            ("Rating: 1/2", Some("1")),
            ("Rating: [[3]]", None),
            ("Rating: 1.5", None),
        ],
    );
    all(
        r#"{"scale": [1, 5]}"#,
        &[("Rating: 4.5", Some("4.5")), ("Rating: 0", None), ("4 out of 5", Some("4"))],
    );
    assert_eq!(read(r#"{"scale": [0, 1, 2]}"#, "Rating: [[2]]"), Some(("2".into(), 2.0)));
}

#[test]
fn labels_are_whole_words_and_letters_have_their_case() {
    let ab = r#"{"labels": ["A", "B"]}"#;
    all(
        ab,
        &[
            ("As a judge, I considered the evidence carefully. The final grade is B.", Some("B")),
            ("The final grade is A.", Some("A")),
            ("A", Some("A")),
            ("(B)", Some("B")),
            ("I choose option B because A lacks detail.", Some("B")),
            ("Response A is clearly better.", Some("A")),
            ("Should I choose A?", None),
            ("Verdict: A or B", None),
            ("Grade: a", None),
            ("Grade: C", None),
            ("A judge must be careful.", None),
        ],
    );
    let names = r#"{"labels": {"fully supported": 1, "supported": 0.5, "not supported": 0}}"#;
    assert_eq!(read(names, "Label: Not supported."), Some(("not supported".into(), 0.0)));
    assert_eq!(read(names, "It is fully supported by the text."), Some(("fully supported".into(), 1.0)));
    assert_eq!(read(names, "Label: supported"), Some(("supported".into(), 0.5)));
    let two = r#"{"labels": ["SUCCESS", "FAILURE"]}"#;
    assert_eq!(read(two, "Final verdict: NOT SUCCESS"), Some(("FAILURE".into(), 0.0)));
    assert_eq!(read(two, "UNSUCCESSFUL"), None);
}

#[test]
fn the_better_of_two_is_worth_one_where_it_is_the_response() {
    for config in ["{}", r#"{"scale": "pairwise"}"#] {
        assert_eq!(read(config, "Verdict: [[A]]"), Some(("A".into(), 1.0)));
        assert_eq!(read(config, "Verdict: [[B]]"), Some(("B".into(), 0.0)));
        assert_eq!(read(config, "Both are fine.\n[[C]]"), Some(("tie".into(), 0.5)));
        assert_eq!(read(config, "Verdict: Assistant B"), Some(("B".into(), 0.0)));
        assert_eq!(read(config, "My final verdict is: [[B>>A]]"), Some(("B".into(), 0.0)));
        assert_eq!(read(config, "[[A=B]]"), Some(("tie".into(), 0.5)));
        assert_eq!(read(config, "Verdict: [[A]] or [[B]]"), None);
    }
}

#[test]
fn one_question_goes_out_per_sample_and_its_verdict_comes_back() {
    let plugin: Judge = configured(r#"{"system": "Be strict.", "route": "big", "max_tokens": 7}"#).unwrap();
    answer_judge(|request| {
        assert_eq!(
            (request.route.as_deref(), request.max_tokens, request.messages.len()),
            (Some("big"), 7, 2)
        );
        let Part::Text(asked) = &request.messages[1].content[0] else { panic!() };
        assert!(
            asked.contains("<reference>\n4\n</reference>") && !asked.contains("secret thoughts"),
            "{asked}"
        );
        let text = if asked.contains("<response>\n4\n</response>") { "Verdict: CORRECT" } else { "no idea" };
        Ok(Reply { text: text.into(), input_tokens: 1, output_tokens: 1 })
    });
    let outcomes = plugin.score(&group(Some("4"), &["<think>secret thoughts</think>4", "5"]));
    assert_eq!(outcomes[0], Outcome::correct(true).note("pass"));
    assert!(matches!(&outcomes[1], Outcome::Unscorable(why) if why.contains("no idea")), "{:?}", outcomes[1]);
}

#[test]
fn a_judge_that_does_not_answer_is_an_error_and_a_row_without_label_unscorable() {
    let plugin: Judge = configured("{}").unwrap();
    for failure in
        [Failure::TimedOut, Failure::OverBudget, Failure::Denied("x".into()), Failure::Upstream("y".into())]
    {
        answer_judge(move |_| Err(failure.clone()));
        assert!(matches!(plugin.score(&group(Some("4"), &["4"]))[0], Outcome::Failed(_)));
    }
    assert!(matches!(plugin.score(&group(None, &["4"]))[0], Outcome::Unscorable(_)));
    let free: Judge = configured(r#"{"prompt": "Polite? {{response}}"}"#).unwrap();
    answer_judge(|_| Ok(Reply { text: "Yes".into(), input_tokens: 1, output_tokens: 1 }));
    assert_eq!(free.score(&group(None, &["Please."])), [Outcome::correct(true).note("pass")]);
}

#[test]
fn configurations_that_contradict_themselves_are_refused() {
    for config in [
        r#"{"labels": ["A"]}"#,
        r#"{"labels": ["A", "a"]}"#,
        r#"{"labels": ["A", "B"], "scale": "binary"}"#,
        r#"{"scale": "binary", "scale_max": 5}"#,
        r#"{"scale": [5, 1]}"#,
        r#"{"scale": "stars"}"#,
        r#"{"prompt": "{{question}}"}"#,
        r#"{"other": 1}"#,
    ] {
        assert!(configured::<Judge>(config).is_err(), "{config}");
    }
}

proptest! {
    /// Replies are others' text: none of them panics, and a score is finite and of the scale.
    #[test]
    fn for_every_reply_a_verdict_is_of_the_scale(reply in "(?s)[ -~\n{}\\[\\]\"':éB’]{0,200}", words in prop::collection::vec(
        prop::sample::select(vec!["Verdict:", "not", "correct", "INCORRECT", "[[A]]", "{\"score\":", "9}", "Score:", "7/10",
            "or", "\n", "<think>", "</think>", "\\boxed{", "}", ".", "-", "-3", "A", "2"]), 0..12)) {
        let reply = format!("{reply} {}", words.join(" "));
        for config in ["{}", r#"{"scale_max": 10}"#, r#"{"scale": [0, 1, 2]}"#, r#"{"labels": ["A", "correct"]}"#] {
            if let Some((_, reward)) = read(config, &reply) {
                prop_assert!((0.0..=2.0).contains(&reward), "{}: {}", config, reward);
            }
        }
    }
}
