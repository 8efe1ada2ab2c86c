//! Ids and bytes do not depend on when and how often a run is taken up.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use superstep_agent::agent::{Conversation, create_agent, says};
use superstep_agent::message::{Body, Message};
use superstep_agent::tool::Tool;
use superstep_checkpoint::{Checkpointer, MemoryCheckpointer, Place};

use crate::process::{play, report};
use crate::support::{
    Nothing, calls, dump, entered, entries, garbled, noting, open, scripted, until_one_is_saved,
};

/// Plays a stage of a conversation whose second turn can be killed in its tool `slow`; gives the messages' ids.
async fn talk(stage: String, folder: PathBuf) -> Value {
    let folder = folder.join(if stage == "whole" { "whole" } else { "killed" });
    fs::create_dir_all(&folder).unwrap();
    let mut script = vec![
        garbled(calls([]), "ls"),
        Message::ai("Hello."),
        calls(["fast", "slow"]),
        Message::ai("Done.").with_id("given by the provider"),
    ];
    if stage == "rest" {
        script.drain(..3);
    }
    let noted = folder.clone();
    let fast = Tool::new("fast", "Is fast.", move |_: Nothing, _| {
        entered(&noted, "fast");
        async { Ok("fast done".into()) }
    });
    let (hangs, slowly) = (stage == "killed", folder.clone());
    let slow = Tool::new("slow", "Is slow.", move |_: Nothing, cx| {
        entered(&slowly, "slow");
        let folder = slowly.clone();
        async move {
            if hangs {
                until_one_is_saved(&folder, &cx).await;
                report(&json!("in the middle"));
                std::future::pending::<()>().await;
            }
            Ok("slow done".into())
        }
    });
    let agent = create_agent(scripted(script)).tools([fast, slow]);
    let thread = agent.build().unwrap().thread(&open(&folder), "t");
    let outcome = match &*stage {
        "rest" => thread.proceed().await,
        _ => {
            thread.start(says("Hi")).await.unwrap();
            thread.start(says("go")).await
        }
    };
    ids(&outcome.unwrap().done().unwrap())
}

/// The ids of the messages that the agent itself wrote.
fn ids(state: &Conversation) -> Value {
    let own = state.messages.iter();
    let own = own.filter(|message| !matches!(message.body, Body::Human));
    own.map(|message| json!(message.id)).collect()
}

#[test]
fn a_killed_run_leaves_the_same_bytes_as_an_undisturbed_one() {
    play(
        a_killed_run_leaves_the_same_bytes_as_an_undisturbed_one,
        talk,
        async |stages| {
            let whole = stages.run("whole");
            assert_eq!(stages.kill("killed"), "in the middle");
            let killed = stages.folder().join("killed");
            assert_eq!(entries(&killed), ["fast", "slow"]);
            assert_eq!(stages.run("rest"), whole);
            assert_eq!(entries(&killed), ["fast", "slow", "slow"]);
            let stored = async |folder: &Path| dump(&open(folder), &Place::root("t")).await;
            let dump = stored(&killed).await;
            assert_eq!(dump.len(), 9);
            assert_eq!(dump, stored(&stages.folder().join("whole")).await);
            all_different(&whole);
        },
    );
}

fn all_different(ids: &Value) {
    let ids: Vec<&str> = ids
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_str)
        .collect();
    assert_eq!(ids.len(), 7, "each message has one");
    assert_eq!(ids.last(), Some(&"given by the provider"));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

#[tokio::test]
async fn the_same_talk_twice_gives_the_same_bytes() {
    let mut stores = Vec::new();
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        talk("whole".into(), folder.path().into()).await;
        let store = open(&folder.path().join("whole"));
        stores.push(dump(&store, &Place::root("t")).await);
    }
    assert_eq!(stores[0], stores[1]);
}

#[tokio::test]
async fn threads_differ() {
    let store = MemoryCheckpointer::new();
    let turn = || calls(["look"]);
    let script = [turn(), Message::ai("1"), turn(), Message::ai("2")];
    let agent = create_agent(scripted(script)).tool(noting("look", &Default::default()));
    let agent = Arc::new(agent.build().unwrap());
    let mut seen = HashSet::new();
    for thread in ["a", "b"] {
        let outcome = agent.thread(&store, thread).start(says("go")).await;
        let ids = ids(&outcome.unwrap().done().unwrap());
        seen.extend(ids.as_array().unwrap().iter().map(Value::to_string));
    }
    assert_eq!(seen.len(), 6);
    assert_eq!(
        store.size("a").await.unwrap(),
        store.size("b").await.unwrap()
    );
}
