// A node may wake up on another thread, so what it holds while it waits must be able to go there.
use std::rc::Rc;

use superstep::prelude::*;

const NODE: Node<String> = Node::new("node");

async fn holds_an_rc(text: String, cx: Context) -> NodeResult {
    let text = Rc::new(text);
    let answer: bool = cx.interrupt(&*text).await;
    drop((text, answer));
    Ok(Update::new())
}

fn main() {
    let _ = Graph::<()>::builder().node(NODE, holds_an_rc);
}
