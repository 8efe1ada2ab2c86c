//! Questions and answers.

use std::time::Duration;

use serde_json::json;
use superstep::AnswerError;
use superstep::prelude::*;

use super::{Count, Log, alone, asking, done, line, log, message, node, paused};

/// Three nodes that ask in one superstep.
fn three() -> Graph<Log> {
    let builder = ["a", "b", "c"]
        .into_iter()
        .fold(Graph::<Log>::builder(), |builder, name| {
            builder.node(node(name), asking).entry(node(name))
        });
    builder.build().unwrap()
}

#[tokio::test]
async fn several_questions_are_answered_one_after_the_other() {
    let store = MemoryCheckpointer::new();
    let thread = three().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let payloads: Vec<String> = asks.iter().map(|ask| ask.payload().unwrap()).collect();
    assert_eq!(payloads, ["a?", "b?", "c?"]);
    let [a, b, c] = &asks[..] else {
        panic!("{asks:?}")
    };
    assert_eq!(
        paused(thread.resume([b.answer("second")]).await),
        [a.clone(), c.clone()]
    );
    assert_eq!(
        paused(thread.resume([c.answer("third")]).await),
        [a.clone()]
    );
    let state = thread.state().await.unwrap();
    assert_eq!(
        state.read::<Log>().unwrap(),
        log(&["b: second", "c: third"])
    );
    assert_eq!(state.asks().collect::<Vec<_>>(), [a]);
    // The last one needs no id.
    let end = done(thread.resume([Answer::only("first")]).await);
    assert_eq!(end, log(&["a: first", "b: second", "c: third"]));
}

#[tokio::test]
async fn an_answer_without_id_fits_one_question_only() {
    let store = MemoryCheckpointer::new();
    let thread = three().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let ambiguous = thread.resume([Answer::only("x")]).await;
    assert!(matches!(
        ambiguous,
        Err(RunError::Answer(AnswerError::Ambiguous { open: 3 }))
    ));
    insta::assert_snapshot!(message(ambiguous), @"3 questions are open: say by id which one is answered");
    assert_eq!(paused(thread.proceed().await), asks);
}

