// An edge cannot lead to a node that takes a payload: nobody would send it one.
use superstep::prelude::*;

const FIRST: Node<()> = Node::new("first");
const WRITE: Node<String> = Node::new("write");

fn main() {
    let _ = Graph::<()>::builder().edge(FIRST, WRITE);
}
