//! Judges against a server of our own: what is asked, what is kept, and what it may cost.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use url::Url;
use whet_capability::{Cancel, HostCall, Judge, JudgeError, Question, Reply};
use whet_http::Key;
use whet_http::testing::{Received, Server, hang, respond, serve};
use whet_judge::{Canned, Endpoint, Judges, Memory};
use whet_trajectory::{Message, Role};

const SECRET: &str = "sk-very-secret-0123456789";
/// No machine misses it.
const PATIENT: Duration = Duration::from_secs(100);

/// A server that repeats the question's last message.
fn parrot() -> Server {
    serve(|_, request, c| reply(c, &asked(request))).unwrap()
}

fn asked(request: &Received) -> String {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    last["content"].as_str().unwrap().to_owned()
}

fn reply(connection: &mut TcpStream, text: &str) {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    });
    respond(connection, "200 OK", &[], &body.to_string());
}

fn endpoint(server: &Server) -> Endpoint {
    let key = Key::new("JUDGE_KEY", SECRET).unwrap();
    Endpoint::new(Url::parse(&server.url("/v1")).unwrap(), "judge-1", Some(key))
}

fn question(text: &str) -> Question {
    Question { messages: vec![Message::text(Role::User, text)], max_tokens: 20, temperature: 0.0 }
}

fn ask(judge: &dyn Judge, text: &str) -> Result<Reply, JudgeError> {
    ask_within(judge, &question(text), PATIENT)
}

fn ask_within(judge: &dyn Judge, question: &Question, patience: Duration) -> Result<Reply, JudgeError> {
    let cancel = Cancel::default();
    let call = HostCall { plugin: "p", sample: None, deadline: Instant::now() + patience, cancel: &cancel };
    judge.chat(None, question, &call)
}

#[test]
fn a_question_goes_out_as_chat_completions_and_its_reply_comes_back() {
    let server = parrot();
    let mut endpoint = endpoint(&server);
    endpoint.extra = json!({"seed": 7}).as_object().unwrap().clone();
    let judges = Judges::new(vec![endpoint], Memory::Fresh).unwrap();
    let reply = ask(&judges, "2 + 2?").unwrap();
    assert_eq!(reply, Reply { text: "2 + 2?".into(), input_tokens: 10, output_tokens: 5 });
    let received = &server.received()[0];
    assert_eq!(received.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(received.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    let body: Value = serde_json::from_str(&received.body).unwrap();
    let expected = json!({
        "model": "judge-1", "messages": [{"role": "user", "content": "2 + 2?"}],
        "max_tokens": 20, "temperature": 0.0, "seed": 7,
    });
    assert_eq!(body, expected);
}

#[test]
fn a_question_is_asked_once_also_by_many_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("judge-cache.jsonl");
    // Every answer differs, as those of a warm judge do.
    let server = serve(|number, _, c| reply(c, &format!("answer {number}"))).unwrap();
    let judges = Judges::new(vec![endpoint(&server)], Memory::Kept(&path)).unwrap();
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&judges, "same"))).collect();
        for asker in askers {
            assert_eq!(asker.join().unwrap().unwrap().text, "answer 0");
        }
    });
    assert_eq!(ask(&judges, "other").unwrap().text, "answer 1");
    drop(judges);
    // Half a line, as a crash leaves it.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"key\":\"12");
    std::fs::write(&path, text).unwrap();
    let judges = Judges::new(vec![endpoint(&server)], Memory::Kept(&path)).unwrap();
    assert_eq!(ask(&judges, "same").unwrap().text, "answer 0");
    assert_eq!(ask(&judges, "third").unwrap().text, "answer 2");
    assert_eq!(server.received().len(), 3);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
    assert!(!text.contains(SECRET));
}

