//! Asking a person before a tool runs.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use superstep::NodeError;
use superstep_channels::Json;

use super::{Middleware, NextTool, ToolReply, ToolRequest, WrapToolCall};

/// Asks before each call of these tools. The run pauses with an [`ApprovalRequest`] for each call;
/// the answer is a [`Decision`].
///
/// A rejected call is told to the model as an error. Calls of other tools in the same turn run meanwhile and are not run again.
pub fn approve<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Middleware {
    let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
    let middleware = Middleware::new("approval");
    let middleware = tools.iter().fold(middleware, Middleware::about_tool);
    middleware.wrap_tool_call(Approval { tools })
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The tool that is to be called.
    pub tool: String,
    /// What it is to be called with.
    pub args: Json,
}

/// What the person says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Approve,
    /// Do not run it, and tell the model why.
    Reject(String),
}

#[derive(Debug)]
struct Approval {
    tools: Vec<String>,
}

#[async_trait]
impl WrapToolCall for Approval {
    async fn wrap(&self, request: ToolRequest, next: NextTool<'_>) -> Result<ToolReply, NodeError> {
        if !self.tools.contains(&request.call.name) {
            return next.run(request).await;
        }
        let question = ApprovalRequest {
            tool: request.call.name.clone(),
            args: request.call.args.clone(),
        };
        match request.cx.interrupt(&question).await {
            Decision::Approve => next.run(request).await,
            Decision::Reject(why) => {
                let text = format!(
                    "the user rejected this call of `{}`: {why}",
                    request.call.name
                );
                Ok(ToolReply::error(&request.call, text))
            }
        }
    }
}
