//! The cases of public bug reports, and what must hold for every answer.

use crate::{Answer, Label, Style};
use proptest::prelude::*;

mod ranges;

fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (Answer::of(a).expect(a), Answer::of(b).expect(b));
    assert_eq!(a.equals(&b), b.equals(&a), "asymmetric");
    a.equals(&b)
}

#[test]
fn every_case_of_the_bug_reports_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/cases/math.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let input = &case["input"];
        let field = |name: &str| input[name].as_str().unwrap();
        let style = match field("answer_style") {
            "boxed" => Style::Boxed,
            "answer_line" => Style::AnswerLine,
            "last_number" => Style::LastNumber,
            "gsm8k" => Style::Gsm8k,
            "none" => Style::None,
            other => panic!("{other}"),
        };
        let got = Label::read(field("gold")).is_ok_and(|l| l.grade(field("response"), style, false).correct);
        cases += 1;
        if got != case["expected"].as_bool().unwrap() {
            wrong.push(format!("{}: {} against {}: {got}", case["id"], input["response"], input["gold"]));
        }
    }
    assert!(cases >= 80);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn equal_answers_are_equal() {
    for (a, b) in [
        ("\\sqrt{12}", "2\\sqrt{3}"),
        ("\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}"),
        ("\\frac{1}{1+\\sqrt{2}}", "\\sqrt2-1"),
        ("\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}"),
        ("\\sqrt[3]{16}", "2\\sqrt[3]{2}"),
        ("\\sqrt[3]{-8}", "-2"),
        ("2^{10}", "1024"),
        ("2\\cdot 2^{9999}", "2^{10000}"),
        ("(x+1)^{70}(x+1)", "(x+1)^{71}"),
        ("(x+y)^2", "x^2+2xy+y^2"),
        ("\\frac{x^2-1}{x-1}", "x+1"),
        ("\\sin 2x", "2\\sin x\\cos x"),
        ("\\cos^2 x", "1-\\sin^2 x"),
        ("\\sin\\frac{\\pi}{6}", "\\frac12"),
        ("\\sin 30^\\circ", "0.5"),
        ("\\arctan 1", "\\frac{\\pi}{4}"),
        ("\\ln 8", "3\\ln 2"),
        ("\\ln\\frac{1}{2}", "-\\ln 2"),
        ("\\log_{3} 9", "2"),
        ("e^{x+1}", "e\\cdot e^x"),
        ("2^{x+1}", "2\\cdot 2^x"),
        ("4^x", "2^{2x}"),
        ("e^{i\\pi}", "-1"),
        ("(1+i)^2", "2i"),
        ("\\frac{1}{i}", "-i"),
        ("\\binom{5}{2}", "10"),
        ("5!", "120"),
        ("0.\\overline{3}", "\\frac13"),
        ("3\\frac{1}{2}", "3.5"),
        ("3 1/2", "7/2"),
        ("x = \\pm 2", "x=2 \\text{ or } x=-2"),
        ("1 \\pm \\sqrt{2}", "\\{1-\\sqrt2, 1+\\sqrt2\\}"),
        ("1 < x \\le 3", "(1,3]"),
        ("x \\in (1,3]", "3 \\ge x > 1"),
        ("x>2", "2x > 4"),
        ("-x < -2", "x > 2"),
        ("x<1 \\text{ or } x>2", "(-\\infty,1)\\cup(2,\\infty)"),
        (
            "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
            "\\begin{bmatrix} 1 & 2 \\\\ 3 & \\frac{8}{2} \\end{bmatrix}",
        ),
        ("2:4:6", "1:2:3"),
        ("x=1, y=2", "(1,2)"),
        ("60\\text{ minutes}", "1\\text{ hour}"),
        ("5\\text{ cm}^2", "5 \\text{ square centimeters}"),
        ("5\\text{ m/s}", "5 m/s"),
        ("5 million", "5000000"),
        ("\\$5", "5 dollars"),
        ("-\\$5", "-5"),
        ("50\\%", "50 percent"),
        ("\\{1,2,3\\}", "\\{3,2,1\\}"),
        ("\\emptyset", "\\{\\}"),
        ("y=2x+1", "2x - y + 1 = 0"),
        ("|x|", "\\sqrt{x^2}"),
        ("100,200,300", "100, 200, 300"),
        ("1e-7", "10^{-7}"),
        ("\\text{Yes}", "yes"),
        ("180^\\circ", "180 \\text{ degrees}"),
        ("\\frac{\\pi}{2}", "90^\\circ"),
        ("\\text{(A)}", "A"),
        ("x^{1/2}", "\\sqrt{x}"),
        ("\\frac{a}{b}", "a/b"),
        ("10\\,000", "10000"),
        ("\\{1,2\\}\\cup\\{3\\}", "\\{1,2,3\\}"),
        ("(-\\infty,2)\\cup(2,\\infty)", "\\mathbb{R}\\setminus\\{2\\}"),
        ("\\{x \\mid x > 2\\}", "(2,\\infty)"),
        ("-\\frac{1}{2}\\begin{pmatrix}2\\\\4\\end{pmatrix}", "\\begin{pmatrix}-1\\\\-2\\end{pmatrix}"),
        ("\\sin^2\\frac{x}{2}", "\\frac{1-\\cos x}{2}"),
        ("\\frac{n!}{(n-1)!}", "n"),
        ("f^{-1}(x)=\\frac{x-1}{2}", "\\frac{x}{2}-\\frac12"),
        ("(B) 42", "B"),
        ("(-\\infty,\\infty)", "\\mathbb{R}"),
        ("\\lfloor 3.7 \\rfloor", "3"),
        ("m\\angle ABC = 30^\\circ", "30"),
        ("AB = 9", "9"),
        ("5 \\pmod 7", "5 \\pmod{7}"),
        ("5\\ ", "5"),
        ("\\color{red}{5}", "5"),
        ("= 5", "5"),
        ("\\approx 5", "5"),
        ("\\frac{1}{2} \\text{ or } 0.5", "0.5"),
        ("\\begin{aligned} x&=1\\\\ y&=2\\end{aligned}", "(1,2)"),
        ("1 000 000", "1000000"),
        ("|x| > 1", "(-\\infty,-1)\\cup(1,\\infty)"),
        ("|x| \\le \\frac12", "[-\\frac12, \\frac12]"),
        ("\\{x : x \\ne 2\\}", "(-\\infty,2)\\cup(2,\\infty)"),
        ("45\\text{ mph}", "45 \\text{ miles per hour}"),
        ("\\cos\\theta + i\\sin\\theta", "e^{i\\theta}"),
        ("(x,y)=(1,2)", "y=2, x=1"),
        ("(1,2)", "y=2, x=1"),
        ("\\text{all real numbers}", "\\mathbb{R}"),
        ("\\text{no solution}", "\\emptyset"),
        ("\\binom{n}{2}", "\\frac{n(n-1)}{2}"),
        ("3:4", "\\frac{6}{8}"),
        ("\\frac{dy}{dx}=2x", "2x"),
        ("3:00 \\text{ p.m.}", "3:00 \\text{ PM}"),
        ("\\text{June 5}", "\\text{June } 5"),
        ("B", "\\text{B. } 12"),
        ("40^\\circ\\text{C}", "40"),
        ("|3+4i|", "5"),
        ("|\\sqrt{2}-i|", "\\sqrt3"),
        ("{5 \\choose 2}", "10"),
        ("\\begin{cases}x=1\\\\y=2\\end{cases}", "(1,2)"),
        ("\\text{A and C}", "A, C"),
        ("7=x", "7"),
        ("\\text{approximately }3.5", "3.5"),
        ("1/2 cup", "\\frac12"),
        ("6\\text{ hours }30\\text{ minutes}", "6.5 \\text{ hours}"),
        ("5 feet 6 inches", "66 inches"),
        ("x\\not=2", "x\\ne 2"),
        ("A \\cap B", "A\\cap B"),
        ("40^\\circ C", "40^{\\circ}\\mathrm{C}"),
    ] {
        assert!(equal(a, b), "{a} is {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
}

#[test]
fn words_are_equal_without_regard_to_case_and_products_of_variables_are_not() {
    for words in [
        "Red car",
        "RED CAR",
        "New York",
        "Big Cat",
        "Oak tree",
        "Bus",
        "An ant",
        "Team A",
        "Hot tea",
        "Go home",
        "The big red bus",
        "Ice",
        "Red ball",
        "Blue whale",
        "Sun",
        "Sky",
        "Triangle ABC",
        "Left turn",
        "Ten men",
        "Red car, Big Cat",
        "Red car and New York",
        "\\text{Red car}",
        "\\text{Bus}",
    ] {
        let lower = words.to_lowercase();
        assert!(equal(words, &lower), "{words} is {lower}: {:?} {:?}", Answer::of(words), Answer::of(&lower));
        assert!(!equal(words, &format!("not {lower}")), "{words}");
    }
    for (a, b) in [
        ("AB", "ab"),
        ("X", "x"),
        ("XY", "xy"),
        ("ABC", "abc"),
        ("XYZ", "xyz"),
        ("A and B", "a and b"),
        ("\\sin X", "\\sin x"),
        ("sin X", "sin x"),
        ("A B", "a b"),
        ("Red car", "Red bus"),
        ("Team A", "Team B"),
        ("2X", "2x"),
    ] {
        assert!(!equal(a, b), "{a} is not {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
    for (a, b) in [("xy", "yx"), ("abc", "cab"), ("x y z", "zyx")] {
        assert!(equal(a, b), "{a} is {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
}

#[test]
fn different_answers_are_different() {
    for (a, b) in [
        ("\\sqrt{x^2}", "x"),
        ("\\sqrt{2}", "1.414"),
        ("\\pi", "3.14159"),
        ("\\frac13", "0.3333"),
        ("x+1", "x-1"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "(2,1)"),
        ("(1,234)", "1234"),
        ("x=5", "y=5"),
        ("x=1, y=2", "x=2, y=1"),
        ("x=1, y=2", "(2,1)"),
        ("x > 2", "x < 2"),
        ("x > 2", "x \\ge 2"),
        ("-x < 2", "x < -2"),
        ("3 \\text{ or more}", "3"),
        ("5\\text{ apples}", "5\\text{ pears}"),
        ("5 \\text{ km}", "5 \\text{ m}"),
        ("5\\text{ cm}^2", "5 \\text{ cm}"),
        ("0.5", "50"),
        ("1, 2", "1, 2, 3"),
        ("\\text{Sun}", "\\text{Sunday}"),
        ("\\{1,2\\}", "\\{1,3\\}"),
        ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"),
        ("\\sin x", "\\cos x"),
        ("2^{10000}", "2^{10001}"),
        ("f(x)", "f(y)"),
        ("x_1", "x_2"),
        ("3x+4y+14=0", "0"),
        ("123457", "123456"),
        ("5 or 6", "5"),
        ("\\text{no}", "\\text{yes}"),
        ("-5 \\text{ cm}", "5"),
        ("e^{x}", "e^{-x}"),
        ("\\infty", "1"),
        ("\\sqrt{3-2\\sqrt{2}}", "1-\\sqrt{2}"),
        ("3 \\cdot \\frac12", "3\\frac12"),
        ("1.2.3", "1.2"),
        ("A \\cup B", "A"),
        ("A \\cap B", "A"),
        ("A \\cap B", "A \\cap C"),
        ("(B) 42", "C"),
        ("3:45", "1:15"),
        ("4 2", "42"),
        ("12:00", "1:00"),
        ("3:45", "\\frac{3}{45}"),
        ("|x| > -1", "(1,\\infty)"),
        ("(x,y)=(1,2)", "y=1, x=2"),
        ("e^{i\\theta}", "e^{-i\\theta}"),
        ("\\binom{n}{2}", "\\binom{n}{3}"),
        ("\\sin\\frac{x}{2}", "\\sin x"),
        ("40^\\circ\\text{C}", "40^\\circ\\text{F}"),
        ("\\overrightarrow{AB}", "\\overrightarrow{BA}"),
        ("\\overline{ab}", "\\overline{ba}"),
        ("|1+i|^2", "2i"),
        ("|x+i|", "\\sqrt{x^2+1}"),
        ("\\text{A, C}", "AC"),
        ("7\\text{ (mod 9)}", "7"),
        ("6 \\text{ hours } 30 \\text{ minutes}", "36 \\text{ hours}"),
        ("\\begin{cases}x=1\\\\y=2\\end{cases}", "(2,1)"),
        ("\\begin{cases}1&x>0\\\\0&x\\le 0\\end{cases}", "\\begin{cases}0&x>0\\\\1&x\\le 0\\end{cases}"),
        ("{5 \\choose 2}", "\\frac52"),
        ("\\mathbb{R}\\setminus\\{2\\}", "(-\\infty,3)\\cup(3,\\infty)"),
    ] {
        assert!(!equal(a, b), "{a} is not {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
}

#[test]
fn the_final_answer_is_taken_and_nothing_else() {
    for (style, response, label, expected) in [
        (Style::Boxed, "<think>\\boxed{3}</think> \\boxed{4}", "4", true),
        (Style::Boxed, "<think>\\boxed{4}</think> \\boxed{3}", "4", false),
        (Style::Boxed, "<think> still \\boxed{4}", "4", false),
        (Style::Boxed, "the answer is 4", "4", false),
        (Style::Boxed, "$\\boxed{84}$ $\\boxed{84}$", "84", true),
        (Style::Boxed, "\\boxed{1} or \\boxed{2}", "1", false),
        (Style::Boxed, "\\boxed{\\frac{1}{2}}.", "0.5", true),
        (Style::Boxed, "\\fbox{12}", "12", true),
        (Style::AnswerLine, "The final answer to the problem is 42.", "42", true),
        (Style::AnswerLine, "Answer: 12 apples", "12", true),
        (Style::AnswerLine, "Answer:\n\\[\n42\n\\]", "42", true),
        (Style::AnswerLine, "**Final Answer:** $x = 5$", "5", true),
        (Style::AnswerLine, "Answer: 5 or 6", "5", false),
        (Style::AnswerLine, "Answer: -7", "7", false),
        (Style::AnswerLine, "The answer is $\\frac{1}{2}$, as required.", "1/2", true),
        (Style::AnswerLine, "Answer: 5\n\nNote: the answer is not 6.", "5", true),
        (Style::AnswerLine, "### Answer\n42", "42", true),
        (Style::AnswerLine, "The answer is 42 because 6*7=42.", "42", true),
        (Style::LastNumber, "It was 7 before, now -3.", "-3", true),
        (Style::LastNumber, "so 10 - 7 = 3", "3", true),
        (Style::LastNumber, "so we get 3/4 of it", "0.75", true),
        (Style::LastNumber, "in total $1,234.50.", "1234.5", true),
        (Style::LastNumber, "so \\frac{3}{4}", "0.75", true),
        (Style::LastNumber, "none at all", "1", false),
        (Style::LastNumber, "it is 1.5e3", "1500", true),
        (Style::LastNumber, "it is 2 1/2 hours", "2.5", true),
        (Style::LastNumber, "so $1{,}000$", "1000", true),
        (Style::LastNumber, "... so ...7...", "7", true),
        (Style::LastNumber, "take .5", "0.5", true),
        (Style::LastNumber, "in all 1 000 000.", "1000000", true),
        (Style::LastNumber, "rows of 100 200 300", "300", true),
        (Style::Gsm8k, "#### The answer is 42", "42", true),
        (Style::Gsm8k, "#### Step 2: add\n#### 7", "7", true),
        (Style::AnswerLine, "The answer is therefore 12.", "12", true),
        (Style::AnswerLine, "Answer: approximately 3.14", "3.14", true),
        (Style::AnswerLine, "**Answer** 6", "6", true),
        (Style::AnswerLine, "The answers are 2 and 3.", "2, 3", true),
        (Style::AnswerLine, "Answer: There are 15 ways.", "15", true),
        (Style::AnswerLine, "Answer: There are 15 ways.", "5", false),
        (Style::Boxed, "\\boxed\n{5}", "5", true),
        (Style::Gsm8k, "#### $18", "18", true),
        (Style::Gsm8k, "#### 18 dollars", "18", true),
        (Style::Gsm8k, "18", "18", false),
        (Style::Gsm8k, "#### 4\nno:\n#### 5", "4", false),
        (Style::None, "We get $x=3$ at last.", "3", true),
        (Style::None, "That makes 17 meters.", "17", true),
        (Style::None, "x^2+1", "x^2+1", true),
        (Style::None, "#### 5", "5", true),
    ] {
        let verdict = Label::read(label).unwrap().grade(response, style, false);
        assert_eq!(verdict.correct, expected, "{response:?} against {label:?}: {verdict:?}");
    }
}

#[test]
fn a_response_cut_off_in_its_answer_is_no_answer() {
    let label = Label::read("12").unwrap();
    assert!(!label.grade("Answer: 12", Style::AnswerLine, true).correct);
    assert!(label.grade("Answer: 12", Style::AnswerLine, false).correct);
    assert!(label.grade("so \\boxed{12}", Style::Boxed, true).correct);
}

#[test]
fn labels_that_cannot_be_read_are_refused() {
    for label in ["", "  ", "\\frac{1}{2", "}", "$$", "####", "\\text{}x}", "(see the proof above)", "proof"]
    {
        assert!(Label::read(label).is_err(), "{label:?}");
    }
}

#[test]
fn bombs_are_refused_in_bounded_work() {
    let nested = format!("{}1{}", "(".repeat(1500), ")".repeat(1500));
    let roots = format!("{}2{}", "\\sqrt{1+".repeat(300), "}".repeat(300));
    let product: String = (0..200).map(|i| format!("(x_{{{i}}}+y_{{{i}}}+1)")).collect();
    let surds: String = (2..200).map(|i| format!("+\\sqrt{{{i}}}")).collect();
    let surds = format!("(1{surds})^{{30}}");
    for bomb in [
        "2003^{2002^{2001}}",
        "9^{9^{9^{9^9}}}",
        "(10^7)!",
        "((5!)!)!",
        "10^{1000000000000}",
        "\\binom{1000000}{500000}",
        "(x+y+z+w)^{1000}",
        "\\ln\\ln\\ln 10^{10^{10}}",
        "1e999",
        &nested,
        &roots,
        &product,
        &surds,
    ] {
        assert!(!Answer::of("5").unwrap().equals(&Answer::of(bomb).unwrap()), "{bomb}");
        assert!(equal(bomb, bomb));
    }
}

#[test]
fn unions_of_many_parts_are_compared_in_bounded_work() {
    let parts: Vec<String> = (2..80).map(|i| format!("\\sqrt{{{i}}}+\\sqrt[3]{{{}}}", i + 1)).collect();
    let union = |ends: &mut dyn Iterator<Item = &String>| {
        ends.map(|end| format!("x = {end}")).collect::<Vec<_>>().join(" \\text{ or } ")
            + " \\text{ or } x < 1"
    };
    let (up, down) = (union(&mut parts.iter()), union(&mut parts.iter().rev()));
    equal(&up, &down);
    let some = |ends: &mut dyn Iterator<Item = &String>| union(&mut ends.take(6));
    assert!(equal(&some(&mut parts.iter()), &some(&mut parts[..6].iter().rev())));
}

/// With work that grows by the square of the text this would not end today.
#[test]
fn work_grows_no_faster_than_the_text() {
    let label = Label::read("5").unwrap();
    let pieces = [
        "answer ",
        "answer: not ",
        "answer is x ",
        "\\boxed{5} ",
        "\\boxed{",
        "\\boxed ",
        "\\fbox",
        "$",
        "\\(",
        "$x$ ",
        "#### a ",
        "####",
        "#### 5",
        "5 ",
        "5,",
        "\\frac",
        "so x = ",
        "\\",
        "{",
        "1e",
        "answer\n",
        "<think>",
        "5/",
    ];
    for piece in pieces {
        let text = piece.repeat(400_000 / piece.len());
        for style in [Style::Boxed, Style::AnswerLine, Style::LastNumber, Style::Gsm8k, Style::None] {
            label.grade(&text, style, false);
        }
    }
}

/// Formulas of every kind that has a sign.
fn formula() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (1u32..500).prop_map(|n| n.to_string()),
        (1u32..50, 2u32..50).prop_map(|(a, b)| format!("\\frac{{{a}}}{{{b}}}")),
        (2u32..60).prop_map(|n| format!("\\sqrt{{{n}}}")),
        (1u32..99, 1u32..99).prop_map(|(a, b)| format!("{a}.{b}")),
        Just("\\pi".to_owned()),
        Just("x".to_owned()),
        Just("e".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}+{b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}\\cdot {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("\\frac{{{a}}}{{{b}}}")),
            inner.prop_map(|a| format!("({a})^2")),
        ]
    })
}

proptest! {
    #[test]
    fn for_every_formula_it_equals_itself_and_not_its_negative(f in formula()) {
        let negative = format!("-({f})");
        prop_assert!(equal(&f, &f));
        prop_assert!(equal(&format!("-{negative}"), &f), "{}", f);
        prop_assert!(!equal(&f, &negative));
    }

    #[test]
    fn for_every_formula_one_more_is_another_and_sums_commute(f in formula(), g in formula()) {
        prop_assert!(!equal(&f, &format!("{f}+1")), "{}", f);
        prop_assert!(equal(&format!("{f}+{g}"), &format!("{g}+{f}")), "{} {}", f, g);
        prop_assert!(equal(&format!("({f})({g}+1)"), &format!("({f})({g})+{f}")), "{} {}", f, g);
    }

    #[test]
    fn for_every_pair_of_fractions_equality_is_that_of_integers(a in -99i64..99, b in 1i64..99, c in -99i64..99, d in 1i64..99) {
        prop_assert_eq!(equal(&format!("\\frac{{{a}}}{{{b}}}"), &format!("{c}/{d}")), a * d == c * b);
    }

    #[test]
    fn for_every_text_reading_ends_and_a_label_is_right(text in "(\\PC|[0-9a-z(){}\\[\\],.+*/^_=<>|! -]|\\\\frac|\\\\sqrt|\\\\text|\\\\boxed|\\\\pm|\\\\cup|\\\\begin|\\\\left|\\\\%|\\\\ ){0,40}") {
        if let Ok(label) = Label::read(&text) {
            prop_assert!(label.0.equals(&label.0));
            for style in [Style::Boxed, Style::AnswerLine, Style::LastNumber, Style::Gsm8k, Style::None] {
                label.grade(&format!("Answer: {text}"), style, false);
                label.grade(&text, style, true);
            }
        }
    }
}
