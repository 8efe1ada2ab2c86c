//! What stands around the model and the tools.
//!
//! A [`Middleware`] is a name and any of three hooks, plus the tools and channels they need:
//!
//! | hook | when | cost |
//! |---|---|---|
//! | [`before_agent`](Middleware::before_agent) | once a run, before the first model call | a node of its own |
//! | [`WrapModelCall`] | around each model call | none: it runs inside the model node |
//! | [`WrapToolCall`] | around each tool call | none: it runs inside the call's task |
//!
//! A hook that a middleware does not have costs nothing. The first middleware in the list is the outermost.
//!
//! ```
//! use superstep_agent::middleware::{Middleware, ModelCall, ModelReply, NextModel, WrapModelCall};
//! use superstep::NodeError;
//!
//! /// Tells the model the time of day that its user has.
//! #[derive(Debug)]
//! struct Clock(&'static str);
//!
//! #[async_trait::async_trait]
//! impl WrapModelCall for Clock {
//!     async fn wrap(&self, mut call: ModelCall, next: NextModel<'_>) -> Result<ModelReply, NodeError> {
//!         call.add_system_text(&format!("It is {}.", self.0));
//!         next.run(call).await
//!     }
//! }
//!
//! let clock = Middleware::new("clock").wrap_model_call(Clock("noon"));
//! assert_eq!(clock.name(), "clock");
//! ```

mod approval;
mod model_call;
mod model_limit;
mod patch_tool_calls;
mod tool_call;

use std::fmt;
use std::sync::Arc;

use superstep::Handler;
use superstep_channels::ChannelSpec;

use crate::agent::AgentState;
use crate::tool::Tool;

pub use approval::{ApprovalRequest, Decision, approve};
pub use model_call::{ModelCall, ModelReply, NextModel, WrapModelCall};
pub use model_limit::limit_model_calls;
pub use patch_tool_calls::patch_tool_calls;
pub use tool_call::{NextTool, ToolReply, ToolRequest, WrapToolCall};

/// A named piece of behaviour around an agent. See the [module](self).
#[derive(Clone)]
pub struct Middleware {
    pub(crate) name: String,
    pub(crate) before_agent: Option<Arc<dyn Handler<AgentState>>>,
    pub(crate) model: Option<Arc<dyn WrapModelCall>>,
    pub(crate) tool: Option<Arc<dyn WrapToolCall>>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) channels: Vec<ChannelSpec>,
    pub(crate) about: Vec<String>,
}

impl Middleware {
    /// A middleware that does nothing yet. Names are unique in an agent.
    pub fn new(name: impl Into<String>) -> Self {
        Middleware {
            name: name.into(),
            before_agent: None,
            model: None,
            tool: None,
            tools: Vec::new(),
            channels: Vec::new(),
            about: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs once before the agent's first model call of a run, as a node: what it returns is written to the state.
    #[must_use]
    pub fn before_agent(mut self, hook: impl Handler<AgentState>) -> Self {
        self.before_agent = Some(Arc::new(hook));
        self
    }

    /// Stands around each model call.
    #[must_use]
    pub fn wrap_model_call(mut self, hook: impl WrapModelCall + 'static) -> Self {
        self.model = Some(Arc::new(hook));
        self
    }

    /// Stands around each tool call.
    #[must_use]
    pub fn wrap_tool_call(mut self, hook: impl WrapToolCall + 'static) -> Self {
        self.tool = Some(Arc::new(hook));
        self
    }

    /// Brings a tool along; the model sees middleware's tools before the agent's own.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Says that it is about the tool of this name: an agent without it is not built, so a slip of the pen
    /// does not leave a tool unguarded.
    #[must_use]
    pub fn about_tool(mut self, name: impl Into<String>) -> Self {
        self.about.push(name.into());
        self
    }

    /// Brings a channel along for what it has to remember.
    #[must_use]
    pub fn channel(mut self, spec: ChannelSpec) -> Self {
        self.channels.push(spec);
        self
    }
}

impl fmt::Debug for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Middleware({})", self.name)
    }
}
