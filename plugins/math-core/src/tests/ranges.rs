//! Sets of real numbers in all the ways that people write them.

use super::equal;
use crate::Answer;
use proptest::prelude::*;

/// Each row is one set in several forms.
const SETS: &[&[&str]] = &[
    &[
        "|x| > 1",
        "1 < |x|",
        "x < -1 \\text{ or } x > 1",
        "x<-1 or x>1",
        "x > 1 \\cup x < -1",
        "(x<-1)\\cup(x>1)",
        "x < -1 \\lor 1 < x",
        "x < -1, x > 1",
        "x < -1 \\text{ and } x > 1",
        "(-\\infty,-1)\\cup(1,\\infty)",
        "(1,+\\infty) \\cup (-\\infty,-1)",
        "x \\in (-\\infty,-1)\\cup(1,\\infty)",
        "x\\in(-\\infty,-1) \\text{ or } x\\in(1,\\infty)",
        "x \\in (-\\infty,-1) \\cup x \\in (1,\\infty)",
        "(-\\infty,-1) \\text{ or } (1,\\infty)",
        "(-\\infty,-1), (1,\\infty)",
        "\\{x \\mid |x| > 1\\}",
        "\\{x \\in \\mathbb{R} : x < -1 \\text{ or } x > 1\\}",
        "\\{x | |x|>1\\}",
        "\\mathbb{R} \\setminus [-1,1]",
        "2|x| - 2 > 0",
        "-|x| < -1",
        "x^2 > 1",
        "x^2 - 1 > 0",
        "x \\notin [-1,1]",
    ],
    &[
        "|x| \\ge 1",
        "x \\le -1 \\text{ or } x \\ge 1",
        "(-\\infty,-1]\\cup[1,\\infty)",
        "\\mathbb{R}\\setminus(-1,1)",
        "1 \\le |x|",
    ],
    &["x < -1 \\text{ or } x \\ge 1", "(-\\infty,-1)\\cup[1,\\infty)", "\\mathbb{R}\\setminus[-1,1)"],
    &[
        "x \\ne 2",
        "2 \\neq x",
        "x < 2 \\text{ or } x > 2",
        "x>2, x<2",
        "(-\\infty,2)\\cup(2,\\infty)",
        "x \\in \\mathbb{R}, x \\ne 2",
        "x\\in\\mathbb{R}\\setminus\\{2\\}",
        "\\mathbb{R} - \\{2\\}",
        "\\{x : x \\ne 2\\}",
        "\\text{all real numbers except } 2",
        "|x-2| > 0",
        "|x - 2| \\ne 0",
        "2x \\ne 4",
        "x \\notin \\{2\\}",
        "x \\not\\in \\{2\\}",
        "(x-2)^2 > 0",
        "\\text{all reals except } x = 2",
    ],
    &["x \\ne 3", "x < 3 \\text{ or } x > 3", "(-\\infty,3)\\cup(3,\\infty)"],
    &[
        "|x| \\le 1",
        "-1 \\le x \\le 1",
        "1 \\ge x \\ge -1",
        "[-1,1]",
        "x \\in [-1,1]",
        "x \\ge -1 \\text{ and } x \\le 1",
        "x \\ge -1, x \\le 1",
        "\\{x \\mid -1 \\le x \\le 1\\}",
        "[-1,0]\\cup[0,1]",
        "[-1,0)\\cup[0,1]",
        "\\mathbb{R}\\setminus((-\\infty,-1)\\cup(1,\\infty))",
    ],
    &["|x| < 1", "-1 < x < 1", "(-1,1)", "x > -1 \\text{ and } x < 1", "-2 < 2x < 2"],
    &["-1 \\le x < 1", "[-1,1)", "1 > x \\ge -1"],
    &[
        "|x-3| < 2",
        "|3-x| < 2",
        "1 < x < 5",
        "(1,5)",
        "-2 < x-3 < 2",
        "-5 < -x < -1",
        "(-\\infty,5)\\cap(1,\\infty)",
        "|2x-6|<4",
        "\\left|\\frac{x-3}{2}\\right| < 1",
        "x>1 \\land x<5",
        "x \\in (1, 5)",
    ],
    &[
        "0 < |x-3| < 2",
        "(1,3)\\cup(3,5)",
        "1<x<5, x \\ne 3",
        "x \\in (1,5), x \\neq 3",
        "(1,5)\\setminus\\{3\\}",
    ],
    &["|x-3| \\le 2", "[1,5]", "1 \\le x \\le 5"],
    &["|x-3| > 2", "x < 1 \\text{ or } x > 5", "(-\\infty,1)\\cup(5,\\infty)"],
    &["x = 0 \\text{ or } x \\ge 2", "\\{0\\}\\cup[2,\\infty)"],
    &[
        "x \\ne \\pm 3",
        "x \\ne 3, -3",
        "x \\ne 3 \\text{ and } x \\ne -3",
        "|x| \\ne 3",
        "\\mathbb{R}\\setminus\\{-3,3\\}",
        "(-\\infty,-3)\\cup(-3,3)\\cup(3,\\infty)",
    ],
    &["x > -3, x \\ne 3", "(-3,3)\\cup(3,\\infty)"],
    &[
        "|x| < \\sqrt{2}",
        "x^2 < 2",
        "-\\sqrt2 < x < \\sqrt2",
        "(-\\sqrt{2}, \\sqrt{2})",
        "\\left(-\\frac{2}{\\sqrt2},\\frac{2}{\\sqrt2}\\right)",
    ],
    &["|x| > \\sqrt{2}", "(-\\infty,-\\sqrt2)\\cup(\\sqrt2,\\infty)", "x>\\sqrt2 \\text{ or } x<-\\sqrt2"],
    &[
        "|x-\\pi| \\ge \\frac{\\pi}{3}",
        "x \\le \\frac{2\\pi}{3} \\text{ or } x \\ge \\frac{4\\pi}{3}",
        "(-\\infty,\\frac{2\\pi}{3}]\\cup[\\frac{4\\pi}{3},\\infty)",
    ],
    &[
        "x \\ge \\sqrt{2}",
        "[\\sqrt{2}, +\\infty)",
        "x \\in [\\sqrt2,\\infty)",
        "\\sqrt{2} \\le x < \\infty",
        "\\{x \\mid x \\geq \\sqrt{2}\\}",
        "\\sqrt2 x \\ge 2",
    ],
    &["\\ln 2 < x < \\ln 3", "(\\ln 2, \\ln 3)"],
    &[
        "|x| \\ge 0",
        "x \\in \\mathbb{R}",
        "\\mathbb{R}",
        "(-\\infty,\\infty)",
        "-\\infty < x < \\infty",
        "\\text{all real numbers}",
        "x < 1 \\text{ or } x \\ge 1",
        "|x| > -1",
    ],
    &["|x| < -1", "\\emptyset", "\\text{no solution}", "\\{\\}"],
];

