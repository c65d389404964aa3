//! Answers as models write them, against labels as data sets have them.

use super::*;
use crate::prose::{Last, last_number};
use proptest::prelude::*;
use whet_plugin::testing::{configured, group, sample};

/// `None`: unscorable; else whether it was correct, with the note.
fn judge(config: &str, label: &str, response: &str) -> Option<(bool, String)> {
    let plugin: MathAnswer = configured(config).unwrap();
    match plugin.score(&group(Some(label), &[response])).remove(0) {
        Outcome::Scored(grade) => Some((grade.components[0].value == 1.0, grade.note.unwrap_or_default())),
        Outcome::Unscorable(_) => None,
        Outcome::Failed(error) => panic!("{error}"),
    }
}

fn check(config: &str, cases: &[(&str, &str, bool)]) {
    for &(response, label, expected) in cases {
        let verdict = judge(config, label, response);
        assert_eq!(
            verdict.as_ref().map(|v| v.0),
            Some(expected),
            "{response:?} against {label:?}: {verdict:?}"
        );
    }
}

#[test]
fn what_follows_four_hashes_is_the_answer_wherever_it_stands() {
    let far = format!("9*4 = 36\n#### 36\n{}", "Checking once more gives the same total. ".repeat(20));
    check(
        "{}",
        &[
            (&far, "36", true),
            ("2 minus 9 is -7.\n#### -7", "-7", true),
            ("2 minus 9 is -7.\n#### -7", "7", false),
            ("#### 1,250", "1250", true),
            ("#### 1250", "1,250", true),
            ("#### 18.", "18", true),
            ("#### 18.00", "18", true),
            ("#### $18", "18", true),
            ("#### 18 dollars", "18", true),
            ("#### 5/8", "5/8", true),
            ("#### 5/9", "5/8", false),
            ("#### 0.625", "5/8", true),
            ("#### **42**", "42", true),
            ("#### 4-7=-3", "-3", true),
            ("#### 5 or 6", "6", false),
            ("#### 5 or 6", "5", false),
            ("First #### 3\nno:\n#### 4", "4", true),
            ("First #### 3\nno:\n#### 4", "3", false),
            ("#### Step 2: add\nThat makes 9.", "9", true),
            ("####\n12", "12", true),
            ("3 plus 4\n#### seven", "7", false),
        ],
    );
}

#[test]
fn a_label_may_be_a_worked_solution() {
    let solution = "It starts at 4 and falls by 7: 4-7=<<4-7=-3>>-3 degrees.\n#### -3";
    check("{}", &[("The temperature ends at -3.\n#### -3", solution, true), ("#### 3", solution, false)]);
}

#[test]
fn the_last_box_is_the_answer_and_a_bad_one_ends_the_search() {
    check(
        "{}",
        &[
            ("<think>Maybe \\boxed{3}.</think>\nThe answer is \\boxed{4}.", "4", true),
            ("so \\boxed{004}. Check: 2,552,004. So \\boxed{004} is right", "4", true),
            ("I will use \\boxed as asked. 3*4=12, so $\\boxed{12}$.", "12", true),
            ("the number of paths is $\\boxed 7$.", "7", true),
            ("\\boxed{\n  12\n}", "12", true),
            ("\\boxed{5}", "x=5", true),
            ("\\boxed{x = 5}", "5", true),
            ("\\boxed{25\\text{ cm}}", "25", true),
            ("\\boxed{250\\text{ cm}}", "25", false),
            ("\\boxed{\\text{13}}", "13", true),
            ("first \\boxed{15}. After re-reading it is \\boxed{1", "15", false),
            ("so it is 15: \\boxed{}", "15", false),
            ("<think>use the \\boxed{42} format</think> I could not solve it.", "42", false),
            ("\\boxed{1} is wrong; correcting the sign gives \\boxed{2}.", "1", false),
            ("\\boxed{2\\text{ or }3\\text{ or }4}", "3", false),
            ("\\boxed{2\\text{ or }3\\text{ or }4}", "2", false),
            ("\\boxed{(10^7)!}", "5", false),
            ("\\boxed{\\frac{1}{3\\cdot 2^{206}}}", "206", false),
            ("\\boxed{open('f','w') and 2\\pi}", "2", false),
            ("\\boxed{\\boxed{5}}", "5", true),
        ],
    );
}