#[test]
fn answers_of_a_file_that_another_writes_are_read_and_none_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("judge-cache.jsonl");
    let server = serve(|number, _, c| reply(c, &format!("answer {number}"))).unwrap();
    let owner = Judges::new(vec![endpoint(&server)], Memory::Kept(&path)).unwrap();
    ask(&owner, "q").unwrap();
    // The owner is in the midst of a line.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"key\"");
    std::fs::write(&path, &text).unwrap();
    let reader = Judges::new(vec![endpoint(&server)], Memory::Recalled(&path)).unwrap();
    assert_eq!(
        (ask(&reader, "q").unwrap().text, ask(&reader, "r").unwrap().text),
        ("answer 0".into(), "answer 1".into())
    );
    assert_eq!(ask(&reader, "r").unwrap().text, "answer 1");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_cache_with_a_damaged_line_is_named_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("judge-cache.jsonl");
    std::fs::write(&path, "{}\n").unwrap();
    let error = Judges::new(Vec::new(), Memory::Kept(&path)).err().unwrap().to_string();
    assert!(error.contains("line 1") && error.contains("judge-cache.jsonl"), "{error}");
}

#[test]
fn what_the_answer_depends_on_makes_another_question() {
    let server = serve(|number, _, c| reply(c, &number.to_string())).unwrap();
    let other = Endpoint { route: "other".into(), model: "judge-2".into(), ..endpoint(&server) };
    let judges = Judges::new(vec![endpoint(&server), other], Memory::Fresh).unwrap();
    let cancel = Cancel::default();
    let call = HostCall { plugin: "p", sample: None, deadline: Instant::now() + PATIENT, cancel: &cancel };
    let plain = question("q");
    let warm = Question { temperature: 0.5, ..plain.clone() };
    let long = Question { max_tokens: 21, ..plain.clone() };
    for (n, (route, question)) in
        [(None, &plain), (None, &warm), (None, &long), (Some("other"), &plain)].into_iter().enumerate()
    {
        assert_eq!(judges.chat(route, question, &call).unwrap().text, n.to_string());
    }
    // The first route, by its name.
    assert_eq!(judges.chat(Some("default"), &plain, &call).unwrap().text, "0");
    let unknown = judges.chat(Some("none"), &plain, &call);
    assert!(
        matches!(&unknown, Err(JudgeError::Denied(why)) if why.contains("default, other")),
        "{unknown:?}"
    );
}

#[test]
fn failures_that_may_pass_are_tried_again_and_others_are_not() {
    for (first, may_pass) in [
        ("429 Slow", true),
        ("500 Oops", true),
        ("503 Busy", true),
        ("408 Late", true),
        ("400 Bad", false),
        ("404 No", false),
    ] {
        let server = serve(move |number, _, c| match number {
            0 => respond(c, first, &[("Retry-After", "0")], r#"{"error": {"message": "no luck"}}"#),
            _ => reply(c, "fine"),
        })
        .unwrap();
        let judges = Judges::new(vec![endpoint(&server)], Memory::Fresh).unwrap();
        match (ask(&judges, "q"), may_pass) {
            (Ok(reply), true) => assert_eq!(reply.text, "fine"),
            (Err(JudgeError::Upstream(why)), false) => {
                assert!(why.contains("no luck") && why.contains(&first[..3]), "{why}");
                assert_eq!(server.received().len(), 1);
            }
            (other, _) => panic!("{first}: {other:?}"),
        }
    }
}

#[test]
fn the_number_of_tries_is_bounded() {
    let server = serve(|_, _, c| respond(c, "500 Oops", &[("Retry-After", "0")], "{}")).unwrap();
    let judges = Judges::new(vec![Endpoint { retries: 2, ..endpoint(&server) }], Memory::Fresh).unwrap();
    assert!(matches!(ask(&judges, "q"), Err(JudgeError::Upstream(_))));
    assert_eq!(server.received().len(), 3);
    // What failed is not kept: it is asked again.
    assert!(ask(&judges, "q").is_err());
    assert_eq!(server.received().len(), 6);
}

#[test]
fn answers_that_are_none_are_errors_and_never_replies() {
    for body in ["not JSON", "{}", r#"{"choices": []}"#] {
        let server = serve(move |_, _, c| respond(c, "200 OK", &[], body)).unwrap();
        let judges = Judges::new(vec![Endpoint { retries: 0, ..endpoint(&server) }], Memory::Fresh).unwrap();
        assert!(matches!(ask(&judges, "q"), Err(JudgeError::Upstream(_))), "{body}");
    }
}

#[test]
fn a_redirect_takes_no_key_anywhere() {
    let elsewhere = parrot();
    let target = elsewhere.url("/v1/chat/completions");
    let server = serve(move |_, _, c| respond(c, "307 Moved", &[("Location", &target)], "")).unwrap();
    let judges = Judges::new(vec![endpoint(&server)], Memory::Fresh).unwrap();
    assert!(matches!(ask(&judges, "q"), Err(JudgeError::Upstream(why)) if why.contains("redirect")));
    assert_eq!(elsewhere.received(), []);
}

#[test]
fn no_error_shows_the_key_whatever_the_server_repeats() {
    for status in ["400 Bad", "401 No", "403 No", "500 Oops"] {
        let server = serve(move |_, request, c| {
            let header = request.header("authorization").unwrap_or_default();
            respond(c, status, &[], &format!("you sent {header}\x1b[31m"));
        })
        .unwrap();
        let judges = Judges::new(vec![Endpoint { retries: 0, ..endpoint(&server) }], Memory::Fresh).unwrap();
        let error = ask(&judges, "q").unwrap_err().to_string();
        assert!(!error.contains(SECRET) && !error.chars().any(char::is_control), "{error}");
    }
    assert!(!format!("{:?}", endpoint(&parrot())).contains(SECRET));
}

#[test]
fn the_token_budget_ends_the_questions_and_counts_those_of_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("judge-cache.jsonl");
    let server = parrot();
    // A question costs 15 by the server's count, and reserves 20 and its own length before that.
    let thrifty = || Endpoint { token_budget: Some(80), ..endpoint(&server) };
    let judges = Judges::new(vec![thrifty()], Memory::Kept(&path)).unwrap();
    assert!(ask(&judges, "1").is_ok() && ask(&judges, "2").is_ok() && ask(&judges, "3").is_ok());
    let judges = Judges::new(vec![thrifty()], Memory::Kept(&path)).unwrap();
    assert_eq!(ask(&judges, "4"), Err(JudgeError::OverBudget));
    assert!(ask(&judges, "1").is_ok(), "what was answered is free");
    assert_eq!(server.received().len(), 3);
}

