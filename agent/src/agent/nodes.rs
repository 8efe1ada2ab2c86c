//! The two nodes of an agent's loop.

use std::sync::Arc;

use superstep::{Context, Node, NodeResult, Payload, Update};

use super::{AgentState, Conversation};
use crate::message::{Change, InvalidToolCall, Message, ToolCall};
use crate::middleware::{ModelCall, NextModel, NextTool, ToolRequest, WrapModelCall, WrapToolCall};
use crate::model::{ChatModel, Request, ToolSpec};
use crate::tool::Tool;

/// Calls the model, and sends each tool call it wants to a task of its own.
pub(super) const MODEL: Node<AgentState> = Node::new("model");
/// Runs one tool call.
pub(super) const TOOLS: Node<ToolCall> = Node::new("tools");

impl Payload for ToolCall {}

/// What the nodes share.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) name: String,
    pub(super) system: Option<Arc<Message>>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) tools: Vec<Tool>,
    pub(super) specs: Vec<Arc<ToolSpec>>,
    pub(super) around_model: Vec<Arc<dyn WrapModelCall>>,
    pub(super) around_tools: Vec<Arc<dyn WrapToolCall>>,
}

impl Stack {
    pub(super) async fn call_model(self: Arc<Self>, state: AgentState, cx: Context) -> NodeResult {
        let messages = self.system.iter().chain(&state.messages).cloned();
        let request = Request {
            messages: messages.collect(),
            tools: self.specs.clone(),
            ..Request::default()
        };
        let call = ModelCall {
            request,
            state,
            cx: cx.clone(),
        };
        let next = NextModel {
            layers: &self.around_model,
            model: &*self.model,
        };
        let reply = next.run(call).await?;
        let message = self.signed(reply.message, &cx);
        Ok(follow(message, &cx, reply.update))
    }

    /// The reply under the agent's name, with an id that is the same on every attempt.
    fn signed(&self, mut message: Message, cx: &Context) -> Message {
        message
            .id
            .get_or_insert_with(|| format!("ai-{}", cx.task()));
        message.name.get_or_insert_with(|| self.name.clone());
        message
    }

    pub(super) async fn call_tool(self: Arc<Self>, call: ToolCall, cx: Context) -> NodeResult {
        let next = NextTool {
            layers: &self.around_tools,
            tools: &self.tools,
        };
        let request = ToolRequest {
            call,
            cx: cx.clone(),
        };
        let reply = next.run(request).await?;
        let mut message = reply.message;
        message
            .id
            .get_or_insert_with(|| format!("tool-{}", cx.task()));
        let put = vec![Change::Put(Arc::new(message))];
        Ok(Update::new()
            .put(Conversation::MESSAGES, put)
            .merge(reply.update))
    }
}

/// The transcript's growth, and where to go: to the tools if the model calls some, back to the model
/// if all its calls were malformed and it has to be told so, else nowhere.
fn follow(message: Message, cx: &Context, more: Update) -> Update {
    let calls = message.tool_calls().to_vec();
    let invalid = message
        .as_ai()
        .map(|ai| ai.invalid_tool_calls.clone())
        .unwrap_or_default();
    let told = invalid.iter().zip(0..).map(|(call, at)| tell(call, at, cx));
    let changes = std::iter::once(message).chain(told);
    let changes = changes
        .map(|message| Change::Put(Arc::new(message)))
        .collect();
    let update = Update::new()
        .put(Conversation::MESSAGES, changes)
        .merge(more);
    if calls.is_empty() && !invalid.is_empty() {
        return update.goto(MODEL);
    }
    calls
        .into_iter()
        .fold(update, |update, call| update.send(TOOLS, call))
}

fn tell(call: &InvalidToolCall, at: usize, cx: &Context) -> Message {
    let text = format!(
        "this call of `{}` cannot be read: {}",
        call.name, call.reason
    );
    let message = Message::tool_error(&call.id, text).with_name(&call.name);
    message.with_id(format!("invalid-{}-{at}", cx.task()))
}
