//! `custom`: single tasks, each with one right form.

use super::Build;
use crate::sentence::sentences;
use crate::text::{bare, filled_lines, folded, plain, terms};
use crate::{Args, Check, Finding, Rules};
use std::collections::HashSet;

pub const CHECKS: &[(&str, Build)] = &[
    ("custom:multiples", multiples),
    ("custom:mcq_count_length", mcq_count_length),
    ("custom:reverse_newline", reverse_newline),
    ("custom:word_reverse", word_reverse),
    ("custom:character_reverse", character_reverse),
    ("custom:sentence_alphabet", sentence_alphabet),
    ("custom:european_capitals_sort", european_capitals_sort),
    ("custom:csv_city", csv_city),
    ("custom:csv_special_character", csv_special_character),
    ("custom:csv_quotes", csv_quotes),
    ("custom:date_format_list", date_format_list),
];

/// The multiples of 7 from 10 to 50, and no other number.
fn multiples(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let numbers: Vec<&str> = text.split(|c: char| !c.is_numeric()).filter(|n| !n.is_empty()).collect();
        Finding::of(numbers == ["14", "21", "28", "35", "42", "49"], || "other numbers".into())
    }))
}

/// Four questions labelled `Question`, each with five options and longer than the one before.
fn mcq_count_length(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        // Of each question: its text so far, and how many options.
        let mut questions: Vec<(String, usize)> = Vec::new();
        for line in filled_lines(text) {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("Question") {
                let begun = rest.trim_start().trim_start_matches(|c: char| c.is_numeric());
                questions
                    .push((begun.trim_start_matches(|c: char| ".):;|".contains(c)).trim().to_owned(), 0));
                continue;
            }
            let Some((question, options)) = questions.last_mut() else {
                return Finding::NotFollowed("it does not begin with \"Question\"".into());
            };
            if is_option(line) {
                *options += 1;
            } else if *options == 0 {
                question.push(' ');
                question.push_str(line);
            }
        }
        if questions.len() != 4 {
            return Finding::NotFollowed(format!("{} questions", questions.len()));
        }
        if let Some((_, options)) = questions.iter().find(|(_, options)| *options != 5) {
            return Finding::NotFollowed(format!("{options} options"));
        }
        let lengths: Vec<usize> =
            questions.iter().map(|(question, _)| question.trim().chars().count()).collect();
        Finding::of(lengths.windows(2).all(|pair| pair[0] < pair[1]), || {
            "a question is not longer than the last".into()
        })
    }))
}

/// `A) …` to `E. …`
fn is_option(line: &str) -> bool {
    let mut chars = line.chars();
    matches!((chars.next(), chars.next()), (Some('A'..='E' | 'a'..='e'), Some('.' | ')')))
        && !bare(chars.as_str()).is_empty()
}

/// Countries of Africa, in lower case without accents; the first of each line is the usual name.
const AFRICA: &[&[&str]] = &[
    &["algeria"],
    &["angola"],
    &["benin"],
    &["botswana"],
    &["burkina faso"],
    &["burundi"],
    &["cabo verde", "cape verde"],
    &["cameroon"],
    &["central african republic"],
    &["chad"],
    &["comoros"],
    &[
        "democratic republic of the congo",
        "democratic republic of congo",
        "congo (democratic republic",
        "congo, democratic republic",
        "dr congo",
        "drc",
        "congo-kinshasa",
    ],
    &[
        "republic of the congo",
        "republic of congo",
        "congo (republic",
        "congo, republic",
        "congo-brazzaville",
        "congo",
    ],
    &["djibouti"],
    &["egypt"],
    &["equatorial guinea"],
    &["eritrea"],
    &["eswatini", "swaziland"],
    &["ethiopia"],
    &["gabon"],
    &["gambia", "the gambia"],
    &["ghana"],
    &["guinea"],
    &["guinea-bissau", "guinea bissau"],
    &["ivory coast", "cote d'ivoire"],
    &["kenya"],
    &["lesotho"],
    &["liberia"],
    &["libya"],
    &["madagascar"],
    &["malawi"],
    &["mali"],
    &["mauritania"],
    &["mauritius"],
    &["morocco"],
    &["mozambique"],
    &["namibia"],
    &["niger"],
    &["nigeria"],
    &["rwanda"],
    &["sao tome and principe", "sao tome & principe"],
    &["senegal"],
    &["seychelles"],
    &["sierra leone"],
    &["somalia"],
    &["south africa"],
    &["south sudan"],
    &["sudan"],
    &["tanzania"],
    &["togo"],
    &["tunisia"],
    &["uganda"],
    &["zambia"],
    &["zimbabwe"],
];

