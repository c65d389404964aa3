//! Tokens as answers: lists, relations, unions, brackets, and formulas with what stands behind them.

use crate::formula::{MAX_DEPTH, Reader, multiplied};
use crate::syntax::{Expr, Measure, Relation, Value};
use crate::token::{Lexeme, Token};
use crate::units;

/// Reads all tokens as one answer; none when something is left over.
pub fn parse(tokens: &[Lexeme]) -> Option<Value> {
    value(tokens, 0)
}

/// Splits at tokens outside all brackets.
fn split(tokens: &[Lexeme], at: impl Fn(&Token) -> bool) -> Option<Vec<&[Lexeme]>> {
    let (mut depth, mut start) = (0i32, 0);
    let mut parts = Vec::new();
    for (i, lexeme) in tokens.iter().enumerate() {
        match &lexeme.token {
            Token::Mark('(' | '[' | '{') | Token::SetOpen | Token::Begin(_) => depth += 1,
            Token::Mark(')' | ']' | '}') | Token::SetClose | Token::End => depth -= 1,
            token if depth == 0 && at(token) => {
                parts.push(&tokens[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    parts.push(&tokens[start..]);
    (depth == 0).then_some(parts)
}

fn value(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    if tokens.is_empty() || depth > MAX_DEPTH {
        return None;
    }
    if let Some(words) = words_only(tokens).or_else(|| phrase(tokens)) {
        return Some(Value::Text(words));
    }
    if let Some(value) = exception(tokens, depth) {
        return Some(value);
    }
    let parts = split(tokens, |t| matches!(t, Token::Mark(',' | ';') | Token::Separator | Token::Or))?;
    if parts.len() == 1 {
        return clause(tokens, depth);
    }
    let items: Vec<Value> =
        parts.into_iter().filter(|p| !p.is_empty()).map(|p| clause(p, depth)).collect::<Option<_>>()?;
    let items = items.into_iter().flat_map(|item| match item {
        Value::List(inner) => inner,
        other => vec![other],
    });
    let items: Vec<Value> = items.collect();
    let is_range = |item: &Value| matches!(item, Value::Chain(_, relations) if relations.iter().any(|r| *r != Relation::Equal));
    match items.len() {
        0 | 1 => None,
        _ if alternatives(tokens) && items.iter().any(is_range) => Some(Value::Union(items)),
        _ => Some(Value::List(items)),
    }
}

/// Whether `or` stands outside all brackets.
fn alternatives(tokens: &[Lexeme]) -> bool {
    split(tokens, |t| *t == Token::Or).is_some_and(|parts| parts.len() > 1)
}

/// `\text{all real numbers except } 2`
fn exception(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    let (Token::Words(words), rest) = (&tokens.first()?.token, &tokens[1..]) else { return None };
    let words = words.to_lowercase();
    words.trim().strip_suffix("except").filter(|w| matches!(w.trim(), "all real numbers" | "all reals"))?;
    let points = match value(rest, depth + 1)? {
        Value::List(points) => points,
        point => vec![point],
    };
    let named = |point| match point {
        Value::Chain(mut sides, relations) if sides.len() == 2 && relations == [Relation::Equal] => {
            sides.remove(1)
        }
        point => point,
    };
    let points = Value::Set(points.into_iter().map(named).collect());
    Some(Value::Without(Box::new(real_line()), Box::new(points)))
}

fn real_line() -> Value {
    Value::Scalar(Expr::Symbol("mathbbR".into()), Measure::default())
}

fn words_only(tokens: &[Lexeme]) -> Option<String> {
    let mut words = Vec::new();
    for lexeme in tokens {
        match &lexeme.token {
            Token::Words(w) => words.push(w.as_str()),
            Token::Separator if !words.is_empty() => words.push("and"),
            Token::Or if !words.is_empty() => words.push("or"),
            Token::Mark('-') if !words.is_empty() => words.push("-"),
            _ => return None,
        }
    }
    Some(words.join(" "))
}

/// Words that are short enough to have been cut into variables: `Red car`, `An ant`, `Team A`, `Bus`.
///
/// A single run of letters is a word only in title case: `ABC` and `abc` are products.
fn phrase(tokens: &[Lexeme]) -> Option<String> {
    let mut runs: Vec<(String, bool)> = Vec::new();
    for lexeme in tokens {
        match &lexeme.token {
            Token::Words(w) if w.chars().all(|c| c.is_alphabetic() || c == ' ') => {
                runs.push((w.clone(), true));
            }
            Token::Symbol(s) if s.len() == 1 && s.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                match runs.last_mut() {
                    Some((run, false)) if !lexeme.spaced => run.push_str(s),
                    _ => runs.push((s.clone(), false)),
                }
            }
            _ => return None,
        }
    }
    let spoken = |run: &str| {
        run.contains(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']) || run.ends_with(['y', 'Y'])
    };
    let is_word = match &runs[..] {
        [(run, false)] => {
            run.len() == 3
                && spoken(run)
                && run.starts_with(|c: char| c.is_ascii_uppercase())
                && run[1..].bytes().all(|b| b.is_ascii_lowercase())
        }
        [(first, cut), rest @ ..] if !rest.is_empty() => {
            // `x meters` and `AB km` are quantities.
            *cut && !units::is_known(first)
                || runs.iter().any(|(run, known)| !known && run.len() == 3 && spoken(run))
                || first.len() > 1
                    && spoken(first)
                    && rest.iter().any(|(w, known)| *known && !units::is_known(w))
        }
        _ => false,
    };
    let words: Vec<String> = runs.into_iter().map(|run| run.0).collect();
    is_word.then(|| words.join(" "))
}

fn relation(token: &Token) -> Option<Relation> {
    match token {
        Token::Relation(r) => Some(*r),
        _ => None,
    }
}

/// One item of a list: a side, or sides with relations between them.
fn clause(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    let sides = split(tokens, |t| relation(t).is_some())?;
    if sides.len() == 1 {
        return plus_minus(tokens, depth);
    }
    // `x < 1 \cup x > 2`
    let parts = split(tokens, |t| *t == Token::Cup)?;
    if parts.len() > 1 && parts.iter().all(|p| p.iter().any(|t| relation(&t.token).is_some())) {
        return Some(Value::Union(parts.into_iter().map(|p| clause(p, depth + 1)).collect::<Option<_>>()?));
    }
    // `= 5` and `\approx 5` say 5.
    if let [first, only] = sides[..]
        && first.is_empty()
        && relation(&tokens[0].token) == Some(Relation::Equal)
    {
        return plus_minus(only, depth);
    }
    let mut relations = Vec::new();
    let mut at = 0;
    for part in &sides[..sides.len() - 1] {
        at += part.len();
        relations.push(relation(&tokens[at].token)?);
        at += 1;
    }
    let mut sides: Vec<Value> = sides.into_iter().map(|s| plus_minus(s, depth)).collect::<Option<_>>()?;
    // `7 = x` says what `x = 7` says.
    if let [Value::Scalar(value, _), Value::Scalar(name, _)] = &sides[..]
        && relations == [Relation::Equal]
        && name.is_name()
        && !value.has_variable()
    {
        sides.reverse();
    }
    // `x = \pm 2` is `x = 2, x = -2`.
    if let [name, Value::List(choices)] = &mut sides[..]
        && matches!(relations[..], [Relation::Equal | Relation::NotEqual])
    {
        let each = std::mem::take(choices);
        return Some(Value::List(
            each.into_iter().map(|c| Value::Chain(vec![name.clone(), c], relations.clone())).collect(),
        ));
    }
    Some(Value::Chain(sides, relations))
}

/// A side in which `\pm` stands for both signs.
fn plus_minus(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    if !tokens.iter().any(|t| t.token == Token::PlusMinus) {
        return side(tokens, depth);
    }
    let with = |sign: char| {
        let tokens: Vec<Lexeme> = tokens
            .iter()
            .map(|t| match t.token {
                Token::PlusMinus => Lexeme { token: Token::Mark(sign), spaced: t.spaced },
                _ => t.clone(),
            })
            .collect();
        side(&tokens, depth)
    };
    Some(Value::List(vec![with('+')?, with('-')?]))
}

fn side(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (first, last) = (&tokens.first()?.token, &tokens.last()?.token);
    if let Some(words) = words_only(tokens).or_else(|| phrase(tokens)) {
        return Some(Value::Text(words));
    }
    let parts = split(tokens, |t| *t == Token::Cup)?;
    if parts.len() > 1 {
        return Some(Value::Union(parts.into_iter().map(|p| side(p, depth + 1)).collect::<Option<_>>()?));
    }
    // What two sets have in common is one without what is outside of the other.
    let parts = split(tokens, |t| *t == Token::Cap)?;
    if let [first, rest @ ..] = &parts[..]
        && !rest.is_empty()
    {
        let outside = |set| Value::Without(Box::new(real_line()), Box::new(set));
        let common = |known, part: &&[Lexeme]| {
            Some(Value::Without(Box::new(known), Box::new(outside(side(part, depth + 1)?))))
        };
        return rest.iter().try_fold(side(first, depth + 1)?, common);
    }
    // `\mathbb{R} \setminus \{2\}`, `\mathbb{R} - \{2\}`
    let parts = split(tokens, |t| *t == Token::Without)?;
    let taken = |i: &usize| tokens[*i].token == Token::Mark('-') && tokens[*i + 1].token == Token::SetOpen;
    let minus = (1..tokens.len() - 1).find(taken).map(|i| (&tokens[..i], &tokens[i + 1..]));
    let parts = match (&parts[..], minus) {
        (&[whole, without], _) => Some((whole, without)),
        (_, minus) => minus,
    };
    if let Some((whole, without)) = parts {
        return Some(Value::Without(Box::new(side(whole, depth + 1)?), Box::new(side(without, depth + 1)?)));
    }
    if tokens.len() == 1 && *first == Token::EmptySet {
        return Some(Value::Set(Vec::new()));
    }
    let whole = tokens.len() >= 2 && closes_at_end(tokens);
    let inside = || &tokens[1..tokens.len() - 1];
    match (first, last) {
        (Token::SetOpen, Token::SetClose) if whole => {
            if inside().is_empty() {
                return Some(Value::Set(Vec::new()));
            }
            if let Some(bar) = inside().iter().position(|t| matches!(t.token, Token::Mark('|' | ':')))
                && let Some(set) = builder(&inside()[..bar], &inside()[bar + 1..], depth)
            {
                return Some(set);
            }
            return Some(match value(inside(), depth + 1)? {
                Value::List(items) => Value::Set(items),
                Value::Chain(..) => return None,
                item => Value::Set(vec![item]),
            });
        }
        (Token::Mark(open @ ('(' | '[')), Token::Mark(close @ (')' | ']'))) if whole => {
            let items = split(inside(), |t| matches!(t, Token::Mark(',' | ';')))?;
            if items.len() > 1 {
                let items = items.into_iter().map(|i| clause(i, depth + 1)).collect::<Option<_>>()?;
                return Some(Value::Tuple(*open, items, *close));
            }
            if open == &'(' && close == &')' {
                let stated = inside().iter().any(|t| relation(&t.token).is_some());
                return if stated { value(inside(), depth + 1) } else { plus_minus(inside(), depth + 1) };
            }
            if open == &'[' && close == &']' {
                return Some(Value::Tuple('[', vec![side(inside(), depth + 1)?], ']'));
            }
            return None;
        }
        (Token::Mark('{'), Token::Mark('}')) if whole => return value(inside(), depth + 1),
        (Token::Begin(determinant), Token::End) if whole => return matrix(*determinant, inside(), depth),
        _ => {}
    }
    // A number before a matrix multiplies its cells.
    if *last == Token::End
        && let Some(at) = tokens.iter().position(|t| t.token == Token::Begin(false)).filter(|at| *at > 0)
        && closes_at_end(&tokens[at..])
    {
        let factor = match &tokens[..at] {
            [Lexeme { token: Token::Mark('-'), .. }] => Expr::integer(-1),
            front => {
                let front =
                    if front.last()?.token == Token::Mark('*') { &front[..front.len() - 1] } else { front };
                match scalar(front, depth)? {
                    Value::Scalar(expr, measure) if measure == Measure::default() => expr,
                    _ => return None,
                }
            }
        };
        let Value::Matrix(_, mut rows) = side(&tokens[at..], depth + 1)? else { return None };
        for cell in rows.iter_mut().flatten() {
            let Value::Scalar(expr, _) = cell else { return None };
            *expr = multiplied(Expr::Product(vec![factor.clone()]), expr.clone());
        }
        return Some(Value::Matrix(false, rows));
    }
    let ratio = split(tokens, |t| *t == Token::Mark(':'))?;
    if ratio.len() > 1 {
        return Some(Value::Ratio(ratio.into_iter().map(|p| scalar(p, depth)).collect::<Option<_>>()?));
    }
    scalar(tokens, depth)
}

/// `\{x \mid x > 2\}` and `\{x \in D : x > 2\}`
fn builder(name: &[Lexeme], condition: &[Lexeme], depth: u32) -> Option<Value> {
    let (Token::Symbol(bound), rest) = (&name.first()?.token, &name[1..]) else { return None };
    let bound = Expr::Symbol(bound.clone());
    let condition = value(condition, depth + 1)?;
    let condition = match rest {
        [] => condition,
        [Lexeme { token: Token::Relation(Relation::In), .. }, domain @ ..] => {
            let member = vec![Value::Scalar(bound.clone(), Measure::default()), side(domain, depth + 1)?];
            Value::List(vec![Value::Chain(member, vec![Relation::In]), condition])
        }
        _ => return None,
    };
    Some(Value::Where(bound, Box::new(condition)))
}

/// Whether the bracket that opens at the start closes at the end.
fn closes_at_end(tokens: &[Lexeme]) -> bool {
    let mut depth = 0i32;
    for (i, lexeme) in tokens.iter().enumerate() {
        match &lexeme.token {
            Token::Mark('(' | '[' | '{') | Token::SetOpen | Token::Begin(_) => depth += 1,
            Token::Mark(')' | ']' | '}') | Token::SetClose | Token::End => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1 == tokens.len();
        }
    }
    false
}

fn matrix(determinant: bool, tokens: &[Lexeme], depth: u32) -> Option<Value> {
    let mut rows = Vec::new();
    for row in split(tokens, |t| *t == Token::Row)? {
        if row.is_empty() {
            continue;
        }
        let cells = split(row, |t| *t == Token::Mark('&'))?;
        rows.push(cells.into_iter().map(|c| side(c, depth + 1)).collect::<Option<Vec<_>>>()?);
    }
    let width = rows.first()?.len();
    rows.iter().all(|r| r.len() == width).then_some(Value::Matrix(determinant, rows))
}

/// A formula with a currency before it and a unit or percent sign behind it.
fn scalar(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    if let Some(sum) = compound(tokens, depth) {
        return Some(sum);
    }
    // `approximately 3.5`, as `\approx 3.5`
    if let [Lexeme { token: Token::Words(w), .. }, number @ ..] = tokens
        && matches!(w.to_lowercase().as_str(), "approximately" | "about" | "roughly")
    {
        return scalar(number, depth);
    }
    let mut reader = Reader { tokens, at: 0, depth };
    let mut measure = Measure::default();
    // `-$5`, `$-5`, `$5`
    let negative = matches!(tokens, [Lexeme { token: Token::Mark('-'), .. }, Lexeme { token: Token::Words(w), .. }, ..] if is_currency(w));
    if negative {
        reader.at = 1;
    }
    if let Some(Token::Words(w)) = reader.peek()
        && is_currency(w)
    {
        measure.unit = w.clone();
        reader.at += 1;
    }
    let mut expr = reader.whole()?;
    if negative {
        expr = Expr::Negative(Box::new(expr));
    }
    if reader.eat('%') {
        measure.percent = true;
    }
    // What is left must be a unit.
    let mut unit = String::new();
    while let Some(token) = reader.peek() {
        match token {
            Token::Words(w) => {
                if !unit.is_empty() && !unit.ends_with(['/', '^']) {
                    unit.push(' ');
                }
                unit.push_str(w);
            }
            Token::Mark('/')
                if !unit.is_empty()
                    || matches!(
                        reader.tokens.get(reader.at + 1).map(|t| &t.token),
                        Some(Token::Words(_))
                    ) =>
            {
                unit.push('/')
            }
            Token::Mark('^') if !unit.is_empty() => unit.push('^'),
            Token::Mark(c @ ('{' | '}'))
                if unit.ends_with('^') || unit.ends_with(|c: char| c.is_ascii_digit()) =>
            {
                let _ = c;
            }
            Token::Mark('-') if unit.ends_with('^') => unit.push('-'),
            Token::Mark('*') if !unit.is_empty() => unit.push(' '),
            Token::Mark('-') if !unit.is_empty() => unit.push(' '),
            Token::Number(n, true) if unit.ends_with(['^', '-']) => unit.push_str(&n.to_string()),
            Token::Symbol(s) if !unit.is_empty() => {
                if !unit.ends_with('/') {
                    unit.push(' ');
                }
                unit.push_str(s);
            }
            Token::Mark('°') => unit.push_str("degree "),
            _ => return None,
        }
        reader.at += 1;
    }
    let unit = unit.trim();
    if matches!(unit.to_lowercase().as_str(), "percent" | "per cent" | "percents") && !measure.percent {
        measure.percent = true;
    } else if !unit.is_empty() {
        if !units::is_unit_phrase(unit) {
            return None;
        }
        measure.unit = match (measure.unit.is_empty(), unit) {
            (true, unit) => unit.to_owned(),
            (false, "dollars" | "dollar" | "USD") => measure.unit,
            (false, unit) => format!("{} {}", measure.unit, unit),
        };
    }
    if let Expr::Degrees(angle) = expr {
        expr = *angle;
        measure.unit =
            if measure.unit.is_empty() { "degree".into() } else { format!("degree {}", measure.unit) };
    }
    Some(Value::Scalar(expr, measure))
}

/// `5 feet 6 inches`: amounts of ever smaller units of one kind, as an amount of the smallest.
fn compound(tokens: &[Lexeme], depth: u32) -> Option<Value> {
    let starts = |i: &usize| {
        matches!(tokens[*i].token, Token::Number(..)) && matches!(tokens[*i - 1].token, Token::Words(_))
    };
    let at: Vec<usize> = (1..tokens.len()).filter(starts).collect();
    let (from, to) = (std::iter::once(0).chain(at.iter().copied()), at.iter().copied().chain([tokens.len()]));
    let mut parts = Vec::new();
    for (from, to) in from.zip(to).filter(|_| !at.is_empty()) {
        match scalar(&tokens[from..to], depth)? {
            Value::Scalar(amount @ Expr::Number(_), measure) if !measure.percent => {
                let unit = units::read(&measure.unit);
                parts.push((amount, unit, measure));
            }
            _ => return None,
        }
    }
    let (_, least, measure) = parts.last()?;
    let falling =
        parts.windows(2).all(|w| w[0].1.size > w[1].1.size && w[0].1.dimensions == w[1].1.dimensions);
    if !falling || least.dimensions.is_empty() {
        return None;
    }
    let amounts = parts
        .iter()
        .map(|(amount, unit, _)| multiplied(Expr::Number(&unit.size / &least.size), amount.clone()));
    Some(Value::Scalar(Expr::Sum(amounts.collect()), measure.clone()))
}

fn is_currency(word: &str) -> bool {
    matches!(word, "$" | "€" | "£" | "¥" | "₹")
}
