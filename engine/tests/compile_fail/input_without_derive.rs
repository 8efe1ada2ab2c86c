// A struct is a state by `#[derive(State)]`, or a payload by an `impl`; forgetting both is an error where the node is added.
use serde::{Deserialize, Serialize};
use superstep::prelude::*;

#[derive(Clone, Serialize, Deserialize)]
struct Report {
    topic: String,
}

const WRITE: Node<Report> = Node::new("write");

async fn write(_: Report, _: Context) -> NodeResult {
    Ok(Update::new())
}

fn main() {
    let _ = Graph::<()>::builder().node(WRITE, write);
}
