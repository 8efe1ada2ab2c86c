// Neither can a `goto`, or a branch.
use superstep::prelude::*;

const FIRST: Node<()> = Node::new("first");
const WRITE: Node<String> = Node::new("write");

fn main() {
    let _ = Update::new().goto(WRITE);
    let _ = Graph::<()>::builder().branch(FIRST, |()| WRITE);
}