#[test]
fn numbers_are_equal_when_their_values_are() {
    check(
        "{}",
        &[
            ("\\boxed{1,234}", "1234", true),
            ("\\boxed{1{,}234}", "1234", true),
            ("\\boxed{0.50}", "\\frac{1}{2}", true),
            ("\\boxed{.5}", "0.5", true),
            ("\\boxed{7.0}", "7", true),
            ("\\boxed{\\frac12}", "0.5", true),
            ("\\boxed{\\$18.90}", "18.9", true),
            ("\\boxed{\\$6{,}350.75}", "\\$6{,}350.75", true),
            ("\\boxed{\u{2212}5}", "5", false),
            ("\\boxed{\u{2212}5}", "-5", true),
            ("\\boxed{-\\$5}", "-5", true),
            ("\\boxed{3\\frac{1}{2}}", "\\frac{3}{2}", false),
            ("\\boxed{3\\frac{1}{2}}", "\\frac{7}{2}", true),
            ("\\boxed{3 1/2}", "3.5", true),
            ("\\boxed{90^\\circ}", "90", true),
            ("\\boxed{3.2\\times 10^{5}}", "3.2\\times 10^{-5}", false),
            ("\\boxed{0.000032}", "3.2\\times 10^{-5}", true),
            ("\\boxed{10^6}", "1000000", true),
            ("\\boxed{5 million}", "5000000", true),
            ("\\boxed{5 million}", "5", false),
            ("\\boxed{123456789012345678}", "123456789012345679", false),
            ("Answer: 9007199254740992", "9007199254740993", false),
            ("\\boxed{2/6}", "1/3", true),
            ("\\boxed{0.333333333333}", "1/3", false),
            ("\\boxed{-0}", "0", true),
            ("\\boxed{0.5}", "50", false),
            ("\\boxed{7.41\\%}", "7.41\\%", true),
            ("\\boxed{28\\%}", "28", true),
            ("\\boxed{0.28}", "28\\%", true),
            ("\\boxed{0.28}", "28", false),
            ("\\boxed{5\\text{ minutes}}", "5\\text{ hours}", false),
            ("\\boxed{5\\text{ hours}}", "5 hour", true),
            ("\\boxed{3\\text{ feet}}", "3\\text{ inches}", false),
            ("\\boxed{1/0}", "1", false),
        ],
    );
}

#[test]
fn without_a_marker_the_last_number_counts() {
    check(
        "{}",
        &[
            ("The shop sold 58 pencils, altogether.", "58", true),
            ("The answer is 3.14", "3", false),
            ("I first think the answer: 5.\nAnswer: 10", "10", true),
            ("I first think the answer: 5.\nAnswer: 10", "5", false),
            ("Adding gives 489.\n\n**Answer:** 489", "489", true),
            ("905, consistent.\nFinal Answer: **73**", "73", true),
            ("Answer: 1,024", "1024", true),
            ("Answer: 0", "0.5", false),
            ("The last digits of \\(2003^{2002^{2001}}\\):\n\\[Answer: 009\\]", "9", true),
            ("4 - 7 = -3", "-3", true),
            ("4 - 7 = -3", "3", false),
            ("It is - 3 = x", "3", true),
            ("The result is -7.", "-7", true),
            ("that costs $1,234.50!", "1234.5", true),
            ("a loss of -$5", "-5", true),
            ("It is \\frac{1}{2}.", "0.5", true),
            ("It is 3 1/2.", "3.5", true),
            ("- 7\n- 8", "8", true),
            ("答案是42。", "42", true),
            ("about 12 %", "0.12", true),
            ("no digits at all, none", "1", false),
            ("The answer is 2^5", "5", false),
            ("It is \\sqrt{17}", "17", false),
            ("It is \\frac{x}{7}", "7", false),
            ("10 - 7", "7", false),
            ("7 * 6", "6", false),
            ("at 3:45", "45", false),
            ("version 1.2.3", "3", false),
            ("solve for x2", "2", false),
            ("that is 7x", "7", false),
            ("1,23", "23", false),
        ],
    );
}

