//! A row's instructions, and the grade of a response.

use crate::family::builder;
use crate::{Args, Check, Finding, Mode, Rules, mode};
use serde_json::{Map, Value};

/// The instructions of one row, ready to be checked.
pub struct Row {
    instructions: Vec<(String, Check)>,
    /// How the row wants to be read, where it says so.
    pub mode: Option<Mode>,
}

/// Verdicts on one response, one per instruction, in the row's order.
#[derive(Debug, PartialEq)]
pub struct Grade {
    /// Id and finding.
    pub findings: Vec<(String, Finding)>,
}

impl Grade {
    /// Whether all are followed; `None` when that hangs on one that cannot be told.
    pub fn all(&self) -> Option<bool> {
        let mut all = Some(true);
        for (_, finding) in &self.findings {
            match finding {
                Finding::NotFollowed(_) => return Some(false),
                Finding::Undecided(_) => all = None,
                Finding::Followed => {}
            }
        }
        all
    }

    /// The part that is followed; `None` when one cannot be told.
    pub fn fraction(&self) -> Option<f64> {
        if self.undecided().is_some() {
            return None;
        }
        let followed = self.findings.iter().filter(|(_, f)| *f == Finding::Followed).count();
        Some(followed as f64 / self.findings.len() as f64)
    }

    /// The first instruction that cannot be told, and why.
    pub fn undecided(&self) -> Option<String> {
        self.findings.iter().find_map(|(id, finding)| match finding {
            Finding::Undecided(why) => Some(format!("{id}: {why}")),
            _ => None,
        })
    }
}

impl Row {
    /// Reads `instruction_id` and `kwargs`, or `instruction_id_list` and `kwargs_list` (or `kwargs`),
    /// and `mode` if it is there. The error names what is wrong with the row.
    pub fn read(metadata: &str) -> Result<Self, String> {
        let metadata: Value = serde_json::from_str(if metadata.is_empty() { "{}" } else { metadata })
            .map_err(|e| format!("metadata: {e}"))?;
        let field = |name: &str| metadata.get(name).filter(|v| !v.is_null());
        let (ids, kwargs) = match (field("instruction_id_list"), field("instruction_id")) {
            (Some(ids), _) => {
                let ids = ids.as_array().ok_or("`instruction_id_list` must be a list of ids")?.clone();
                (ids, objects(field("kwargs_list").or(field("kwargs")))?)
            }
            (None, Some(id)) => (vec![id.clone()], objects(field("kwargs"))?),
            (None, None) => {
                return Err("the metadata names no instruction: give `instruction_id` and `kwargs`, or \
                            `instruction_id_list` and `kwargs_list`"
                    .into());
            }
        };
        if ids.is_empty() {
            return Err("`instruction_id_list` is empty".into());
        }
        let none = Map::new();
        if let Some(kwargs) = &kwargs
            && kwargs.len() != ids.len()
        {
            return Err(format!("{} instructions, but {} kwargs", ids.len(), kwargs.len()));
        }
        let mut instructions = Vec::with_capacity(ids.len());
        for (at, id) in ids.iter().enumerate() {
            let id = id.as_str().map(str::trim).ok_or("an instruction's id must be a text")?;
            let build = builder(id).ok_or_else(|| format!("no instruction `{}` is known", shortened(id)))?;
            let arguments = kwargs.as_ref().and_then(|k| k.get(at)).unwrap_or(&none);
            instructions.push((id.to_owned(), build(&Args::new(id, arguments))?));
        }
        let mode = match field("mode") {
            None => None,
            Some(mode) => Some(
                serde_json::from_value(mode.clone())
                    .map_err(|_| "`mode` must be \"strict\" or \"loose\"".to_owned())?,
            ),
        };
        Ok(Row { instructions, mode })
    }

    /// Whether `response` follows each instruction. A blank one follows none.
    pub fn grade(&self, response: &str, mode: Mode, rules: Rules) -> Grade {
        let answer = mode::answer(response);
        let readings = mode.readings(&answer);
        let find = |check: &Check| {
            let mut worst = Finding::NotFollowed("the response is empty".into());
            for (at, reading) in readings.iter().enumerate() {
                match check(reading, rules) {
                    Finding::Followed => return Finding::Followed,
                    undecided @ Finding::Undecided(_) => worst = undecided,
                    // The note speaks of the response as it is.
                    not if at == 0 => worst = not,
                    Finding::NotFollowed(_) => {}
                }
            }
            worst
        };
        Grade { findings: self.instructions.iter().map(|(id, check)| (id.clone(), find(check))).collect() }
    }
}

/// Keyword arguments: one object, a list of them, or either as JSON text; null is an empty one.
fn objects(kwargs: Option<&Value>) -> Result<Option<Vec<Map<String, Value>>>, String> {
    let wrong = || "`kwargs` must be an object, or a list with one object per instruction".to_owned();
    let object = |value: &Value| match value {
        Value::Object(object) => Ok(object.clone()),
        Value::Null => Ok(Map::new()),
        Value::String(text) => serde_json::from_str(text).map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    match kwargs {
        None => Ok(None),
        Some(Value::Array(list)) => list.iter().map(object).collect::<Result<_, _>>().map(Some),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(value @ (Value::Array(_) | Value::Object(_))) => objects(Some(&value)),
            _ => Err(wrong()),
        },
        Some(value) => Ok(Some(vec![object(value)?])),
    }
}

fn shortened(id: &str) -> String {
    id.chars().take(80).collect()
}
