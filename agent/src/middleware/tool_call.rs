//! Around the tools.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use superstep::{Context, NodeError, Update};

use crate::message::{Body, Message, ToolCall, ToolStatus};
use crate::tool::{Tool, ToolContext, ToolOutput, output::Kind};

/// A layer around each tool call. It runs in the call's own task, so it may ask:
/// see [`interrupt`](superstep::Context::interrupt).
#[async_trait]
pub trait WrapToolCall: Send + Sync + fmt::Debug {
    /// Calls `next` once, several times or not at all, and returns what the model gets to read.
    async fn wrap(&self, request: ToolRequest, next: NextTool<'_>) -> Result<ToolReply, NodeError>;
}

/// A tool call on its way through the layers.
#[derive(Clone, Debug)]
pub struct ToolRequest {
    /// What the model asked for.
    pub call: ToolCall,
    /// The run; each call is a task of its own.
    pub cx: Context,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct ToolReply {
    /// The tool message that answers the call.
    pub message: Message,
    /// Further writes to the agent's state; they come after the message.
    pub update: Update,
}

impl ToolReply {
    /// Tells the model that the call did not work.
    pub fn error(call: &ToolCall, text: impl Into<String>) -> Self {
        ToolReply {
            message: Message::tool_error(&call.id, text).with_name(&call.name),
            update: Update::new(),
        }
    }

    fn output(call: &ToolCall, output: ToolOutput) -> Self {
        let mut message = Message::tool(&call.id, "").with_name(&call.name);
        message.content = output.content;
        if let Body::Tool(result) = &mut message.body {
            result.artifact = output.artifact;
        }
        ToolReply {
            message,
            update: output.update,
        }
    }

    /// Whether the call worked.
    pub fn status(&self) -> ToolStatus {
        self.message
            .as_tool()
            .map(|result| result.status)
            .unwrap_or_default()
    }
}

/// The layers further in, and the tools.
#[derive(Clone, Copy, Debug)]
pub struct NextTool<'a> {
    pub(crate) layers: &'a [Arc<dyn WrapToolCall>],
    pub(crate) tools: &'a [Tool],
}

impl NextTool<'_> {
    /// Hands the call on.
    pub async fn run(self, request: ToolRequest) -> Result<ToolReply, NodeError> {
        match self.layers {
            [] => self.execute(request).await,
            [first, layers @ ..] => first.wrap(request, NextTool { layers, ..self }).await,
        }
    }

    /// Runs the tool itself. A name that no tool has, arguments that do not fit, and a tool's failure are told to the model.
    async fn execute(self, ToolRequest { call, cx }: ToolRequest) -> Result<ToolReply, NodeError> {
        let Some(tool) = self.tools.iter().find(|tool| tool.spec().name == call.name) else {
            return Ok(ToolReply::error(&call, self.unknown(&call.name)));
        };
        let cx = ToolContext::new(cx, call.id.clone());
        match tool.call(call.args.0.clone(), cx).await {
            Ok(output) => Ok(ToolReply::output(&call, output)),
            Err(error) => match error.0 {
                Kind::Told(error) => Ok(ToolReply::error(
                    &call,
                    format!("`{}` failed: {error}", call.name),
                )),
                Kind::Fatal(error) => Err(error),
            },
        }
    }

    fn unknown(self, name: &str) -> String {
        let known: Vec<&str> = self
            .tools
            .iter()
            .map(|tool| tool.spec().name.as_str())
            .collect();
        match known.join(", ") {
            known if known.is_empty() => format!("there is no tool `{name}`; the agent has none"),
            known => format!("there is no tool `{name}`; there are: {known}"),
        }
    }
}
