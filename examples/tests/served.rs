//! The same job with a model behind a real server of this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use superstep_agent::message::{Message, ToolCall};

use crate::program::{Home, PROJECT, Ran, kill_at, run, spawn};
use crate::provider::{Answer, Asked, Provider};

const KEY: &str = "sk-never-shown-7391";

/// What the model says, in the order in which it is asked: coordinator, coordinator, surveyor, surveyor, coordinator,
/// coordinator.
fn replies() -> [Message; 6] {
    let call = |id, name, args| Message::ai_calls("", [ToolCall::new(id, name, args)]);
    let part = json!({ "subagent_type": "surveyor", "description": "Survey `/src`." });
    [
        call("a", "ls", json!({ "path": "/" })),
        call("b", "task", part),
        call("c", "glob", json!({ "pattern": "**/*", "path": "/src" })),
        Message::ai("Two programs."),
        call(
            "d",
            "write_report",
            json!({ "content": "# As the server said\n" }),
        ),
        Message::ai("It is done."),
    ]
}

fn script() -> impl Iterator<Item = Answer> {
    replies().into_iter().map(|reply| Answer::reply(&reply))
}

impl Home {
    /// The program with a model at this address.
    fn with_model(&self, url: &str, args: &[&str]) -> Command {
        let mut command = self.command(["--model", "openai:test-model"]);
        command
            .args(args)
            .env("OPENAI_BASE_URL", url)
            .env("OPENAI_API_KEY", KEY);
        command
    }

    /// Everything that a run left behind, as one text.
    fn everything(&self, ran: &Ran) -> String {
        let files = fs::read_dir(self.out()).unwrap();
        let files = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        let files: Vec<_> = files.flatten().collect();
        [&ran.stdout, &ran.stderr, &*String::from_utf8_lossy(&files)].concat()
    }
}

/// A request in short: who is asked with which tools, and the conversation after the system prompt.
fn shown(asked: &Asked) -> String {
    let messages = asked.body["messages"].as_array().unwrap();
    let system = messages[0]["content"].as_str().unwrap();
    let who = match system {
        _ if system.starts_with("You survey a directory") => "coordinator",
        _ if system.starts_with("You survey one part") => "surveyor",
        _ => panic!("an unknown prompt: {system}"),
    };
    let tools = asked.body["tools"].as_array().unwrap().iter();
    let tools = tools.map(|tool| tool["function"]["name"].as_str().unwrap());
    let tools: Vec<_> = tools.collect();
    let messages: Vec<_> = messages.iter().skip(1).map(line).collect();
    format!(
        "{who} with {}:\n  {}",
        tools.join(" "),
        messages.join("\n  ")
    )
}

