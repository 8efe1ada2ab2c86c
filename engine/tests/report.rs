//! The example that README and the crate's page show.

use serde::{Deserialize, Serialize};
use superstep::prelude::*;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Report {
    topic: String,
    #[reduce(append)]
    sections: Vec<String>,
    #[ephemeral]
    approved: bool,
}

const OUTLINE: Node<Report> = Node::new("outline");
const WRITE: Node<String> = Node::new("write");
const REVIEW: Node<Report> = Node::new("review");

async fn outline(report: Report, _: Context) -> NodeResult {
    let titles = ["Why", "How"].map(|word| format!("{word} {}", report.topic));
    Ok(titles
        .into_iter()
        .fold(Update::new(), |update, title| update.send(WRITE, title)))
}

async fn write(title: String, cx: Context) -> NodeResult {
    cx.emit(&title);
    Ok(Update::new().put(Report::SECTIONS, vec![format!("# {title}")]))
}

async fn review(report: Report, cx: Context) -> NodeResult {
    let approved: bool = cx.interrupt(&report.sections).await;
    Ok(Update::new().put(Report::APPROVED, approved))
}

fn graph() -> Graph<Report> {
    Graph::<Report>::builder()
        .node(OUTLINE, outline)
        .node(WRITE, write)
        .node(REVIEW, review)
        .entry(OUTLINE)
        .edge(WRITE, REVIEW)
        .branch(REVIEW, |report| (!report.approved).then_some(OUTLINE))
        .build()
        .unwrap()
}

#[tokio::test]
async fn pauses_and_resumes() {
    let store = MemoryCheckpointer::new();
    let thread = graph().thread(&store, "report-7");
    let input = Report {
        topic: "graphs".into(),
        ..Report::default()
    };
    let outcome = thread.start(input).await.unwrap();
    let Outcome::Paused(asks) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        asks[0].payload::<Vec<String>>().unwrap(),
        ["# Why graphs", "# How graphs"]
    );
    let outcome = thread.resume([asks[0].answer(true)]).await.unwrap();
    let Outcome::Done(report) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        report,
        Report {
            topic: "graphs".into(),
            sections: vec!["# Why graphs".into(), "# How graphs".into()],
            approved: true,
        }
    );
    let history = thread.history(100).await.unwrap();
    let steps: Vec<i64> = history.iter().map(|snapshot| snapshot.step).collect();
    assert_eq!(steps, [3, 2, 1, 0, -1]);
}
