//! Tokens as answers: lists, relations, unions, brackets, and formulas with what stands behind them.

use crate::lex::{Lexeme, Token};
use crate::syntax::{Expr, Measure, Rational, Relation, Value};
use crate::units;
use num_traits::{One, ToPrimitive, Zero};

/// Formulas nested deeper than this are not read.
const MAX_DEPTH: u32 = 32;

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
    if let Some(words) = words_only(tokens) {
        return Some(Value::Text(words));
    }
    let parts = split(tokens, |t| matches!(t, Token::Mark(',' | ';') | Token::Separator))?;
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
    match items.len() {
        0 | 1 => None,
        _ => Some(Value::List(items)),
    }
}

fn words_only(tokens: &[Lexeme]) -> Option<String> {
    let mut words = Vec::new();
    for lexeme in tokens {
        match &lexeme.token {
            Token::Words(w) => words.push(w.as_str()),
            Token::Separator if !words.is_empty() => words.push("and"),
            Token::Mark('-') if !words.is_empty() => words.push("-"),
            _ => return None,
        }
    }
    Some(words.join(" "))
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
    let mut relations = Vec::new();
    let mut at = 0;
    for part in &sides[..sides.len() - 1] {
        at += part.len();
        relations.push(relation(&tokens[at].token)?);
        at += 1;
    }
    let mut sides: Vec<Value> = sides.into_iter().map(|s| plus_minus(s, depth)).collect::<Option<_>>()?;
    // `x = \pm 2` is `x = 2, x = -2`.
    if let [name, Value::List(choices)] = &mut sides[..]
        && relations == [Relation::Equal]
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
    let (first, last) = (&tokens.first()?.token, &tokens.last()?.token);
    if let Some(words) = words_only(tokens) {
        return Some(Value::Text(words));
    }
    let parts = split(tokens, |t| *t == Token::Cup)?;
    if parts.len() > 1 {
        return Some(Value::Union(parts.into_iter().map(|p| side(p, depth + 1)).collect::<Option<_>>()?));
    }
    let parts = split(tokens, |t| *t == Token::Without)?;
    if let [whole, without] = parts[..] {
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
            // `\{x \mid x > 2\}` says what its condition says.
            let builder = split(inside(), |t| matches!(t, Token::Mark('|' | ':')))?;
            if let [name, condition] = builder[..]
                && matches!(name.first()?.token, Token::Symbol(_))
                && (name.len() == 1 || name.get(1).is_some_and(|t| t.token == Token::Relation(Relation::In)))
            {
                return value(condition, depth + 1);
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
                return plus_minus(inside(), depth + 1);
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
    let mut expr = reader.sum()?;
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

fn is_currency(word: &str) -> bool {
    matches!(word, "$" | "€" | "£" | "¥" | "₹")
}

struct Reader<'t> {
    tokens: &'t [Lexeme],
    at: usize,
    depth: u32,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    fn eat(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut terms = Vec::new();
        loop {
            let mut negative = false;
            let mut signs = 0;
            loop {
                if self.eat('-') {
                    negative = !negative;
                } else if !self.eat('+') {
                    break;
                }
                signs += 1;
            }
            if signs > 2 {
                return None;
            }
            let term = self.product()?;
            terms.push(if negative { Expr::Negative(Box::new(term)) } else { term });
            if !matches!(self.peek(), Some(Token::Mark('+' | '-'))) {
                break;
            }
        }
        self.depth -= 1;
        Some(if terms.len() == 1 { terms.remove(0) } else { Expr::Sum(terms) })
    }

    fn product(&mut self) -> Option<Expr> {
        let mut left = self.mixed()?;
        loop {
            if self.eat('*') {
                let negative = self.eat('-');
                let factor = self.factor()?;
                let factor = if negative { Expr::Negative(Box::new(factor)) } else { factor };
                left = multiplied(left, factor);
            } else if self.peek() == Some(&Token::Mark('/')) {
                if matches!(self.tokens.get(self.at + 1).map(|t| &t.token), Some(Token::Words(_))) {
                    return Some(left);
                }
                self.at += 1;
                let negative = self.eat('-');
                let factor = self.factor()?;
                let factor = if negative { Expr::Negative(Box::new(factor)) } else { factor };
                left = Expr::Quotient(Box::new(left), Box::new(factor));
            } else if self.starts_factor() {
                // Two numbers side by side are no product.
                if let Some(Token::Number(..)) = self.peek()
                    && !matches!(self.tokens[self.at - 1].token, Token::Mark(')' | '}' | ']'))
                {
                    return None;
                }
                left = multiplied(left, self.factor()?);
            } else {
                return Some(left);
            }
        }
    }

    fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Number(..) | Token::Symbol(_) | Token::Function(_)) => true,
            Some(Token::Command(name)) => !matches!(*name, "rfloor" | "rceil"),
            Some(Token::Mark('(' | '[' | '{')) => true,
            Some(Token::Mark('|')) => self.opens_bar(),
            _ => false,
        }
    }

    /// A bar opens where a factor may begin inside no other bar: told by what follows.
    fn opens_bar(&self) -> bool {
        let bars = self.tokens[..self.at].iter().filter(|t| t.token == Token::Mark('|')).count();
        bars % 2 == 0
    }

    /// `3\frac{1}{2}` and `3 1/2`, else a factor.
    fn mixed(&mut self) -> Option<Expr> {
        if let Some(Token::Number(whole, true)) = self.peek() {
            let mut ahead = Reader { tokens: self.tokens, at: self.at + 1, depth: self.depth };
            let fraction = match ahead.peek() {
                Some(Token::Command("frac")) => {
                    ahead.at += 1;
                    match ahead.two_arguments() {
                        Some((Expr::Number(a), Expr::Number(b)))
                            if a.is_integer() && b.is_integer() && !b.is_zero() =>
                        {
                            Some(a / b)
                        }
                        _ => None,
                    }
                }
                Some(Token::Number(above, true)) if self.tokens[ahead.at].spaced => {
                    ahead.at += 1;
                    let slash = ahead.eat('/');
                    match ahead.peek() {
                        Some(Token::Number(below, true)) if slash && !below.is_zero() => {
                            ahead.at += 1;
                            Some(above / below)
                        }
                        _ => return None,
                    }
                }
                _ => None,
            };
            if let Some(fraction) = fraction
                && !matches!(ahead.peek(), Some(Token::Mark('^' | '!' | '_')))
                && fraction < Rational::from_integer(1.into())
            {
                self.at = ahead.at;
                return Some(Expr::Number(whole + fraction));
            }
        }
        self.factor()
    }

    fn factor(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut base = self.primary()?;
        loop {
            if self.eat('!') {
                base = Expr::Call("factorial".into(), vec![base]);
            } else if self.eat('^') {
                let exponent = self.exponent()?;
                base = Expr::Power(Box::new(base), Box::new(exponent));
            } else if self.eat('°') {
                base = Expr::Degrees(Box::new(base));
            } else {
                break;
            }
        }
        self.depth -= 1;
        Some(base)
    }

    fn exponent(&mut self) -> Option<Expr> {
        if self.eat('-') {
            return Some(Expr::Negative(Box::new(self.exponent()?)));
        }
        // TeX takes one digit, people mean the number: `10^12` is read as people mean it.
        let base = self.primary()?;
        if self.eat('^') {
            return Some(Expr::Power(Box::new(base), Box::new(self.exponent()?)));
        }
        Some(base)
    }

    /// `{…}`, or one digit or token, as TeX reads an argument.
    fn argument(&mut self) -> Option<Expr> {
        if let Some(Token::Number(n, true)) = self.peek() {
            self.at += 1;
            return Some(Expr::Number(n.clone()));
        }
        self.primary()
    }

    /// The two arguments of `\frac`: `\frac12` has both in one number.
    fn two_arguments(&mut self) -> Option<(Expr, Expr)> {
        if let Some(Token::Number(n, true)) = self.peek() {
            let digits = n.to_integer().to_string();
            self.at += 1;
            if digits.len() >= 2 {
                let (first, second) = digits.split_at(1);
                let digit = |s: &str| s.parse::<i64>().ok().map(Expr::integer);
                return (digits.len() == 2).then_some((digit(first)?, digit(second)?));
            }
            return Some((Expr::Number(n.clone()), self.argument()?));
        }
        Some((self.argument()?, self.argument()?))
    }

    fn group(&mut self, close: Token) -> Option<Expr> {
        let inside = self.sum()?;
        if self.peek() == Some(&close) {
            self.at += 1;
            return Some(inside);
        }
        None
    }

    fn primary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let token = self.peek()?;
        self.at += 1;
        let expr = match token {
            Token::Number(n, _) => {
                if self.eat('_') {
                    let base = self.argument()?;
                    Expr::Call("base".into(), vec![Expr::Number(n.clone()), base])
                } else {
                    Expr::Number(n.clone())
                }
            }
            Token::Symbol(name) => self.named(name)?,
            Token::Function(name) => self.function(name)?,
            Token::Command("frac") => {
                let (above, below) = self.two_arguments()?;
                Expr::Quotient(Box::new(above), Box::new(below))
            }
            Token::Command("binom") => {
                let (above, below) = self.two_arguments()?;
                Expr::Call("binom".into(), vec![above, below])
            }
            Token::Command("sqrt") => {
                let index = if self.eat('[') { self.group(Token::Mark(']'))? } else { Expr::integer(2) };
                let radicand = self.argument()?;
                let exponent = Expr::Quotient(Box::new(Expr::integer(1)), Box::new(index));
                Expr::Power(Box::new(radicand), Box::new(exponent))
            }
            Token::Command("lfloor") => {
                Expr::Call("floor".into(), vec![self.group(Token::Command("rfloor"))?])
            }
            Token::Command("lceil") => Expr::Call("ceil".into(), vec![self.group(Token::Command("rceil"))?]),
            Token::Command(name @ ("bar" | "vec" | "hat" | "angle" | "triangle")) => {
                Expr::Call(format!("?{name}"), vec![self.argument()?])
            }
            Token::Mark('(') => self.group(Token::Mark(')'))?,
            Token::Mark('[') => self.group(Token::Mark(']'))?,
            Token::Mark('{') => self.group(Token::Mark('}'))?,
            Token::Mark('|') => Expr::Call("abs".into(), vec![self.group(Token::Mark('|'))?]),
            _ => return None,
        };
        self.depth -= 1;
        Some(expr)
    }

    /// A variable with its index and primes, or a call of an unknown function.
    fn named(&mut self, name: &str) -> Option<Expr> {
        let mut name = name.to_owned();
        if self.eat('_') {
            name.push('_');
            if self.eat('{') {
                while !self.eat('}') {
                    name.push_str(&match self.peek()? {
                        Token::Number(n, _) => n.to_string(),
                        Token::Symbol(s) | Token::Words(s) => s.clone(),
                        Token::Mark(c) => c.to_string(),
                        _ => return None,
                    });
                    self.at += 1;
                }
            } else {
                name.push_str(&match self.peek()? {
                    Token::Number(n, true) => n.to_string(),
                    Token::Symbol(s) | Token::Words(s) => s.clone(),
                    _ => return None,
                });
                self.at += 1;
            }
        }
        while self.eat('\'') {
            name.push('\'');
        }
        // `f^{-1}(x)` names the inverse.
        let inverse = ['^', '{', '-'].map(Token::Mark);
        let ahead: Vec<&Token> = self.tokens[self.at..].iter().take(6).map(|t| &t.token).collect();
        if matches!(name.as_str(), "f" | "g" | "h")
            && ahead.len() == 6
            && ahead[..3].iter().zip(&inverse).all(|(a, b)| **a == *b)
            && matches!(ahead[3], Token::Number(n, true) if n.is_one())
            && *ahead[4] == Token::Mark('}')
            && *ahead[5] == Token::Mark('(')
        {
            self.at += 5;
            name.push_str("^-1'");
        }
        if self.peek() == Some(&Token::Mark('(')) {
            let lone = matches!(
                (
                    self.tokens.get(self.at + 1).map(|t| &t.token),
                    self.tokens.get(self.at + 2).map(|t| &t.token)
                ),
                (Some(Token::Symbol(_) | Token::Number(..)), Some(Token::Mark(')' | ',')))
            );
            let upper = name.starts_with(|c: char| c.is_ascii_uppercase());
            if matches!(name.trim_end_matches('\''), "f" | "g" | "h") || name.ends_with('\'') || upper && lone
            {
                self.at += 1;
                let mut arguments = vec![self.sum()?];
                while self.eat(',') {
                    arguments.push(self.sum()?);
                }
                return self.eat(')').then(|| Expr::Call(format!("?{name}"), arguments));
            }
        }
        Some(Expr::Symbol(name))
    }

    fn function(&mut self, name: &str) -> Option<Expr> {
        let mut power = None;
        let mut base = None;
        for _ in 0..2 {
            if self.eat('^') {
                power = Some(self.exponent()?);
            } else if self.eat('_') {
                base = Some(self.argument()?);
            }
        }
        let mut arguments = Vec::new();
        match self.peek()? {
            Token::Mark('(') => {
                self.at += 1;
                arguments.push(self.sum()?);
                while self.eat(',') {
                    arguments.push(self.sum()?);
                }
                if !self.eat(')') {
                    return None;
                }
            }
            Token::Mark('{') => arguments.push(self.primary()?),
            _ => {
                let mut argument = self.factor()?;
                while self.starts_factor()
                    && !matches!(self.peek(), Some(Token::Function(_) | Token::Mark('(')))
                {
                    argument = multiplied(argument, self.factor()?);
                }
                if self.peek() == Some(&Token::Mark('/')) && matches!(argument, Expr::Symbol(_)) {
                    self.at += 1;
                    argument = Expr::Quotient(Box::new(argument), Box::new(self.factor()?));
                }
                arguments.push(argument);
            }
        }
        let mut call = match (name, base) {
            ("log", Some(base)) => Expr::Quotient(
                Box::new(Expr::Call("ln".into(), arguments)),
                Box::new(Expr::Call("ln".into(), vec![base])),
            ),
            ("lg", None) => Expr::Quotient(
                Box::new(Expr::Call("ln".into(), arguments)),
                Box::new(Expr::Call("ln".into(), vec![Expr::integer(10)])),
            ),
            (_, Some(_)) => return None,
            ("exp", None) => Expr::Power(Box::new(Expr::Symbol("e".into())), Box::new(arguments.pop()?)),
            (name, None) => Expr::Call(name.to_owned(), arguments),
        };
        if let Some(power) = power {
            if let Expr::Negative(one) = &power
                && matches!(&**one, Expr::Number(n) if n.to_integer().to_i64() == Some(1))
                && let Expr::Call(name, arguments) = call
            {
                return Some(Expr::Call(format!("arc{name}"), arguments));
            }
            call = Expr::Power(Box::new(call), Box::new(power));
        }
        Some(call)
    }
}

fn multiplied(left: Expr, right: Expr) -> Expr {
    match left {
        Expr::Product(mut factors) => {
            factors.push(right);
            Expr::Product(factors)
        }
        left => Expr::Product(vec![left, right]),
    }
}