/// The country that a line names, its index in the list.
fn country(line: &str) -> Option<usize> {
    let is = |name: &str| {
        line == name
            || (name.contains(['(', ',']) && line.starts_with(name))
            || line.strip_prefix(name).is_some_and(|r| r.starts_with(" ("))
    };
    AFRICA.iter().position(|names| names.iter().any(|name| is(name)))
}

/// From Zimbabwe on, one country a line, in reverse alphabetical order, two missing at most.
fn reverse_newline(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let numbered = |line: &str| {
            line.trim().trim_start_matches(|c: char| c.is_numeric() || ".)*-•# \t".contains(c)).to_owned()
        };
        let lines: Vec<String> = filled_lines(text).map(|line| plain(bare_end(&numbered(line)))).collect();
        let Some(start) = lines.iter().position(|line| line.contains("zimbabwe")) else {
            return Finding::NotFollowed("no Zimbabwe".into());
        };
        let list = &lines[start..];
        if !list.is_sorted_by(|a, b| a >= b) {
            return Finding::NotFollowed("not in reverse order".into());
        }
        let known: HashSet<usize> = list.iter().filter_map(|line| country(line)).collect();
        let others = list.iter().filter(|line| country(line).is_none() && *line != "western sahara").count();
        Finding::of(known.len() >= AFRICA.len() - 2 && others == 0, || {
            format!("{} countries, {others} lines that are none", known.len())
        })
    }))
}

/// Without closing marks, but with a closing bracket.
fn bare_end(line: &str) -> &str {
    line.trim_end_matches(|c: char| c.is_whitespace() || ".,;:*!\"".contains(c))
}

/// A sentence about the bald eagle with its words in reverse.
fn word_reverse(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        let lower = folded(text);
        let words: Vec<&str> = terms(&lower).collect();
        Finding::of(words.windows(2).any(|pair| pair == ["eagle", "bald"]), || "no \"eagle bald\"".into())
    }))
}

/// A sentence about the bald eagle with its letters in reverse.
fn character_reverse(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| Finding::of(folded(text).contains("elgae dlab"), || "no \"elgae dlab\"".into())))
}

/// 26 sentences that begin with A to Z, quotation marks aside.
fn sentence_alphabet(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let sentences = sentences(text);
        if sentences.len() != 26 {
            return Finding::NotFollowed(format!("{} sentences", sentences.len()));
        }
        let begins = |sentence: &str, letter: char| {
            let first = match rules {
                Rules::Right => plain(sentence).chars().find(|c| c.is_alphanumeric()),
                Rules::Official => sentence.to_lowercase().chars().next(),
            };
            first == Some(letter)
        };
        match ('a'..='z').zip(sentences).find(|(letter, sentence)| !begins(sentence, *letter)) {
            None => Finding::Followed,
            Some((letter, _)) => Finding::NotFollowed(format!("no sentence with {letter} in its place")),
        }
    }))
}

/// Capitals north of 45 degrees from north to south, by their usual English names.
#[rustfmt::skip]
const CAPITALS: &[&str] = &[
    "reykjavik", "helsinki", "oslo", "tallinn", "stockholm", "riga", "moscow", "copenhagen", "vilnius", "minsk",
    "dublin", "berlin", "amsterdam", "warsaw", "london", "brussels", "kyiv", "prague", "luxembourg", "paris", "vienna",
    "bratislava", "budapest", "vaduz", "chisinau", "bern", "ljubljana", "zagreb",
];