#[test]
fn a_set_is_equal_in_all_its_forms_and_to_no_other_set() {
    let mut wrong = Vec::new();
    for (i, forms) in SETS.iter().enumerate() {
        for (j, others) in SETS.iter().enumerate() {
            for a in *forms {
                for b in *others {
                    if equal(a, b) != (i == j) {
                        wrong.push(format!("{a}  {}  {b}", if i == j { "is" } else { "is not" }));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn ranges_of_other_variables_and_points_are_no_equal_ranges() {
    for (a, b) in [
        ("|x| > 1", "|y| > 1"),
        ("|x| > 1", "y < -1 \\text{ or } y > 1"),
        ("x < -1 \\text{ or } x > 1", "x < -1 \\text{ or } y > 1"),
        ("(-\\infty,-1)\\cup(1,\\infty)", "x < -1 \\text{ or } y > 1"),
        ("x \\ne 2", "y < 2 \\text{ or } y > 2"),
        ("x \\ne 2", "2"),
        ("x \\ne 2", "x = 2"),
        ("x \\ne \\pm 2", "x = \\pm 2"),
        ("|x| = 1", "|x| \\ge 1"),
        ("x > 1 \\text{ or } x < 3", "x > 1 \\text{ and } x < 3"),
        ("x > 1 \\text{ or } x < 3", "(1,3)"),
        ("(1,2)\\cup(3,4)", "(1,2),(3,4)"),
        ("(1,2)", "\\{1,2\\}"),
        ("1 < x < 2", "1, 2"),
        ("5 < x < 2", "2 < x < 5"),
        ("n \\ge 3, n \\in \\mathbb{Z}", "[3,\\infty)"),
        ("\\{n \\in \\mathbb{Z} \\mid n \\ge 3\\}", "[3,\\infty)"),
        ("\\sqrt{x} > 2", "x > 4, x < 3"),
        ("|x| > |y|", "x > y"),
        ("x > 5\\text{ cm}", "x > 5 \\text{ m}"),
        ("x>a", "x>b"),
        ("(-\\infty,a)\\cup(b,\\infty)", "x<b \\text{ or } x>a"),
        ("|x| < 1.41421356", "|x| < \\sqrt{2}"),
        ("\\text{Red or blue}", "\\text{Red and blue}"),
    ] {
        assert!(!equal(a, b), "{a} is not {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
}

#[test]
fn ends_may_have_names_and_measures() {
    for (a, b) in [
        ("a < x < b", "(a,b)"),
        ("x \\ge a", "x \\in [a,\\infty)"),
        ("0^\\circ < x < 90^\\circ", "(0,90)"),
        ("0^\\circ < x < 90^\\circ", "(0,\\frac{\\pi}{2})"),
        ("20\\% < x < 50\\%", "(0.2,0.5)"),
        ("x > 5\\text{ cm}", "(5,\\infty)"),
        ("D = (-\\infty,1)\\cup(1,\\infty)", "x \\ne 1"),
        ("f(2) < f(1) < f(4)", "f(4) > f(1) > f(2)"),
        ("f(x) > 2", "(2,\\infty)"),
        ("x > \\frac{22}{7} \\text{ or } x > \\pi", "(\\pi,\\infty)"),
        ("e < x < \\pi \\text{ or } \\pi < x < \\sqrt{10}", "(e,\\pi)\\cup(\\pi,\\sqrt{10})"),
        (
            "x < \\sqrt{2+\\sqrt{2}} \\text{ or } x > \\sqrt[3]{7}",
            "(-\\infty,\\sqrt{2+\\sqrt2})\\cup(\\sqrt[3]{7},\\infty)",
        ),
        ("\\{y \\mid y > 2\\}", "\\{x \\mid x > 2\\}"),
        ("\\{n \\in \\mathbb{Z} \\mid n \\ge 3\\}", "\\{n \\in \\mathbb{Z} : n \\geq 3\\}"),
        ("\\theta \\neq \\frac{\\pi}{2}", "\\theta < \\frac{\\pi}{2} \\text{ or } \\theta > \\frac{\\pi}{2}"),
    ] {
        assert!(equal(a, b), "{a} is {b}: {:?} {:?}", Answer::of(a), Answer::of(b));
    }
}

/// Which halves from -5 to 5 belong to a set: enough to tell sets with whole ends within -4 and 4 apart.
type Members = Vec<bool>;

fn members(belongs: impl Fn(i32) -> bool) -> Members {
    (-10..=10).map(belongs).collect()
}

/// A condition on `x`, as its text and its members.
fn condition() -> impl Strategy<Value = (String, Members)> {
    let (end, signs) = (-4i32..5, ["<", "\\le", ">", "\\ge", "\\ne"]);
    let holds = |sign: usize, a: i32, b: i32| [a < b, a <= b, a > b, a >= b, a != b][sign];
    let one = (end.clone(), 0usize..5)
        .prop_map(move |(a, s)| (format!("x {} {a}", signs[s]), members(|x| holds(s, x, 2 * a))));
    let mirrored = (end.clone(), 0usize..5)
        .prop_map(move |(a, s)| (format!("{a} {} x", signs[s]), members(|x| holds(s, 2 * a, x))));
    let absolute = (-1i32..2, 0i32..4, 0usize..5).prop_map(move |(m, r, s)| {
        let text = format!("|x - {m}| {} {r}", signs[s]).replace("- -", "+ ");
        (text, members(|x| holds(s, (x - 2 * m).abs(), 2 * r)))
    });
    let between = (-4i32..4, 1i32..4, 0usize..2, 0usize..2).prop_map(move |(a, width, s, t)| {
        let b = (a + width).min(4);
        (
            format!("{a} {} x {} {b}", signs[s], signs[t]),
            members(|x| holds(s, 2 * a, x) && holds(t, x, 2 * b)),
        )
    });
    prop_oneof![one, mirrored, absolute, between]
}

/// Several conditions in one answer.
fn answer() -> impl Strategy<Value = (String, Members)> {
    let either = |parts: &[(String, Members)]| -> Members {
        (0..21).map(|i| parts.iter().any(|(_, members)| members[i])).collect()
    };
    (prop::collection::vec(condition(), 1..4), 0usize..4).prop_map(move |(parts, join)| {
        let joint = [" \\text{ or } ", " \\cup ", ", ", " \\text{ and } "][join];
        let text = parts.iter().map(|p| p.0.as_str()).collect::<Vec<_>>().join(joint);
        let all: Members = (0..21).map(|i| parts.iter().all(|(_, members)| members[i])).collect();
        let members = if join >= 2 && all.contains(&true) { all } else { either(&parts) };
        (text, members)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn for_every_pair_of_answers_they_are_equal_where_their_members_are((a, x) in answer(), (b, y) in answer()) {
        prop_assert_eq!(equal(&a, &b), x == y, "{} and {}", a, b);
        prop_assert_eq!(equal(&a, &intervals(&y)), x == y, "{} and {}", a, intervals(&y));
        prop_assert!(equal(&a, &intervals(&x)), "{} and {}", a, intervals(&x));
    }
}

/// Members as a union of intervals and points.
fn intervals(members: &Members) -> String {
    let mut parts = Vec::new();
    let mut i = 0;
    while i < members.len() {
        if !members[i] {
            i += 1;
            continue;
        }
        let from = i;
        while i < members.len() && members[i] {
            i += 1;
        }
        // Whole ends have even numbers: a run that begins or ends between them has an open end there.
        let whole = |i: usize| i as i32 - 10;
        let low = match from {
            0 => "(-\\infty".to_owned(),
            _ if whole(from) % 2 == 0 => format!("[{}", whole(from) / 2),
            _ => format!("({}", (whole(from) - 1) / 2),
        };
        let high = match i - 1 {
            20 => "\\infty)".to_owned(),
            last if whole(last) % 2 == 0 => format!("{}]", whole(last) / 2),
            last => format!("{})", (whole(last) + 1) / 2),
        };
        parts.push(format!("{low},{high}"));
    }
    if parts.is_empty() { "\\emptyset".to_owned() } else { parts.join("\\cup") }
}

proptest! {
    #[test]
    fn for_every_absolute_inequality_its_union_is_the_same_set(
        slope in prop_oneof![-5i64..0, 1i64..6], shift in -9i64..9, bound in 1i64..20, open: bool, within: bool
    ) {
        let sign = match (within, open) {
            (true, true) => "<",
            (true, false) => "\\le",
            (false, true) => ">",
            (false, false) => "\\ge",
        };
        let ends = [(-bound - shift, slope), (bound - shift, slope)].map(|(a, b)| (a * b.signum(), b.abs()));
        let [low, high] = if slope > 0 { ends } else { [ends[1], ends[0]] }.map(|(a, b)| format!("\\frac{{{a}}}{{{b}}}"));
        let (from, to) = if open { ('(', ')') } else { ('[', ']') };
        let union = if within {
            format!("{from}{low},{high}{to}")
        } else {
            format!("(-\\infty,{low}{to}\\cup{from}{high},\\infty)")
        };
        let absolute = format!("|{slope}x+{shift}| {sign} {bound}").replace("+-", "-");
        prop_assert!(equal(&absolute, &union), "{} {}", absolute, union);
        let other = format!("|{slope}x+{shift}| {sign} {}", bound + 1).replace("+-", "-");
        prop_assert!(!equal(&other, &union), "{} {}", other, union);
    }

    /// The lesser of two ends decides: squares tell which one is.
    #[test]
    fn for_every_root_and_fraction_their_order_is_that_of_their_squares(n in 1u64..90, a in 1u64..99, b in 1u64..12) {
        let (root, fraction) = (format!("x > \\sqrt{{{n}}}"), format!("x > \\frac{{{a}}}{{{b}}}"));
        let either = format!("{root} \\text{{ or }} {fraction}");
        prop_assert_eq!(equal(&either, &root), n * b * b <= a * a, "{}", either);
        prop_assert_eq!(equal(&either, &fraction), n * b * b >= a * a, "{}", either);
    }
}
