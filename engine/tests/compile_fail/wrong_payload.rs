// What is sent is what the node takes.
use superstep::prelude::*;

const WRITE: Node<String> = Node::new("write");

fn main() {
    let _ = Update::new().send(WRITE, 7);
}