/// All of them in order. The official list forgets Kyiv, so it may be missing.
fn european_capitals_sort(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, rules| {
        let named = plain(text.trim().trim_end_matches('.'));
        let given: Vec<&str> = named
            .split(',')
            .map(|name| match name.trim() {
                "kiev" => "kyiv",
                "luxembourg city" => "luxembourg",
                "berne" => "bern",
                name => name,
            })
            .filter(|name| !name.is_empty())
            .collect();
        let without_kyiv: Vec<&str> = CAPITALS.iter().copied().filter(|name| *name != "kyiv").collect();
        let right = given == without_kyiv || (rules == Rules::Right && given == CAPITALS);
        Finding::of(right, || "not the capitals from north to south".into())
    }))
}

/// A field of comma-separated values, and whether it was quoted.
type Field = (String, bool);

/// Rows of fields; a quoted field may hold separators, line ends and doubled quotes. Empty lines are
/// left out.
fn table(text: &str, separator: char) -> Vec<Vec<Field>> {
    let mut rows: Vec<Vec<Field>> = Vec::new();
    let (mut row, mut field, mut quoted, mut inside) = (Vec::new(), String::new(), false, false);
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if inside => inside = false,
            '"' if field.trim().is_empty() && !quoted => {
                field.clear();
                (quoted, inside) = (true, true);
            }
            c if c == separator && !inside => {
                row.push((std::mem::take(&mut field), std::mem::take(&mut quoted)))
            }
            '\n' if !inside => {
                row.push((std::mem::take(&mut field), std::mem::take(&mut quoted)));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    row.push((field, quoted));
    rows.push(row);
    rows.retain(|row| row.len() > 1 || !row[0].0.trim().is_empty());
    rows
}

/// A table with these columns and so many rows below them, all of one width.
fn checked_table(
    text: &str,
    separator: char,
    columns: [&str; 5],
    rows: usize,
) -> Result<Vec<Vec<Field>>, Finding> {
    let table = table(text, separator);
    let header = table.first().map(|row| row.iter().map(|(field, _)| field.trim()).collect::<Vec<_>>());
    if header.is_none_or(|header| header != columns) {
        return Err(Finding::NotFollowed("other columns".into()));
    }
    if table.len() != rows + 1 {
        return Err(Finding::NotFollowed(format!("{} rows", table.len() - 1)));
    }
    if table.iter().any(|row| row.len() != columns.len()) {
        return Err(Finding::NotFollowed("a row of another width".into()));
    }
    Ok(table)
}

fn csv_city(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| match checked_table(text, ',', ["ID", "Country", "City", "Year", "Count"], 7) {
        Ok(_) => Finding::Followed,
        Err(why) => why,
    }))
}

/// One field or more is quoted and holds a special character.
fn csv_special_character(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        match checked_table(text, ',', ["ProductID", "Category", "Brand", "Price", "Stock"], 14) {
            Ok(table) => {
                let special = |c: char| !c.is_alphanumeric() && !c.is_whitespace() && c != '_';
                let found =
                    table[1..].iter().flatten().any(|(field, quoted)| *quoted && field.contains(special));
                Finding::of(found, || "no quoted field with a special character".into())
            }
            Err(why) => why,
        }
    }))
}

/// Tabs between fields, and quotes around each.
fn csv_quotes(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| {
        match checked_table(text, '\t', ["StudentID", "Subject", "Grade", "Semester", "Score"], 3) {
            Ok(table) => Finding::of(table.iter().flatten().all(|(_, quoted)| *quoted), || {
                "a field without quotes".into()
            }),
            Err(why) => why,
        }
    }))
}

/// Dates from Napoleon's life as `YYYY-MM-DD`, commas between them, and nothing else.
fn date_format_list(_: &Args) -> Result<Check, String> {
    Ok(Box::new(|text, _| match text.trim().split(',').find(|date| !is_date(date.trim())) {
        None => Finding::Followed,
        Some(other) => {
            let other: String = other.trim().chars().take(40).collect();
            Finding::NotFollowed(format!("\"{other}\" is no date of his life as YYYY-MM-DD"))
        }
    }))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |part: &str, digits: usize| -> Option<u32> {
        (part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && year % 100 != 0 => 29,
        2 => 28,
        _ => 0,
    };
    (1769..=1821).contains(&year) && (1..=days).contains(&day)
}
