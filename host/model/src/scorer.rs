//! Models with a scalar head, as transformers' `AutoModelForSequenceClassification` keeps them: the same decoder
//! without an output layer, one row of numbers named `score.weight`, and another class in `config.json`.

use crate::config::{Config, Family};
use serde_json::{Value, json};

const CAUSAL: &str = "ForCausalLM";
const CLASSIFIER: &str = "ForSequenceClassification";

/// The configuration of a classifier's decoder as [`Config`] reads it; `None` where it is of no classifier.
pub(crate) fn causal_form(raw: &Value) -> Option<Value> {
    let class = raw.get("architectures")?.as_array()?.first()?.as_str()?;
    let name = class.strip_suffix(CLASSIFIER)?;
    let mut form = raw.clone();
    form["architectures"] = json!([format!("{name}{CAUSAL}")]);
    // There is no output layer, and nothing asks for one.
    form["tie_word_embeddings"] = json!(true);
    Some(form)
}

/// Name and shape of the head.
pub(crate) fn head(config: &Config) -> (String, Vec<i64>) {
    ("score.weight".to_owned(), vec![1, config.hidden_size as i64])
}

/// The configuration of a classifier with one label over the same decoder.
pub(crate) fn classifier_form(raw: &Value, padding: Option<u32>) -> Value {
    let mut form = raw.clone();
    let family = raw.get("model_type").and_then(Value::as_str).and_then(Family::from_model_type);
    if let Some(class) = family.and_then(|f| f.architecture().strip_suffix(CAUSAL)) {
        form["architectures"] = json!([format!("{class}{CLASSIFIER}")]);
    }
    form["id2label"] = json!({"0": "LABEL_0"});
    form["label2id"] = json!({"LABEL_0": 0});
    if let Some(padding) = padding {
        form["pad_token_id"] = json!(padding);
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_classifiers_configuration_is_read_back_as_its_decoders() {
        let raw = json!({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "pad_token_id": null});
        let classifier = classifier_form(&raw, Some(7));
        assert_eq!(classifier["architectures"], json!(["Qwen2ForSequenceClassification"]));
        assert_eq!(classifier["pad_token_id"], 7);
        let form = causal_form(&classifier).unwrap();
        assert_eq!(form["architectures"], raw["architectures"]);
        assert_eq!(form["tie_word_embeddings"], true);
        assert_eq!(causal_form(&raw), None);
    }
}
