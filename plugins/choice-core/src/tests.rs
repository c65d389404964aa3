//! Which options responses choose, and how labels are read.

use crate::{Options, Question};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn metadata(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn energies() -> Value {
    json!({"choices": ["1.2 eV", "2.4 eV", "3.6 eV", "4.8 eV"]})
}

/// The letter that a response is right for; `-` for none.
fn chosen(response: &str, row: &Value) -> String {
    let mut found = String::new();
    for letter in 'A'..='J' {
        let read = Question::read(Some(&letter.to_string()), &metadata(row.clone()), Options::default());
        if read.is_ok_and(|q| q.grade(response, false).correct) {
            found.push(letter);
        }
    }
    if found.is_empty() { "-".into() } else { found }
}

#[test]
fn the_letter_that_is_presented_as_the_answer_counts() {
    let mut wrong = Vec::new();
    for (response, expected) in [
        ("The calculated answer is 11.\n\nAnswer seems to be A.\n\nAnswer: A", "A"),
        ("So the relation is \\boxed{\\langle H\\rangle \\ll \\Delta E}.\n\n**Answer: D**", "D"),
        ("\\boxed{\\text{C}}", "C"),
        ("The best option is \\boxed{C: the larger gap}.", "C"),
        ("\\boxed{A}\n\nNote that B is a common mistake here.", "A"),
        ("A photon of that energy cannot be absorbed.", "-"),
        ("Error: rate limited", "-"),
        ("The answer is definitely A.", "A"),
        ("The answer is a bit subtle; it is (C).", "C"),
        ("Option A is wrong because the gap is larger. Option B fails too. Final answer: C", "C"),
        ("The answer is not B; the answer is D.", "D"),
        ("(B)", "B"),
        ("Final answer - B", "B"),
        ("b", "B"),
        ("Answer:\n\nB", "B"),
        ("**Answer:** B", "B"),
        ("Answer: A, B", "-"),
        ("<think>Answer: C", "-"),
        ("It comes out as 15 K.", "-"),
        ("The answer is HCl, i.e. option B.", "B"),
        ("Answer: (B)", "B"),
        ("answer: b", "B"),
        ("ANSWER: B", "B"),
        ("Answer: **B**", "B"),
        ("**Answer: B**", "B"),
        ("Answer: \\textbf{(B)} 2.4 eV", "B"),
        ("Answer: B. 2.4 eV", "B"),
        ("Answer: B) 2.4 eV", "B"),
        ("Answer: B - 2.4 eV", "B"),
        ("Answer: $\\boxed{B}$", "B"),
        ("Answer: $B$", "B"),
        ("Answer: \\( \\mathrm{B} \\)", "B"),
        ("Answer: 2.4 eV", "B"),
        ("The answer is 2.4 eV.", "B"),
        ("The answer is 2.4 eV, not 4.8 eV.", "B"),
        ("\\boxed{2.4\\ \\text{eV}}", "B"),
        ("\\boxed{2.4}", "-"),
        ("\\boxed{(b)}", "B"),
        ("\\boxed{\\textbf{(B)}\\ 2.4\\text{ eV}}", "B"),
        ("\\boxed{A \\text{ and } C}", "-"),
        ("\\boxed{B", "-"),
        ("\\boxed{}", "-"),
        ("The correct answer is option (B).", "B"),
        ("The correct choice is B.", "B"),
        ("The correct option: B", "B"),
        ("The answer must therefore be B", "B"),
        ("The answer to this question is B.", "B"),
        ("Therefore, the final answer is: B", "B"),
        ("### Final Answer\n\nB", "B"),
        ("**Final Answer**\n\n**B**", "B"),
        ("B", "B"),
        ("B.", "B"),
        ("**B**", "B"),
        ("B. 2.4 eV", "B"),
        ("B) 2.4 eV", "B"),
        ("B: 2.4 eV", "B"),
        ("B 2.4 eV", "B"),
        ("B, because the gap doubles.", "B"),
        ("B because the gap doubles.", "B"),
        ("Option B", "B"),
        ("Option B.", "B"),
        ("I choose B.", "B"),
        ("I'd go with (B).", "B"),
        ("So it must be option B.", "B"),
        ("B is correct.", "B"),
        ("B is the correct answer.", "B"),
        ("(B) is right", "B"),
        ("B is not the correct answer.", "-"),
        ("B is incorrect.", "-"),
        ("If B is correct, then A is too.", "-"),
        ("If the answer is B, the gap doubles. But it does not.", "-"),
        ("The answer is A or B.", "-"),
        ("Answer: A/B", "-"),
        ("Answer: A and B", "-"),
        ("Answer: A. B is wrong.", "A"),
        ("Answer: A, B is wrong.", "A"),
        ("The answer is A. Hmm, wait. The answer is B.", "B"),
        ("I cannot determine the answer.", "-"),
        ("I am unsure.", "-"),
        ("", "-"),
        ("The answer is E = mc^2, so C", "C"),
        ("<think>It is A.</think>The answer is B", "B"),
        ("It is A.</think>B", "B"),
        ("<answer>B</answer>", "B"),
        ("<answer>(B) 2.4 eV</answer>", "B"),
        ("<answer>A</answer> no: <answer>B</answer>", "B"),
        ("<answer>A or B</answer>", "-"),
        ("<answer>2.4 eV</answer>", "B"),
        ("<answer></answer> B", "-"),
        ("<answer>B", "-"),
        ("A. 1.2 eV\nB. 2.4 eV\nC. 3.6 eV\nD. 4.8 eV", "-"),
        ("A. 1.2 eV\nB. 2.4 eV\nC. 3.6 eV\nD. 4.8 eV\n\nAnswer: B", "B"),
        ("B\n\nExplanation: option A is too low.", "B"),
        ("The energy is 2.4 eV (B).", "B"),
        ("Option A is too low. Option C is wrong. So option B.", "B"),
        ("A, B, C and D are all possible.", "-"),
        ("None of A, B, C, D.", "-"),
        ("Ⓑ", "B"),
        ("Answer：Ｂ", "B"),
        ("答案是B", "B"),
        ("因此，答案为 (B)。", "B"),
        ("故选：B", "B"),
        ("Answer: <b>B</b>", "B"),
        ("Answer: `B`", "B"),
        ("The answer is **B**: 2.4 eV", "B"),
        ("The answer is \"B\".", "B"),
        ("The answer is 'B'.", "B"),
        ("Answer = B", "B"),
        ("Answer -> B", "B"),
        ("Answer B", "B"),
        ("the answer is A because it is the lowest", "A"),
        ("The answer is a.", "A"),
        ("The answer is A", "A"),
        ("Answer: A The lowest level", "-"),
        ("My answer is A.", "A"),
        ("P(A) is 0.5", "-"),
        ("Vitamin B", "-"),
        ("<A>", "A"),
        ("After eliminating A, B and D, C remains.", "C"),
        ("\\boxed{A}\\boxed{B}", "B"),
        ("Final: B", "B"),
        ("B it is.", "B"),
        ("So, B.", "B"),
        ("=> B", "B"),
        ("It should be B", "B"),
        ("Probably B.", "B"),
        ("Is it A? No. Is it B? Yes, B is correct.", "B"),
        ("The answer's C", "C"),
        ("Ответ: C", "C"),
        ("答え：C", "C"),
        ("정답: C", "C"),
        ("I would pick B — a safe choice.", "B"),
        ("The answer is C because I computed the integral.", "C"),
        ("Both A and B are correct.", "-"),
        ("Statement A is false. Statement B is true.", "-"),
        ("Compound B reacts with compound D.", "-"),
        ("Answer: C\n\nReferences: Smith, A. B. and Jones, D.", "C"),
        ("The energy is 3.6 eV, larger than 1.2 eV.", "-"),
        ("In graph A the slope rises.", "-"),
        ("选项 (B) $3.3\\mathrm{MeV}$。", "B"),
    ] {
        let found = chosen(response, &energies());
        if found != expected {
            wrong.push(format!("{found}, not {expected}: {response:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_of_options_are_told_apart() {
    let mut wrong = Vec::new();
    let kelvin = json!({"choices": ["1 K", "5 K", "15 K", "50 K"]});
    let things = json!({"choices": ["Hepatitis A", "Hepatitis B", "a Brownian motion", "None of the above", "H_2O", "D glucose"]});
    let formulas = json!({"choices": ["\\frac{1}{2}", "\\frac{1}{4}", "x^2+1", "10^{-5}"]});
    for (row, response, expected) in [
        (&kelvin, "It comes out as 15 K.", "C"),
        (&kelvin, "It comes out as 5 K.", "B"),
        (&kelvin, "Not 5 K.", "-"),
        (&kelvin, "between 5 K and 15 K", "-"),
        (&things, "The answer is Hepatitis B.", "B"),
        (&things, "Answer: A Brownian motion", "C"),
        (&things, "The answer is none of the above.", "D"),
        (&things, "\\boxed{\\mathrm{H}_2\\mathrm{O}}", "E"),
        (&things, "The answer is D glucose", "F"),
        (&things, "The answer is D", "D"),
        (&formulas, "\\boxed{0.5}", "A"),
        (&formulas, "\\boxed{1+x^2}", "C"),
        (&formulas, "\\boxed{10^{-5}}", "D"),
        (&formulas, "\\boxed{2}", "-"),
    ] {
        let found = chosen(response, row);
        if found != expected {
            wrong.push(format!("{found}, not {expected}: {response:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn labels_are_letters_texts_or_indices() {
    let right = |label: Option<&str>, row: Value, response: &str| {
        Question::read(label, &metadata(row), Options::default()).map(|q| q.grade(response, false).correct)
    };
    let four = |key: &str, value: Value| {
        let mut row = energies();
        row[key] = value;
        row
    };
    for (label, row, response) in [
        (Some("C"), energies(), "C"),
        (Some("(C)"), energies(), "C"),
        (Some("c"), energies(), "C"),
        (Some("C. 3.6 eV"), energies(), "C"),
        (Some("<answer>C</answer>"), energies(), "C"),
        (Some("\\boxed{C}"), energies(), "C"),
        (Some("3.6 eV"), energies(), "C"),
        (Some("2"), energies(), "C"),
        (None, four("label", json!(2)), "C"),
        (None, four("label", json!("numpy.int64(2)")), "C"),
        (None, four("label", json!("C")), "C"),
        (Some("x"), four("correct_letter", json!("C")), "C"),
        (None, json!({"correct_letter": "C"}), "C"),
        (Some("A, C"), energies(), "A and C"),
        (Some("AC"), energies(), "Answer: A, C"),
        (Some("B"), json!({"choices": {"A": "x", "B": "y"}}), "y"),
        (Some("2"), json!({"choices": {"text": ["x", "y"], "label": ["1", "2"]}}), "B"),
        (Some("G"), json!({"choices": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}), "Answer: G"),
        (Some("cat"), json!({}), "<answer>Cat</answer>"),
        (Some("1"), json!({"choices": ["0", "1"]}), "B"),
    ] {
        assert_eq!(right(label, row.clone(), response), Ok(true), "{label:?} {row}");
    }
    for (label, row) in [
        (None, energies()),
        (Some(""), energies()),
        (Some("9.9 eV"), energies()),
        (Some("4"), energies()),
        (Some("2"), json!({"choices": ["1", "2", "3", "4"]})),
        (None, four("correct_letter", json!("E"))),
        (Some("x"), json!({"choices": ["x", "x"]})),
        (Some("A"), json!({"choices": 3})),
    ] {
        assert!(right(label, row.clone(), "A").is_err(), "{label:?} {row}");
    }
    let second = Question::read(Some("2"), &metadata(energies()), Options { first_index: 1 }).unwrap();
    assert!(second.grade("B", false).correct);
}

#[test]
fn a_response_cut_off_at_its_letter_chooses_nothing() {
    let question = Question::read(Some("A"), &metadata(energies()), Options::default()).unwrap();
    assert!(!question.grade("Answer: A", true).correct);
    assert!(question.grade("Answer: (A)", true).correct);
}

/// With work that grows by the square of the text this would not end today.
#[test]
fn work_grows_no_faster_than_the_text() {
    let question = Question::read(Some("A"), &metadata(energies()), Options::default()).unwrap();
    let pieces = [
        "A ",
        "A,",
        "answer ",
        "answer: ",
        "answer is x ",
        "option A ",
        "(A) ",
        "\\boxed{A} ",
        "\\boxed{",
        "\\boxed ",
        "$",
        "(",
        "so A ",
        "<answer>",
        "\\",
        "B is ",
        "2.4 ",
        "2.4 eV ",
        "答案",
        "<think>",
    ];
    for piece in pieces {
        question.grade(&piece.repeat(400_000 / piece.len()), false);
        question.grade(&format!("{}\nA photon.", piece.repeat(400_000 / piece.len())), false);
    }
}

proptest! {
    #[test]
    fn for_every_text_grading_ends_and_at_most_one_letter_is_right(
        text in "(\\PC|[A-Ea-e(). ,:\n*-]|answer|is|option|not|correct|so|\\\\boxed\\{|\\}|\\\\text|<answer>|</answer>|</think>|2.4 eV){0,40}"
    ) {
        prop_assert!(chosen(&text, &energies()).len() <= 1, "{}", chosen(&text, &energies()));
    }

    #[test]
    fn for_every_letter_and_dress_the_answer_is_found(
        letter in 0usize..4,
        dress in 0usize..8,
        lead in prop::sample::select(vec!["Answer: ", "The answer is ", "Final answer:\n", "so the correct option is ", "**Answer:** ", "The best choice is "]),
        before in prop::sample::select(vec!["", "Option A looks good. ", "B is tempting.\n\n", "A photon is absorbed. "]),
    ) {
        let letter = ['A', 'B', 'C', 'D'][letter];
        let dressed = match dress {
            0 => format!("{letter}"),
            1 => format!("({letter})"),
            2 => format!("**{letter}**"),
            3 => format!("\\boxed{{{letter}}}"),
            4 => format!("$\\text{{{letter}}}$"),
            5 => format!("{letter}."),
            6 => format!("{letter})"),
            _ => format!("\\boxed{{\\textbf{{({letter})}}}}"),
        };
        prop_assert_eq!(chosen(&format!("{before}{lead}{dressed}"), &energies()), letter.to_string());
    }
}
