//! What a long conversation costs.

use superstep_agent::agent::{Conversation, create_agent, says};
use superstep_agent::message::Message;
use superstep_checkpoint::Checkpointer;

use crate::support::{calls, lines, noting, open, scripted};

const TURNS: usize = 200;

/// A text of 500 bytes that is not the same twice.
fn text(speaker: &str, turn: usize) -> String {
    let mut text = format!("{speaker} {turn} ");
    text.extend(std::iter::repeat_n('x', 500 - text.len()));
    text
}

#[tokio::test]
async fn a_conversation_grows_by_what_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let script = (0..TURNS).flat_map(|turn| [calls(["look"]), Message::ai(text("ai", turn))]);
    let agent = create_agent(scripted(script));
    let agent = agent
        .tool(noting("look", &Default::default()))
        .build()
        .unwrap();
    let store = open(folder.path());
    let (mut said, mut sizes) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let human = text("human", turn);
        agent.thread(&store, "t").start(says(&human)).await.unwrap();
        said.extend([
            format!("human: {human}"),
            "ai: look{}".to_owned(),
            "look-0: look done".to_owned(),
            format!("ai: {}", text("ai", turn)),
        ]);
        sizes.push(store.size("t").await.unwrap().bytes());
    }
    let (half, full) = (sizes[TURNS / 2 - 1], sizes[TURNS - 1]);
    assert!(full * 10 <= half * 23, "{half} bytes, then {full}");
    let spoken = 1_000 * TURNS as u64;
    assert!(full <= 5 * spoken, "{full} bytes for {spoken} of text");

    drop(store);
    let state = agent.thread(&open(folder.path()), "t").state().await;
    let state: Conversation = state.unwrap().read().unwrap();
    assert_eq!(lines(&state.messages), said);
}
