//! The question's side: its options, and which of them the label says are right.

use crate::pick::{self, Context};
use crate::words::{self, Text};
use crate::{Letters, Verdict, shown};
use serde_json::{Map, Value};

/// Options that a question may have at most.
const MAX_OPTIONS: usize = 26;
/// Letters that count where the row does not say how many options there are.
const DEFAULT_OPTIONS: usize = 10;

/// How rows are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The number of the first option where labels are numbers.
    pub first_index: u32,
}

/// A question that responses can be graded against.
#[derive(Clone, Debug)]
pub struct Question {
    count: usize,
    texts: Vec<Text>,
    gold: Gold,
}

#[derive(Clone, Debug)]
enum Gold {
    /// These options.
    Letters(Letters),
    /// A text, of a question whose options the row does not list.
    Text(Box<Text>),
}

impl Question {
    /// Reads a row: its label, and of its metadata `choices` (or `options`), `correct_letter`,
    /// `valid_letters`, and `label` or `answer` where the row has no label.
    ///
    /// The error says why nothing can be right.
    pub fn read(
        label: Option<&str>,
        metadata: &Map<String, Value>,
        options: Options,
    ) -> Result<Question, String> {
        let (names, choices) = choices(metadata)?;
        let count = match metadata.get("valid_letters").and_then(Value::as_array) {
            _ if !choices.is_empty() => choices.len(),
            Some(valid) => {
                valid.iter().filter_map(|v| letter(v.as_str()?)).max().map_or(DEFAULT_OPTIONS, |i| i + 1)
            }
            None => DEFAULT_OPTIONS,
        };
        let texts: Vec<Text> = choices.iter().map(|c| Text::of(c)).collect();
        let mut question = Question { count, texts, gold: Gold::Letters(0) };
        if let Some(Value::String(named)) = metadata.get("correct_letter") {
            let letters = question.letters_of(named).or_else(|| question.named(named, &names));
            let Some(letters) = letters else {
                return Err(format!("`correct_letter` {named:?} is none of the {count} options"));
            };
            question.gold = Gold::Letters(letters);
            return Ok(question);
        }
        let other = ["label", "answer", "correct_answer"].iter().find_map(|key| metadata.get(*key));
        let (text, number) = match (label, other) {
            (Some(label), _) => (label.trim().to_owned(), None),
            (None, Some(Value::Number(n))) => (n.to_string(), n.as_u64()),
            (None, Some(Value::String(text))) => (text.trim().to_owned(), None),
            (None, Some(_)) => return Err("the row's label is neither a text nor a number".into()),
            (None, None) => return Err("the row has no label and its metadata no `correct_letter`".into()),
        };
        if text.is_empty() {
            return Err("the label is empty".into());
        }
        question.gold = question.gold_of(&text, number, &names, options)?;
        Ok(question)
    }

    fn gold_of(
        &self,
        text: &str,
        number: Option<u64>,
        names: &[String],
        options: Options,
    ) -> Result<Gold, String> {
        let inside = match answer_text::tags::last(text, "answer") {
            Some(Ok(inside)) => inside.trim(),
            _ => text,
        };
        if let Some(letters) = self.named(inside, names) {
            return Ok(Gold::Letters(letters));
        }
        let by_text = match number {
            Some(_) => None,
            None => words::same(&self.texts, inside),
        };
        let by_index = number.or_else(|| index(inside)).map(|n| {
            let at = n.checked_sub(u64::from(options.first_index));
            at.filter(|at| *at < self.count as u64).map(|at| 1 << at)
        });
        match (by_text, by_index) {
            (Some(text), Some(Some(index))) if text != index => Err(format!(
                "the label {inside:?} is the text of option {} and the index of option {}: name it by its letter in `correct_letter`",
                shown(text),
                shown(index)
            )),
            (Some(letters), _) | (None, Some(Some(letters))) => Ok(Gold::Letters(letters)),
            (None, Some(None)) if !self.texts.is_empty() => {
                Err(format!("the label {inside:?} is none of the {} options", self.count))
            }
            _ => match self.letters_of(inside) {
                Some(letters) => Ok(Gold::Letters(letters)),
                None if answer_text::is_remark(inside) => {
                    Err(format!("the label {inside:?} is a remark, not an answer"))
                }
                None if self.texts.is_empty() => Ok(Gold::Text(Box::new(Text::of(inside)))),
                None => Err(format!("the label {inside:?} is neither a letter nor the text of one option")),
            },
        }
    }

