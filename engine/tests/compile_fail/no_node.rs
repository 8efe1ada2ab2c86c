// A node is an async function of its input and the context.
use superstep::prelude::*;

const NODE: Node<String> = Node::new("node");

fn not_async(_: String, _: Context) -> NodeResult {
    Ok(Update::new())
}

async fn no_context(_: String) -> NodeResult {
    Ok(Update::new())
}

async fn other_input(_: u32, _: Context) -> NodeResult {
    Ok(Update::new())
}

async fn no_result(_: String, _: Context) -> Update {
    Update::new()
}

fn main() {
    let builder = Graph::<()>::builder();
    let builder = builder.node(NODE, not_async);
    let builder = builder.node(NODE, no_context);
    let builder = builder.node(NODE, other_input);
    let builder = builder.node(NODE, no_result);
    let _ = builder.node(NODE, "no function");
}
