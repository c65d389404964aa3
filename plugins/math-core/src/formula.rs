//! Tokens as a formula: sums, products, powers, functions, by recursive descent of bounded depth.

use crate::syntax::{Expr, Rational};
use crate::token::{Lexeme, Token};
use num_traits::{One, ToPrimitive, Zero};

/// Formulas nested deeper than this are not read.
pub const MAX_DEPTH: u32 = 32;

/// Tokens and how far they have been read.
pub struct Reader<'t> {
    /// All tokens.
    pub tokens: &'t [Lexeme],
    /// The next token.
    pub at: usize,
    /// How deep the reading is nested.
    pub depth: u32,
}

impl<'t> Reader<'t> {
    /// The next token.
    pub fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    /// Takes a mark if it is next.
    pub fn eat(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    /// A formula with nothing around it: a sum, or `n \choose k`.
    pub fn whole(&mut self) -> Option<Expr> {
        let above = self.sum()?;
        if self.peek() != Some(&Token::Command("choose")) {
            return Some(above);
        }
        self.at += 1;
        Some(Expr::Call("binom".into(), vec![above, self.sum()?]))
    }

    /// A sum.
    pub fn sum(&mut self) -> Option<Expr> {
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
            Some(Token::Command(name)) => !matches!(*name, "rfloor" | "rceil" | "choose"),
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
            // `m\angle A`, the measure of an angle.
            Token::Symbol(name) if name == "m" && self.peek() == Some(&Token::Command("angle")) => {
                self.primary()?
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
            Token::Command(name @ ("angle" | "triangle")) if self.is_point() => {
                let mut points = Vec::new();
                while points.len() < 4 && self.is_point() {
                    points.push(self.primary()?);
                }
                Expr::Call(format!("?{name}"), points)
            }
            // Between points the order counts.
            Token::Command(name @ ("bar" | "vec" | "hat" | "angle" | "triangle")) => {
                let over = match self.argument()? {
                    Expr::Product(parts) if parts.iter().all(|part| matches!(part, Expr::Symbol(_))) => parts,
                    other => vec![other],
                };
                Expr::Call(format!("?{name}"), over)
            }
            Token::Mark('(') => self.group(Token::Mark(')'))?,
            Token::Mark('[') => self.group(Token::Mark(']'))?,
            Token::Mark('{') => {
                let inside = self.whole()?;
                self.eat('}').then_some(inside)?
            }
            Token::Mark('|') => Expr::Call("abs".into(), vec![self.group(Token::Mark('|'))?]),
            _ => return None,
        };
        self.depth -= 1;
        Some(expr)
    }

    /// Whether a capital letter is next, as points are named.
    fn is_point(&self) -> bool {
        matches!(self.peek(), Some(Token::Symbol(name)) if name.starts_with(|c: char| c.is_ascii_uppercase()))
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

/// A product, flat.
pub fn multiplied(left: Expr, right: Expr) -> Expr {
    match left {
        Expr::Product(mut factors) => {
            factors.push(right);
            Expr::Product(factors)
        }
        left => Expr::Product(vec![left, right]),
    }
}