    /// Whether the right answer is a text that no option is: the row has no choices, and its label is no letter.
    pub fn is_free_text(&self) -> bool {
        matches!(self.gold, Gold::Text(_))
    }

    fn context(&self) -> Context<'_> {
        Context { count: self.count, texts: &self.texts }
    }

    /// What a label that is written like an answer chooses: `C`, `(C)`, `C. 3.6 eV`, `A, C`, `AC`.
    fn letters_of(&self, text: &str) -> Option<Letters> {
        let together = text.len() > 1 && text.bytes().all(|b| b.is_ascii_uppercase());
        if together && text.len() <= self.count {
            let letters: Option<Vec<usize>> = text
                .chars()
                .map(|c| letter(c.encode_utf8(&mut [0; 4])).filter(|i| *i < self.count))
                .collect();
            let letters = letters?;
            return letters
                .windows(2)
                .all(|w| w[0] < w[1])
                .then(|| letters.iter().fold(0, |all, i| all | 1 << i));
        }
        pick::whole(text, self.context())
    }

    /// The option of this name, where the row names its options itself.
    fn named(&self, text: &str, names: &[String]) -> Option<Letters> {
        let bare = text.trim_matches(['(', ')', '.', ' ']);
        names.iter().position(|n| n.eq_ignore_ascii_case(bare)).map(|i| 1 << i)
    }

    /// Grades a response; `cut_off` says that the token limit ended it.
    pub fn grade(&self, response: &str, cut_off: bool) -> Verdict {
        match &self.gold {
            Gold::Letters(gold) => match pick::find(response, self.context(), cut_off) {
                Ok(letters) => {
                    Verdict { correct: letters == *gold, note: format!("answer {}", shown(letters)) }
                }
                Err(why) => Verdict { correct: false, note: format!("no answer: {why}") },
            },
            Gold::Text(gold) => match pick::text(response) {
                Ok(text) => {
                    let note: String = text.trim().chars().take(120).collect();
                    Verdict { correct: gold.is_said_by(&Text::of(text)), note: format!("answer {note}") }
                }
                Err(why) => Verdict { correct: false, note: format!("no answer: {why}") },
            },
        }
    }
}

/// Names and texts of the options: of a list, of an object `{"A": "…"}`, or of two lists side by
/// side as ARC has them. Names are empty where the letters are the names.
fn choices(metadata: &Map<String, Value>) -> Result<(Vec<String>, Vec<String>), String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let (names, texts) = match metadata.get("choices").or_else(|| metadata.get("options")) {
        None | Some(Value::Null) => (Vec::new(), Vec::new()),
        Some(Value::Array(items)) => (Vec::new(), items.iter().map(text).collect::<Vec<_>>()),
        Some(Value::Object(items)) => match (items.get("text"), items.get("label")) {
            (Some(Value::Array(texts)), Some(Value::Array(names))) if texts.len() == names.len() => {
                (names.iter().map(text).collect(), texts.iter().map(text).collect())
            }
            _ => {
                let mut items: Vec<(&String, &Value)> = items.iter().collect();
                items.sort_by(|a, b| (a.0.len(), a.0).cmp(&(b.0.len(), b.0)));
                (items.iter().map(|i| i.0.clone()).collect(), items.iter().map(|i| text(i.1)).collect())
            }
        },
        Some(_) => return Err("`choices` is neither a list nor an object".into()),
    };
    if texts.len() > MAX_OPTIONS {
        return Err(format!("{} options are more than {MAX_OPTIONS}", texts.len()));
    }
    let lettered = names.iter().enumerate().all(|(i, n)| letter(n) == Some(i));
    Ok((if lettered { Vec::new() } else { names }, texts))
}

/// The place of a letter in the alphabet.
fn letter(text: &str) -> Option<usize> {
    match text.trim().as_bytes() {
        [b] if b.is_ascii_alphabetic() => Some(usize::from(b.to_ascii_uppercase() - b'A')),
        _ => None,
    }
}

/// A whole number, also one that a program has printed with its type: `2`, `2.0`, `numpy.int64(2)`.
fn index(text: &str) -> Option<u64> {
    let inside = match text.split_once('(') {
        Some((name, rest)) => {
            let typed = ["int", "numpy.int", "np.int", "torch.tensor", "tensor", "numpy.uint", "np.uint"];
            typed.iter().any(|t| name.starts_with(t)).then_some(())?;
            rest.strip_suffix(')')?.trim()
        }
        None => text.trim(),
    };
    let whole = inside.strip_suffix(".0").unwrap_or(inside);
    let digits = (1..=3).contains(&whole.len()) && whole.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| whole.parse().ok())?
}
