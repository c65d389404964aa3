//! What is posted, and what becomes of every kind of answer.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use whet_plugin::host::http::{Failure, Response};
use whet_plugin::testing::{answer_http, configured, group};

const PLAIN: &str = r#"{"url": "https://rewards.example.com/score"}"#;
const SLIME: &str = r#"{"url": "https://rewards.example.com/score", "compat": "slime"}"#;

fn ask(config: &str, status: u16, body: &str) -> Outcome {
    let plugin: Remote = configured(config).unwrap();
    let body = body.as_bytes().to_vec();
    answer_http(move |_| Ok(Response { status, headers: Vec::new(), body: body.clone() }));
    plugin.score(&group(Some("4"), &["4"])).remove(0)
}

#[test]
fn a_sample_goes_out_as_json_and_its_reward_comes_back() {
    let plugin: Remote =
        configured(r#"{"url": "https://a.example/r", "headers": {"X-Tenant": "t"}}"#).unwrap();
    answer_http(|request| {
        assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://a.example/r"));
        assert!(request.headers.contains(&("X-Tenant".into(), "t".into())));
        assert!(request.headers.contains(&("Content-Type".into(), "application/json".into())));
        let sent: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(
            (&sent["label"], &sent["metadata"], &sent["finish"]),
            (&json!("4"), &json!({}), &json!("stop"))
        );
        let right = sent["response"] == "4";
        let body = json!({"reward": f64::from(u8::from(right)), "note": "seen"}).to_string().into_bytes();
        Ok(Response { status: 200, headers: Vec::new(), body })
    });
    let outcomes = plugin.score(&group(Some("4"), &["4", "5"]));
    assert_eq!(outcomes, [Outcome::scored(1.0).note("seen"), Outcome::scored(0.0).note("seen")]);
}

#[test]
fn components_are_summed_by_their_weights_and_shown() {
    let body = r#"{"components": {"correct": 1, "style": 0.5}, "note": "fine"}"#;
    assert_eq!(ask(PLAIN, 200, body), Outcome::scored(1.5).note("correct 1, style 0.5; fine"));
    let weighted = r#"{"url": "https://a.example", "weights": {"correct": 2, "style": -1}}"#;
    assert_eq!(ask(weighted, 200, body), Outcome::scored(1.5).note("correct 1, style 0.5; fine"));
    let one = r#"{"url": "https://a.example", "weights": {"correct": 2}}"#;
    assert!(
        matches!(ask(one, 200, body), Outcome::Failed(Error::Unavailable(why)) if why.contains("`style`"))
    );
}

#[test]
fn what_the_server_cannot_score_is_unscorable() {
    assert_eq!(ask(PLAIN, 200, r#"{"unscorable": "no label"}"#), Outcome::unscorable("no label"));
}

#[test]
fn every_other_answer_is_an_error_and_never_zero() {
    for (status, body) in [
        (500, r#"{"reward": 1}"#),
        (302, ""),
        (204, ""),
        (200, ""),
        (200, "1.0"),
        (200, "<html>"),
        (200, "[]"),
        (200, "{}"),
        (200, r#"{"reward": null}"#),
        (200, r#"{"reward": "1"}"#),
        (200, r#"{"reward": true}"#),
        (200, r#"{"reward": NaN}"#),
        (200, r#"{"reward": 1e999}"#),
        (200, r#"{"score": 1}"#),
        (200, r#"{"components": {}}"#),
        (200, r#"{"components": {"a": "x"}}"#),
        (200, r#"{"components": {"a": 1e308, "b": 1e308}}"#),
        (200, r#"{"reward": 1, "components": {"a": 1}}"#),
        (200, r#"{"unscorable": true}"#),
    ] {
        let outcome = ask(PLAIN, status, body);
        assert!(matches!(outcome, Outcome::Failed(Error::Unavailable(_))), "{status} {body}: {outcome:?}");
    }
    let plugin: Remote = configured(PLAIN).unwrap();
    for failure in
        [Failure::TimedOut, Failure::TooLarge, Failure::Denied("x".into()), Failure::Failed("y".into())]
    {
        answer_http(move |_| Err(failure.clone()));
        assert!(matches!(plugin.score(&group(None, &["4"]))[0], Outcome::Failed(Error::Unavailable(_))));
    }
}

#[test]
fn servers_written_for_slime_are_understood() {
    for body in ["1", "1.0", r#"{"reward": 1}"#, r#"{"score": 1}"#] {
        assert_eq!(ask(SLIME, 200, body), Outcome::scored(1.0), "{body}");
    }
    let plugin: Remote = configured(SLIME).unwrap();
    answer_http(|request| {
        let sent: Map<String, Value> = serde_json::from_slice(&request.body).unwrap();
        let mut keys: Vec<&String> = sent.keys().collect();
        keys.sort();
        assert_eq!(keys, ["label", "metadata", "prompt", "response"]);
        assert!(sent["prompt"].is_string());
        Ok(Response { status: 200, headers: Vec::new(), body: b"0.5".to_vec() })
    });
    assert_eq!(plugin.score(&group(Some("4"), &["4"])), [Outcome::scored(0.5)]);
}

#[test]
fn a_configuration_without_an_address_is_refused() {
    for config in ["{}", r#"{"url": "rewards.example.com"}"#, r#"{"url": "https://a", "compat": "other"}"#] {
        assert!(configured::<Remote>(config).is_err(), "{config}");
    }
}

proptest! {
    #[test]
    fn for_every_answer_a_score_is_finite(body in "[-0-9.eE\"{}:, a-z]{0,60}") {
        if let Outcome::Scored(grade) = ask(SLIME, 200, &body) {
            prop_assert!(grade.components.iter().all(|c| c.value.is_finite()));
        }
    }
}
