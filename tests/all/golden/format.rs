//! Golden files, and how numbers are compared.

use serde_json::Value;
use std::path::Path;

/// The numbers of a case by the path of the expected field, as in `metrics.kl`; matrices by rows.
pub type Numbers = Vec<(String, Vec<f64>)>;
/// Computes a case's numbers, or says why it is refused.
pub type Check = fn(&Case) -> Result<Numbers, String>;

/// Relative tolerance against numbers that a peer computed in f64.
const TOLERANCE: f64 = 1e-6;
/// Relative tolerance where a peer computed in f32 and no f64 numbers are given.
const TOLERANCE_F32: f64 = 2e-5;

/// Fields that peers report beside their results.
const DIAGNOSTICS: &[&str] = &[
    "metrics",
    "token_loss",
    "token_loss_packed",
    "clipfrac",
    "clip_mask",
    "dual_clip_mask",
    "clip_ratio",
    "ppo_kl",
    "vllm_kl",
    "is_masked",
    "masked_fraction",
    "packed_mask",
    "packed_weight",
    "slime_clipfrac",
    "topk_ids",
    "clip_range",
];

/// Where a peer's number is its bug, and ours differs on purpose: file, what is expected there, and why.
const DIFFERS: &[(&str, Peer, &str)] = &[
    ("adv_grpo_slime", Peer::Nan, "the deviation of a group of one is NaN; no comparison is 0"),
    ("adv_grpo_lightrft", Peer::Nan, "as slime: a group of one has no deviation and no others"),
    ("adv_grpo_unirl", Peer::Nan, "as slime: a group of one has no deviation"),
    ("adv_passk_verl", Peer::Raises, "a group of one has no second best; it gets 0"),
    ("adv_passk_nostd_verl", Peer::Raises, "as above"),
    (
        "masked_whiten_verl",
        Peer::NearZero,
        "equal values less their mean over n + 1e-8, over 1e-4; they are exactly 0",
    ),
    ("loss_cpgd_lightrft", Peer::Nan, "the mean of no tokens makes a batch NaN; such a sequence is left out"),
    ("loss_value_others", Peer::Nan, "as above, in LightRFT's critic"),
    ("kl_topk_relax", Peer::Nan, "0 times infinity in padded rows; what is masked has no part in ours"),
    ("agg_verl", Peer::Nan, "a batch without a trained token is 0/0; its loss and gradient are 0"),
];

/// What a peer does where ours computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// It returns NaN; ours is finite.
    Nan,
    /// It returns rounding, below 1e-3, magnified; ours is exactly 0.
    NearZero,
    /// It raises; ours is defined.
    Raises,
}

fn differs(file: &str, peer: Peer) -> bool {
    DIFFERS.iter().any(|d| d.0 == file && d.1 == peer)
}

/// One case of a golden file.
pub struct Case {
    /// The file's name, without its ending.
    pub file: String,
    pub id: String,
    pub params: Value,
    pub inputs: Value,
    pub expected: Value,
    expected_f64: Value,
    float32: Vec<String>,
}

pub fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let cases = file["cases"].as_array().unwrap_or_else(|| panic!("{}: no cases", path.display()));
    let case = |case: &Value| {
        // Case parameters contain the file's, where the case has any of its own.
        let mut params = file["params"].as_object().cloned().unwrap_or_default();
        params.extend(case["params"].as_object().cloned().unwrap_or_default());
        let float32 = case["float32_fields"].as_array().cloned().unwrap_or_default();
        Case {
            file: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            id: case["id"].as_str().unwrap_or_default().to_owned(),
            params: Value::Object(params),
            inputs: case["inputs"].clone(),
            expected: case["expected"].clone(),
            expected_f64: case["expected_f64"].clone(),
            float32: float32.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    };
    cases.iter().map(case).collect()
}

impl Case {
    /// A case for the test of the comparison itself.
    pub fn example() -> Case {
        Case {
            file: "example".into(),
            id: "example".into(),
            params: Value::Null,
            inputs: Value::Null,
            expected: serde_json::json!({"loss": 1.0, "grad": [0.5, 0.0], "metrics": {"note": 3.0}}),
            expected_f64: Value::Null,
            float32: Vec::new(),
        }
    }

    /// A parameter that must be there.
    pub fn param(&self, name: &str) -> f64 {
        self.maybe(name).unwrap_or_else(|| panic!("{}: parameter `{name}` is missing", self.id))
    }