#[tokio::test]
async fn an_answer_to_no_open_question_is_refused() {
    let store = MemoryCheckpointer::new();
    let thread = three().thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    thread.resume([asks[0].answer("x")]).await.unwrap();
    let again = thread.resume([asks[0].answer("y")]).await;
    assert!(matches!(again, Err(RunError::Answer(AnswerError::NotOpen(id))) if id == asks[0].id));
    // One bad answer spoils the call: the good one beside it is not taken either.
    let mixed = thread
        .resume([asks[1].answer("x"), asks[0].answer("y")])
        .await;
    assert!(matches!(
        mixed,
        Err(RunError::Answer(AnswerError::NotOpen(_)))
    ));
    assert_eq!(thread.state().await.unwrap().asks().count(), 2);
    let twice = thread
        .resume([asks[1].answer("x"), asks[1].answer("y")])
        .await;
    assert!(matches!(
        twice,
        Err(RunError::Answer(AnswerError::NotOpen(_)))
    ));
    let rest = thread
        .resume([asks[1].answer("x"), asks[2].answer("x")])
        .await;
    assert_eq!(done(rest), log(&["a: x", "b: x", "c: x"]));
    let nothing = thread.resume([Answer::only("x")]).await;
    insta::assert_snapshot!(message(nothing), @"no question is open");
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_leaves_the_question_open() {
    let count = Count::default();
    let counted = count.clone();
    let graph = alone(move |_: Log, cx: Context| {
        counted.one_more();
        async move {
            let number: u32 = cx.interrupt("how many?").await;
            Ok(line(format!("{number}")))
        }
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let wrong = thread.resume([asks[0].answer("many")]).await;
    let wrong = message(wrong).replace(&asks[0].id.to_string(), "ID");
    insta::assert_snapshot!(wrong, @r#"node `only` failed: the answer to question ID is not what the node takes: invalid type: string "many", expected u32"#);
    let state = thread.state().await.unwrap();
    assert_eq!(state.asks().collect::<Vec<_>>(), [&asks[0]]);
    assert_eq!(done(thread.resume([asks[0].answer(3)]).await), log(&["3"]));
    assert_eq!(count.get(), 3);
}

#[tokio::test]
async fn a_node_asks_several_times_in_order() {
    let graph = alone(|_: Log, cx: Context| async move {
        let first: String = cx.interrupt("first?").await;
        let second: String = cx.interrupt(&json!({ "after": first })).await;
        Ok(line(format!("{first}, {second}")))
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let first = paused(thread.start(Log::default()).await);
    let second = paused(thread.resume([Answer::only("one")]).await);
    assert_ne!(first[0].id, second[0].id);
    assert_eq!(second[0].payload.0, json!({ "after": "one" }));
    assert_eq!(
        done(thread.resume([Answer::only("two")]).await),
        log(&["one, two"])
    );
}

/// Pauses on one question, whatever the node tries, and takes the answer afterwards.
async fn cannot_swallow(handler: impl superstep::Handler<Log>) {
    let store = MemoryCheckpointer::new();
    let thread = alone(handler).thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    assert_eq!(asks.len(), 1);
    assert_eq!(
        done(thread.resume([asks[0].answer("yes")]).await),
        log(&["yes"])
    );
}

// The clock is paused: if the engine waited for the node, its timeout would be over at once.
#[tokio::test(start_paused = true)]
async fn a_node_cannot_swallow_its_own_question() {
    cannot_swallow(|_: Log, cx: Context| async move {
        let asked = cx.interrupt::<String>("timeout?");
        let answer = tokio::time::timeout(Duration::from_secs(1), asked).await;
        Ok(line(answer.unwrap_or_else(|_| "swallowed".into())))
    })
    .await;
    cannot_swallow(|_: Log, cx: Context| async move {
        Ok(line(tokio::select! {
            biased;
            answer = cx.interrupt::<String>("select?") => answer,
            () = std::future::ready(()) => "swallowed".into(),
        }))
    })
    .await;
    cannot_swallow(|_: Log, cx: Context| async move {
        let asked = cx.interrupt::<String>("spawn?");
        Ok(line(
            tokio::spawn(asked)
                .await
                .unwrap_or_else(|_| "swallowed".into()),
        ))
    })
    .await;
    cannot_swallow(|_: Log, cx: Context| async move {
        let failing = std::future::ready(Err::<(), _>("swallowed"));
        let asked = async { Ok(cx.interrupt::<String>("try_join?").await) };
        match tokio::try_join!(asked, failing) {
            Ok((answer, ())) => Ok(line(answer)),
            // With an answer there is nothing to swallow it.
            Err(_) => Ok(line("yes")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_node_can_ask_two_questions_at_once() {
    let graph = alone(|_: Log, cx: Context| async move {
        let (one, two) = tokio::join!(cx.interrupt::<u32>("one?"), cx.interrupt::<u32>("two?"));
        Ok(line(format!("{one} {two}")))
    });
    let store = MemoryCheckpointer::new();
    let thread = graph.thread(&store, "t");
    let asks = paused(thread.start(Log::default()).await);
    let [one, two] = &asks[..] else {
        panic!("{asks:?}")
    };
    assert_eq!(paused(thread.resume([two.answer(2)]).await), [one.clone()]);
    assert_eq!(done(thread.resume([one.answer(1)]).await), log(&["1 2"]));
}

#[test]
fn an_id_survives_its_text() {
    let text = "d771523eadf1d3a094b8014c19616e15";
    let id: superstep::AskId = text.parse().unwrap();
    assert_eq!(id.to_string(), text);
    let wrong = "d771".parse::<superstep::AskId>().unwrap_err();
    insta::assert_snapshot!(wrong, @"`d771` is no question id: 32 hex digits expected");
}
