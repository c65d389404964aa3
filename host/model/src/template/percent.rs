//! The operator `%`: a remainder, or printf-style formatting where the left side is a text, as in Python.
//!
//! minijinja knows the remainder only, and operators cannot be added, so `a % b` is rewritten as a call.

use super::lexis::{Kind, Token, tokens};
use super::printf::printf;
use minijinja::value::Value;
use minijinja::{Environment, Error, State, context};

/// The function behind the operator.
const PERCENT: &str = "__percent__";
/// The most operators in a tag and the deepest brackets that are rewritten; minijinja itself refuses calls and brackets
/// that are nested deeper.
const MOST: usize = 100;
/// Words that end an expression before them or begin one after them.
const BETWEEN: [&str; 8] = ["if", "else", "elif", "and", "or", "not", "in", "recursive"];

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function(PERCENT, percent);
}

fn percent(state: &mut State, left: Value, right: Value) -> Result<Value, Error> {
    if left.as_str().is_some() {
        return printf(state, &left, &right);
    }
    if left.is_integer()
        && right.is_integer()
        && let (Some(a), Some(b)) = (left.as_i64(), right.as_i64())
        && let Some(remainder) = a.checked_rem(b)
    {
        // Of the sign of the divisor.
        let other_sign = remainder != 0 && (remainder < 0) != (b < 0);
        return Ok(Value::from(if other_sign { remainder + b } else { remainder }));
    }
    state.env().compile_expression("a % b")?.eval(context! { a => left, b => right })
}

/// `a % b` as a call, everywhere in a tag.
///
/// * `statement`: the first word is the tag's name
pub(super) fn rewrite(inner: &str, statement: bool) -> String {
    let tokens = tokens(inner);
    let operators = tokens.iter().filter(|t| t.text == "%").count();
    if operators == 0 || operators > MOST || nesting(&tokens) > MOST {
        return inner.to_owned();
    }
    let mut copy = Copy { inner, tokens, next: 0, out: String::new(), copied: 0 };
    copy.expression(statement);
    while copy.next < copy.tokens.len() {
        // A bracket that nothing opens: minijinja will say so.
        copy.token();
        copy.expression(false);
    }
    copy.out.push_str(&inner[copy.copied..]);
    copy.out
}

/// How deep brackets go.
fn nesting(tokens: &[Token<'_>]) -> usize {
    let deeper = |depth: &mut usize, token: &Token<'_>| {
        match token.kind {
            Kind::Open => *depth += 1,
            Kind::Close => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    };
    tokens.iter().scan(0, deeper).max().unwrap_or(0)
}

/// A tag that is copied, token after token.
struct Copy<'a> {
    inner: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
    out: String,
    copied: usize,
}

impl Copy<'_> {
    /// White space before the next token.
    fn space(&mut self) {
        let until = self.tokens.get(self.next).map_or(self.copied, |t| t.at);
        self.out.push_str(&self.inner[self.copied..until]);
        self.copied = until;
    }

    fn token(&mut self) {
        self.space();
        if let Some(token) = self.tokens.get(self.next) {
            self.out.push_str(token.text);
            self.copied = token.end();
            self.next += 1;
        }
    }

    fn text(&self, back: usize) -> &str {
        self.next.checked_sub(back).and_then(|i| self.tokens.get(i)).map_or("", |t| t.text)
    }

    /// Whether the next token is the name of an attribute, a filter or a test.
    fn is_name(&self) -> bool {
        let test = self.text(1) == "is" || (self.text(1) == "not" && self.text(2) == "is");
        test || [".", "|"].contains(&self.text(1))
    }

    /// Copies up to the bracket that closes what is around.
    ///
    /// A product (`*`, `/`, `//`, `%`, evaluated from the left) begins behind any looser operator, and `%` takes all of it as
    /// its left side, up to the next operator as its right side.
    fn expression(&mut self, statement: bool) {
        // Where the product begins in the output; unknown before its first token.
        let mut product = None;
        // The right side of a `%` is being copied.
        let mut right = false;
        // The last token ended an operand.
        let mut operand = false;
        let mut tag_name = statement;
        while let Some(&Token { kind, text, .. }) = self.tokens.get(self.next) {
            let factor = operand && ["*", "/", "//", "%"].contains(&text);
            let between = match text {
                _ if kind == Kind::Word => tag_name || (BETWEEN.contains(&text) && !self.is_name()),
                _ if kind != Kind::Mark => false,
                // A sign binds tighter than a product, a sum looser.
                "+" | "-" => operand,
                // What unpacks an argument is no operator.
                "*" | "**" => !operand,
                "/" | "//" | "%" | "." | "|" => false,
                _ => true,
            };
            tag_name = false;
            if right && (factor || between || kind == Kind::Close) {
                self.out.push(')');
                right = false;
            }
            if kind == Kind::Close {
                return;
            }
            self.space();
            if factor
                && text == "%"
                && let Some(start) = product
            {
                self.out.insert_str(start, &format!("{PERCENT}("));
                self.out.push(',');
                self.copied += 1;
                self.next += 1;
                (right, operand) = (true, false);
                continue;
            }
            if between {
                product = None;
            } else {
                product = product.or(Some(self.out.len()));
            }
            self.token();
            if kind == Kind::Open {
                self.expression(false);
                self.token();
            }
            operand = !between && kind != Kind::Mark;
        }
        if right {
            self.out.push(')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn the_operator_takes_what_it_takes_in_python() {
        for (inner, expected) in [
            (" a % b ", " __percent__(a , b) "),
            (" a + b % c - d", " a + __percent__(b , c) - d"),
            ("a * b % c % d", "__percent__(__percent__(a * b , c) , d)"),
            ("-a.b[1 % 2] % -c | f(3)", "__percent__(-a.b[__percent__(1 , 2)] , -c | f(3))"),
            (
                "'%s' % (x, y) if a % 2 == 0 else z",
                "__percent__('%s' , (x, y)) if __percent__(a , 2) == 0 else z",
            ),
            ("a - -b ** 2 % c", "a - __percent__(-b ** 2 , c)"),
            ("f(*a % 2, k=b % 3)", "f(*__percent__(a , 2), k=__percent__(b , 3))"),
            ("x is not in y and not a % b", "x is not in y and not __percent__(a , b)"),
            ("'%' ~ '50 %'", "'%' ~ '50 %'"),
            ("a % b)", "__percent__(a , b))"),
        ] {
            assert_eq!(rewrite(inner, false), expected);
        }
        for hostile in ["(".repeat(1 << 20) + "a % b", "a % ".repeat(1 << 18)] {
            assert_eq!(rewrite(&hostile, false), hostile);
        }
        assert_eq!(rewrite(" set x = a % b ", true), " set x = __percent__(a , b) ");
        assert_eq!(rewrite("if a % b", true), "if __percent__(a , b)");
    }
}