    /// A parameter that may be absent or null.
    pub fn maybe(&self, name: &str) -> Option<f64> {
        number(self.params.pointer(&format!("/{}", name.replace('.', "/")))?)
    }

    /// Whether a parameter is set and not 0.
    pub fn flag(&self, name: &str) -> bool {
        self.maybe(name).is_some_and(|v| v != 0.0)
    }

    /// A parameter that is a text; empty where absent.
    pub fn text(&self, name: &str) -> &str {
        self.params
            .pointer(&format!("/{}", name.replace('.', "/")))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        !self.inputs[name].is_null()
    }

    /// An input's numbers, matrices by rows.
    pub fn flat(&self, name: &str) -> Vec<f64> {
        assert!(self.has(name), "{}: input `{name}` is missing", self.id);
        flatten(&self.inputs[name])
    }

    pub fn rows(&self, name: &str) -> Vec<Vec<f64>> {
        assert!(self.has(name), "{}: input `{name}` is missing", self.id);
        self.inputs[name].as_array().map(|rows| rows.iter().map(flatten).collect()).unwrap_or_default()
    }

    /// The mask's rows.
    pub fn mask(&self) -> Vec<Vec<bool>> {
        self.rows("mask").iter().map(|row| row.iter().map(|&m| m != 0.0).collect()).collect()
    }

    /// Compares what `check` computes with every expected field but diagnostics.
    pub fn compare(
        &self,
        file: &str,
        check: impl Fn(&Case) -> Result<Numbers, String>,
    ) -> Result<(), String> {
        let numbers = match (check(self), raises(&self.expected)) {
            (Err(_), Some(_)) => return Ok(()),
            (Err(reason), None) => return Err(format!("refused: {reason}")),
            (Ok(_), Some(_)) if differs(file, Peer::Raises) => return Ok(()),
            (Ok(_), Some(exception)) => return Err(format!("the peer raises {exception}, ours computes")),
            (Ok(numbers), None) => numbers,
        };
        let mut fields = Vec::new();
        leaves("", &self.expected, &mut fields);
        for field in &fields {
            let computed = numbers.iter().any(|(name, _)| name == field);
            let diagnostic = field.split('.').any(|part| DIAGNOSTICS.contains(&part));
            if !computed && !diagnostic {
                return Err(format!("`{field}` was not computed"));
            }
        }
        for (name, found) in &numbers {
            let pointer = format!("/{}", name.replace('.', "/"));
            let exact = self.expected_f64.pointer(&pointer);
            let value = exact.or_else(|| self.expected.pointer(&pointer));
            let Some(value) = value else { return Err(format!("`{name}` is not expected")) };
            let rough = exact.is_none() && self.float32.contains(name);
            let tolerance = if rough { TOLERANCE_F32 } else { TOLERANCE };
            self.close(file, name, found, &flatten(value), tolerance)?;
        }
        Ok(())
    }

    fn close(
        &self,
        file: &str,
        name: &str,
        found: &[f64],
        expected: &[f64],
        tolerance: f64,
    ) -> Result<(), String> {
        if found.len() != expected.len() {
            return Err(format!("`{name}` has {} numbers instead of {}", found.len(), expected.len()));
        }
        let largest = expected.iter().filter(|v| v.is_finite()).fold(0.0, |a: f64, v| a.max(v.abs()));
        for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            if expected.is_nan() && found.is_finite() && differs(file, Peer::Nan) {
                continue;
            }
            if expected.abs() < 1e-3 && found == 0.0 && differs(file, Peer::NearZero) {
                continue;
            }
            // Beside numbers of size one, one of 1e-12 is the rounding of a zero.
            let bound = tolerance * expected.abs() + 1e-12 * largest.max(1e-3);
            let same =
                found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= bound;
            if !same {
                return Err(format!("`{name}`[{index}] is {found:e} instead of {expected:e}"));
            }
        }
        Ok(())
    }
}

fn raises(expected: &Value) -> Option<&str> {
    expected.get("raises").and_then(Value::as_str)
}

/// A number; booleans count, and numbers that JSON lacks are texts.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        Value::String(s) => match s.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn flatten(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flatten).collect(),
        other => vec![number(other).unwrap_or_else(|| panic!("{other} is not a number"))],
    }
}

/// The paths of all fields that hold numbers.
fn leaves(prefix: &str, value: &Value, fields: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        fields.push(prefix.to_owned());
        return;
    };
    for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        leaves(&if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") }, value, fields);
    }
}