#[test]
fn no_more_questions_at_once_than_the_recipe_says() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (now.clone(), most.clone());
    let server = serve(move |_, request, c| {
        peak.fetch_max(counted.fetch_add(1, SeqCst) + 1, SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        counted.fetch_sub(1, SeqCst);
        reply(c, &asked(request));
    })
    .unwrap();
    let judges = Judges::new(vec![Endpoint { concurrency: 2, ..endpoint(&server) }], Memory::Fresh).unwrap();
    std::thread::scope(|scope| {
        for i in 0..12 {
            let judges = &judges;
            scope.spawn(move || assert_eq!(ask(judges, &i.to_string()).unwrap().text, i.to_string()));
        }
    });
    assert!((1..=2).contains(&most.load(SeqCst)), "{most:?}");
    assert_eq!(now.load(SeqCst), 0);
}

#[test]
fn a_pace_that_cannot_be_kept_within_the_deadline_times_out_without_asking() {
    let server = parrot();
    let judges =
        Judges::new(vec![Endpoint { requests_per_minute: Some(1), ..endpoint(&server) }], Memory::Fresh)
            .unwrap();
    assert!(ask(&judges, "1").is_ok());
    let late = ask_within(&judges, &question("2"), Duration::from_secs(5));
    assert_eq!(late, Err(JudgeError::TimedOut));
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_server_that_wants_rest_gets_it_or_the_call_ends() {
    let server =
        serve(|_, _, c| respond(c, "429 Slow", &[("Retry-After", "3600")], r#"{"message": "slow down"}"#))
            .unwrap();
    let judges = Judges::new(vec![endpoint(&server)], Memory::Fresh).unwrap();
    let error = ask(&judges, "q").unwrap_err();
    assert!(matches!(&error, JudgeError::Upstream(why) if why.contains("slow down")), "{error:?}");
    assert_eq!(ask(&judges, "another"), Err(JudgeError::TimedOut));
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_server_that_hangs_is_left_at_the_routes_own_deadline_and_at_the_calls() {
    let server = serve(|number, request, c| match number {
        0 => hang(c),
        _ => reply(c, &asked(request)),
    })
    .unwrap();
    let quick = Endpoint { timeout: Duration::from_millis(200), ..endpoint(&server) };
    let judges = Judges::new(vec![quick], Memory::Fresh).unwrap();
    assert_eq!(ask(&judges, "q").map(|r| r.text), Ok("q".into()));

    let silent = serve(|_, _, c| hang(c)).unwrap();
    let judges = Judges::new(vec![endpoint(&silent)], Memory::Fresh).unwrap();
    let late = ask_within(&judges, &question("q"), Duration::from_millis(200));
    assert_eq!(late, Err(JudgeError::TimedOut));
}

#[test]
fn a_cancel_ends_every_wait() {
    let (begun, asking) = mpsc::channel();
    let server = serve(move |_, _, c| {
        let _ = begun.send(());
        hang(c);
    })
    .unwrap();
    let judges = Judges::new(vec![Endpoint { concurrency: 1, ..endpoint(&server) }], Memory::Fresh).unwrap();
    let cancel = Cancel::default();
    let deadline = Instant::now() + Duration::from_secs(100_000);
    std::thread::scope(|scope| {
        // One asks, one waits for the same answer, one waits for a place.
        let ask = |text: &'static str| {
            let (judges, cancel) = (&judges, &cancel);
            scope.spawn(move || {
                let call = HostCall { plugin: "p", sample: None, deadline, cancel };
                judges.chat(None, &question(text), &call)
            })
        };
        let first = ask("same");
        asking.recv().unwrap();
        let others = [ask("same"), ask("other")];
        cancel.pull();
        assert_eq!(first.join().unwrap(), Err(JudgeError::TimedOut));
        for other in others {
            assert_eq!(other.join().unwrap(), Err(JudgeError::TimedOut));
        }
    });
}

#[test]
fn plugins_cannot_ask_for_more_than_the_route_gives() {
    let server = parrot();
    let strict = Endpoint { max_tokens: 100, max_temperature: 1.0, ..endpoint(&server) };
    let judges = Judges::new(vec![strict], Memory::Fresh).unwrap();
    for (max_tokens, temperature) in
        [(0, 0.0), (101, 0.0), (u32::MAX, 0.0), (1, 1.1), (1, -0.1), (1, f32::NAN), (1, f32::INFINITY)]
    {
        let greedy = Question { max_tokens, temperature, ..question("q") };
        assert!(
            matches!(ask_within(&judges, &greedy, PATIENT), Err(JudgeError::Denied(_))),
            "{max_tokens} {temperature}"
        );
    }
    let empty = Question { messages: Vec::new(), ..question("q") };
    assert!(matches!(ask_within(&judges, &empty, PATIENT), Err(JudgeError::Denied(_))));
    assert_eq!(server.received(), []);
}

#[test]
fn canned_replies_belong_to_their_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("replies.jsonl");
    std::fs::write(&path, "{\"id\": \"a\", \"reply\": \"yes\"}\n\n{\"id\": 7, \"reply\": \"no\"}\n").unwrap();
    let canned = Canned::read(&path).unwrap();
    let cancel = Cancel::default();
    let chat = |sample| {
        let call = HostCall { plugin: "p", sample, deadline: Instant::now() + PATIENT, cancel: &cancel };
        canned.chat(None, &question("q"), &call).map(|reply| reply.text)
    };
    assert_eq!((chat(Some("a")), chat(Some("7"))), (Ok("yes".into()), Ok("no".into())));
    assert!(matches!(chat(Some("b")), Err(JudgeError::Upstream(why)) if why.contains("`b`")));
    assert!(matches!(chat(None), Err(JudgeError::Denied(_))));
    for wrong in [
        "x",
        "{\"id\": \"a\"}",
        "{\"reply\": \"a\"}",
        "{\"id\": 1, \"reply\": \"\"}\n{\"id\": \"1\", \"reply\": \"\"}",
    ] {
        std::fs::write(&path, wrong).unwrap();
        assert!(Canned::read(&path).is_err(), "{wrong}");
    }
}
