//! A plugin's log lines: bounded and harmless before anyone sees them.

use std::sync::Arc;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// For people who watch the run.
    Info,
    /// Something to look at.
    Warn,
    /// Something broke; the text of a panic too.
    Error,
}

impl LogLevel {
    /// The level's name.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }
}

/// A line that a plugin wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// The plugin's name, from its descriptor (or the digest while it loads).
    pub plugin: &'a str,
    /// What the call was about: a group's or sample's id, or what the host did.
    pub subject: &'a str,
    /// The level.
    pub level: LogLevel,
    /// One line of printable text; control characters are escaped, the end may be cut.
    pub text: &'a str,
}

/// Where log lines go. Called on the thread of the plugin's call, within its deadline: it must not
/// wait.
pub type LogSink = Arc<dyn Fn(&LogLine<'_>) + Send + Sync>;

/// Bytes that one line keeps.
pub(crate) const LINE_BYTES: usize = 4 << 10;

/// Makes guest text fit for a terminal and a log file: control characters, line separators and
/// direction marks are escaped, and at most `max` bytes stay.
pub fn sanitise(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let before = out.len();
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_harmful(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        if out.len() > max {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// Control characters, and the marks that reorder or hide what follows on a screen.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_newlines_do_not_reach_the_terminal() {
        assert_eq!(sanitise("a\x1b[31mred\nb\u{202e}", 100), "a\\u{1b}[31mred\\nb\\u{202e}");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(sanitise("ééé", 4), "éé…");
        assert_eq!(sanitise("éé", 4), "éé");
    }
}