/// A message of a request as a line: a text, calls, or the result of a call.
fn line(message: &Value) -> String {
    let role = message["role"].as_str().unwrap();
    let text = message["content"].as_str().unwrap_or_default();
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| format!("{} {}", call["id"], call["function"]["name"]));
    let id = message["tool_call_id"].as_str().map(str::to_owned);
    let parts: Vec<_> = id
        .into_iter()
        .chain([text.replace('\n', "; ")])
        .chain(calls)
        .collect();
    format!("{role}: {}", parts.join(" "))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_is_what_the_server_said() {
    let home = Home::new(PROJECT);
    let provider = Provider::start(script()).await;
    let ran = run(home.with_model(provider.url(), &["project"]));
    assert_eq!(ran.report(), "# As the server said\n");
    let asked = provider.asked();
    assert!(asked.iter().all(|asked| {
        asked
            .head
            .contains(&format!("authorization: bearer {KEY}\r\n"))
    }));
    assert!(
        asked
            .iter()
            .all(|asked| asked.body["model"] == "test-model")
    );
    assert!(!home.everything(&ran).contains(KEY));
    let shown: Vec<_> = asked.iter().map(shown).collect();
    insta::assert_snapshot!(home.plain(&shown.join("\n")).replace(ran.thread(), "THREAD"), @r#"
    coordinator with ls glob grep read_file write_report task:
      user: Survey the directory `project` and write a report of it.
    coordinator with ls glob grep read_file write_report task:
      user: Survey the directory `project` and write a report of it.
      assistant:  "a" "ls"
      tool: a entries of `/`: 3; README.md (28 bytes); docs/; src/
    surveyor with ls glob grep read_file:
      user: Survey `/src`.
    surveyor with ls glob grep read_file:
      user: Survey `/src`.
      assistant:  "c" "glob"
      tool: c files that match: 2; /src/main.rs (41 bytes); /src/moon.py (20 bytes)
    coordinator with ls glob grep read_file write_report task:
      user: Survey the directory `project` and write a report of it.
      assistant:  "a" "ls"
      tool: a entries of `/`: 3; README.md (28 bytes); docs/; src/
      assistant:  "b" "task"
      tool: b Two programs.
    coordinator with ls glob grep read_file write_report task:
      user: Survey the directory `project` and write a report of it.
      assistant:  "a" "ls"
      tool: a entries of `/`: 3; README.md (28 bytes); docs/; src/
      assistant:  "b" "task"
      tool: b Two programs.
      assistant:  "d" "write_report"
      tool: d the report is written: HOME/out/report-THREAD.md
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subagent_that_ended_is_not_asked_again() {
    let home = Home::new(PROJECT);
    let undisturbed = Provider::start(script()).await;
    let whole = run(home.with_model(undisturbed.url(), &["project"]));
    // The subagent has ended when the coordinator is asked for the third time, and then nothing is said.
    let first = Provider::start(script().take(4).chain([Answer::silence()])).await;
    let mut asked = 0;
    let killed = kill_at(home.with_model(first.url(), &["project"]), |line| {
        asked += usize::from(line.contains("coordinator: model"));
        asked == 3
    });
    let second = Provider::start(script().skip(4)).await;
    let resumed = run(home.with_model(second.url(), &["--thread", killed.thread()]));
    assert_eq!(resumed.report(), "# As the server said\n");
    let [before, after] = [undisturbed, second].map(|provider| {
        let asked = provider.asked();
        asked.iter().map(shown).collect::<Vec<_>>()
    });
    let thread = |ran: &Ran| ran.thread().to_owned();
    assert_eq!(
        before[4..]
            .join("\n")
            .replace(&thread(&whole), &thread(&killed)),
        after.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_is_told_before_the_work() {
    let home = Home::new(PROJECT);
    let provider = Provider::start([Answer::silence()]).await;
    let mut child = spawn(&mut home.with_model(provider.url(), &["project"]));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // The process says it while the server says nothing.
    stdout.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("thread:   project-"), "{line}");
}

/// What the model answers, and what the program says then.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_is_named_and_the_thread_goes_on() {
    let again = |answer: Answer| vec![answer; 4];
    let refused = json!({ "error": { "message": format!("Incorrect key {KEY}.\nTry another.") } });
    let now = |answer: Answer| answer.header("retry-after", "0");
    let reply = || Answer::reply(&Message::ai("A long answer."));
    let cases = [
        vec![Answer::new(401, refused.to_string())],
        again(now(Answer::new(429, "slow down"))),
        again(now(Answer::new(500, "out of order"))),
        vec![Answer::new(429, "later").header("retry-after", "3600")],
        vec![Answer::new(404, "<h1>\nno such page")],
        vec![Answer::new(200, "garbage")],
        vec![Answer::events([json!({ "no": "choices" })])],
        again(Answer::silence()),
        vec![reply().hang_after(3)],
        vec![reply().cut_after(3)],
    ];
    let mut said = Vec::new();
    for case in cases {
        let home = Home::new(PROJECT);
        let provider = Provider::start(case).await;
        said.push(fails(&home, provider.url()).replace(provider.url(), "URL"));
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    the run stopped: node `model` failed: not allowed, check the key and the account: HTTP 401: Incorrect key ***. Try another.
    the run stopped: node `model` failed: rate limited: HTTP 429: slow down
    the run stopped: node `model` failed: the provider is overloaded or out of order: HTTP 500: out of order
    the run stopped: node `model` failed: rate limited: HTTP 429: later
    the run stopped: node `model` failed: bad request: HTTP 404: <h1> no such page
    the run stopped: node `model` failed: the answer is not a model's reply: garbage
    the run stopped: node `model` failed: the answer is not a model's reply: data: {"no":"choices"}
    the run stopped: node `model` failed: URL/chat/completions took too long
    the run stopped: node `model` failed: the reply was cut off: URL/chat/completions took too long
    the run stopped: node `model` failed: the reply was cut off: lost the connection to URL/chat/completions
    "#);
}

#[test]
fn an_address_without_a_server_is_named() {
    let home = Home::new(PROJECT);
    // Nobody listens on a port whose only listener was closed.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    insta::assert_snapshot!(fails(&home, &url).replace(&url, "URL"), @"the run stopped: node `model` failed: cannot reach URL/chat/completions");
    insta::assert_snapshot!(fails(&home, "no address"), @"the run stopped: node `model` failed: bad request: the base URL: relative URL without a base");
}

/// What the program says when it fails with this model; the thread goes on without it afterwards.
fn fails(home: &Home, url: &str) -> String {
    let failed = run(home.with_model(url, &["project", "--timeout", "1"]));
    assert!(!home.everything(&failed).contains(KEY));
    assert_eq!(home.go_on(failed.thread()).report(), home.survey().report());
    // What the HTTP library adds is its own affair.
    failed.error().split(": error ").next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_answer_is_for_all_questions() {
    let home = Home::new(PROJECT);
    let write = |id, content| ToolCall::new(id, "write_report", json!({ "content": content }));
    let both = Message::ai_calls(
        "",
        [write("a", "# First\n"), write("b", "# Second, longer\n")],
    );
    let provider = Provider::start([both, Message::ai("Done.")].map(|reply| Answer::reply(&reply)));
    let provider = provider.await;
    let asked = run(home.with_model(provider.url(), &["project", "--ask"]));
    let (thread, out) = (asked.thread(), home.out().display().to_string());
    let may = |bytes| {
        format!("question: may `write_report` write {bytes} bytes to {out}/report-{thread}.md?\n")
    };
    let options = format!("--thread {thread} --out {out} --model openai:test-model");
    let answer = format!("answer:   repo_report {options} --answer yes|no\n");
    assert!(
        asked.stdout.contains(&[may(8), may(17), answer].concat()),
        "{asked:#?}"
    );
    let refused = run(home.with_model(provider.url(), &["--thread", thread, "--answer", "no"]));
    assert_eq!(refused.result("report"), Some("not written, as you wished"));
    let results = shown(provider.asked().last().unwrap())
        .matches("the user rejected")
        .count();
    assert_eq!(results, 2);
}