#[test]
fn strict_extraction_wants_a_marker() {
    let strict = r#"{"extraction": "strict"}"#;
    check(strict, &[("The answer is 42", "42", false), ("#### 42", "42", true), ("\\boxed{42}", "42", true)]);
    assert!(judge(strict, "42", "The answer is 42").unwrap().1.starts_with("no answer"));
    assert!(configured::<MathAnswer>(r#"{"extraction": "loose"}"#).is_err());
}

#[test]
fn a_number_that_the_token_limit_cut_off_does_not_count() {
    let plugin = MathAnswer(Extraction::Lenient);
    let label = answer::of_label("12").unwrap();
    let graded = |response: &str| {
        let sample = Sample { finish: FinishReason::Length, ..sample("s", response) };
        plugin.grade(&sample, &label)
    };
    for response in ["the total is 12", "#### 12"] {
        assert!(matches!(graded(response), Outcome::Scored(g) if g.components[0].value == 0.0), "{response}");
    }
    for response in ["the total is 12, since", "#### 12\n", "\\boxed{12}"] {
        assert!(matches!(graded(response), Outcome::Scored(g) if g.components[0].value == 1.0), "{response}");
    }
}

#[test]
fn a_label_that_is_no_number_is_unscorable() {
    let labels =
        ["", ",", "seven", "(1,234)", "19, 46, and 82", "\\frac{1}{2", "2\\pi", "204_5", "1:2:3", "x+1"];
    for label in labels.into_iter().chain(["2x+4y-3=0", "\\infty", "5 or 6", "#### none", "1.2.3", "5!"]) {
        assert_eq!(judge("{}", label, "#### 7"), None, "{label:?}");
    }
    let outcomes = MathAnswer(Extraction::Lenient).score(&group(None, &["1", "2"]));
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Unscorable(_))) && outcomes.len() == 2);
}

#[test]
fn the_note_says_what_was_taken_and_from_where() {
    let note = |response| judge("{}", "1250", response).unwrap().1;
    assert_eq!(note("so\n#### 1,250"), "answer 1,250 (####)");
    assert_eq!(note("so \\boxed{7}"), "answer 7 (boxed)");
    assert_eq!(note("so -$7."), "answer -$7 (last number)");
    assert_eq!(note("so"), "no answer: no number");
    assert_eq!(note("\\boxed{1"), "no answer: the last \\boxed{ is never closed");
}

#[test]
fn numbers_too_long_to_compare_are_no_answer() {
    let long = "9".repeat(100_000);
    assert_eq!(judge("{}", &long, "1"), None);
    for response in
        [long.clone(), format!("\\boxed{{{long}}}"), format!("{long}^{long}"), format!("1e{long}")]
    {
        assert_eq!(judge("{}", "9", &response).map(|v| v.0), Some(false));
    }
}

proptest! {
    #[test]
    fn for_every_text_a_number_token_has_a_digit(text in "[-0-9,.$%#{}a-c \\\\/^:+=\n−é]{0,40}") {
        if let Last::Number { text: token, .. } = last_number(&text) {
            prop_assert!(token.contains(|c: char| c.is_ascii_digit()), "{token:?} in {text:?}");
        }
        if let Found::Number { text: token, .. } = answer::of_response(&text, false, Extraction::Lenient) {
            prop_assert!(token.contains(|c: char| c.is_ascii_digit()), "{token:?} in {text:?}");
        }
    }

    #[test]
    fn for_every_text_extraction_ends_without_a_panic(text in "(\\PC|[#\\\\{}0-9\n]|boxed|frac|</think>){0,60}") {
        for extraction in [Extraction::Lenient, Extraction::Strict] {
            answer::of_response(&text, true, extraction);
        }
        answer::of_label(&text);
    }

    #[test]
    fn for_every_number_changing_the_sign_changes_the_verdict(
        number in "[1-9][0-9]{0,20}(\\.[0-9]{0,5}[1-9])?", place in 0usize..4
    ) {
        let [before, after] = [["The answer is ", ""], ["#### ", "\n"], ["\\boxed{", "}"], ["x = $", "$."]][place];
        let says = |n: &str, label: &str| judge("{}", label, &format!("{before}{n}{after}")).unwrap().0;
        let negative = format!("-{number}");
        prop_assert!(says(&number, &number) && says(&negative, &negative));
        prop_assert!(!says(&number, &negative) && !says(&negative, &number));
    }

    #[test]
    fn for_every_label_the_label_itself_is_right(
        sign in "-?", whole in "[1-9][0-9]{0,2}(,[0-9]{3}){0,3}|[0-9]{1,30}", rest in "(\\.[0-9]{1,9}|/[1-9][0-9]{0,6}|%)?"
    ) {
        let label = format!("{sign}{whole}{rest}");
        for response in [format!("#### {label}"), format!("\\boxed{{{label}}}"), format!("It is {label}")] {
            prop_assert_eq!(judge("{}", &label, &response).map(|v| v.0), Some(true), "{}", response);
        }
    }

    #[test]
    fn for_every_pair_equality_is_that_of_fractions(a in 1i64..500, b in 1i64..500, c in 1i64..500, d in 1i64..500) {
        let equal = judge("{}", &format!("{a}/{b}"), &format!("#### \\frac{{{c}}}{{{d}}}")).unwrap().0;
        prop_assert_eq!(equal, a * d == b * c);
        let symmetric = judge("{}", &format!("{c}/{d}"), &format!("#### {a}/{b}")).unwrap().0;
        prop_assert_eq!(equal, symmetric);
    }
}
