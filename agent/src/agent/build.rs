//! From a model, tools and middleware to a graph.

use std::collections::HashSet;
use std::sync::Arc;

use superstep::{BuildError, Graph, Node};

use super::nodes::{MODEL, Stack, TOOLS};
use super::subagent::{Subagent, task_tool};
use super::{Agent, AgentState, Conversation};
use crate::message::{Message, ToolCall};
use crate::middleware::Middleware;
use crate::model::ChatModel;
use crate::tool::Tool;

/// Starts the description of an agent: `before_agent → model ⇄ tools`.
///
/// Each tool call is a task of its own: calls of one turn run side by side, each result is saved as it is there,
/// and their messages come in the order of the calls.
///
/// ```
/// use superstep_agent::agent::{create_agent, says};
/// use superstep_agent::message::Message;
/// use superstep_agent::model::ScriptedModel;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Message::ai("Nothing.")]);
/// let agent = create_agent(model).system_prompt("Be brief.").build()?;
/// let outcome = agent.detached().start(says("What is in here?")).await?;
/// assert_eq!(outcome.done().and_then(|state| state.last_text()).as_deref(), Some("Nothing."));
/// # Ok(())
/// # }
/// ```
pub fn create_agent(model: impl ChatModel + 'static) -> AgentBuilder {
    AgentBuilder {
        name: "agent".into(),
        model: Arc::new(model),
        system_prompt: None,
        tools: Vec::new(),
        subagents: Vec::new(),
        middleware: Vec::new(),
    }
}

/// The description of an agent.
#[derive(Debug)]
pub struct AgentBuilder {
    name: String,
    model: Arc<dyn ChatModel>,
    system_prompt: Option<String>,
    tools: Vec<Tool>,
    subagents: Vec<Subagent>,
    middleware: Vec<Middleware>,
}

impl AgentBuilder {
    /// Names the agent; its messages carry the name, its checkpoints too.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Instructions that stand before every conversation.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds a subagent, and with the first one the tool `task` that hands work to them:
    /// its arguments are `description`, what is to be done, and `subagent_type`, the name of the subagent.
    ///
    /// A subagent's run is a graph nested in the call's own task, with checkpoints of its own: killed in the middle it
    /// goes on there, and when it asks, the whole run pauses. Several calls in one turn run side by side.
    #[must_use]
    pub fn subagent(mut self, subagent: Subagent) -> Self {
        self.subagents.push(subagent);
        self
    }

    /// Adds a middleware inside of those that were added before.
    #[must_use]
    pub fn middleware(mut self, middleware: Middleware) -> Self {
        self.middleware.push(middleware);
        self
    }

    /// Compiles the agent to a graph.
    pub fn build(self) -> Result<Agent, AgentError> {
        let middleware = self.middleware;
        let brought = middleware
            .iter()
            .flat_map(|middleware| middleware.tools.iter().cloned());
        let mut tools: Vec<Tool> = brought.chain(self.tools).collect();
        let subagents = self.subagents.iter();
        unique("subagent", subagents.map(|subagent| subagent.name.as_str()))?;
        if !self.subagents.is_empty() {
            tools.push(task_tool(self.subagents));
        }
        unique(
            "middleware",
            middleware.iter().map(|middleware| middleware.name()),
        )?;
        unique("tool", tools.iter().map(|tool| tool.spec().name.as_str()))?;
        known(&middleware, &tools)?;
        let stack = Arc::new(Stack {
            name: self.name.clone(),
            system: self
                .system_prompt
                .map(|text| Arc::new(Message::system(text))),
            specs: tools.iter().map(|tool| Arc::clone(tool.spec())).collect(),
            tools,
            model: self.model,
            around_model: middleware
                .iter()
                .filter_map(|middleware| middleware.model.clone())
                .collect(),
            around_tools: middleware
                .iter()
                .filter_map(|middleware| middleware.tool.clone())
                .collect(),
        });
        Ok(compile(self.name, stack, middleware)?)
    }
}

/// Lays the nodes out: the hooks before the agent in a chain, then the loop of model and tools.
fn compile(
    name: String,
    stack: Arc<Stack>,
    middleware: Vec<Middleware>,
) -> Result<Agent, BuildError> {
    let (model, tools) = (Arc::clone(&stack), stack);
    let mut graph = Graph::<Conversation>::builder()
        .named(name, 1)
        .node(MODEL, move |state: AgentState, cx| {
            Arc::clone(&model).call_model(state, cx)
        })
        .node(TOOLS, move |call: ToolCall, cx| {
            Arc::clone(&tools).call_tool(call, cx)
        })
        .edge(TOOLS, MODEL);
    let mut last: Option<Node<AgentState>> = None;
    for middleware in middleware {
        for channel in middleware.channels {
            graph = graph.channel(channel);
        }
        let Some(hook) = middleware.before_agent else {
            continue;
        };
        let node = Node::<AgentState>::named(format!("{}.before_agent", middleware.name));
        let run = move |state: AgentState, cx| hook.call(state, cx);
        graph = graph.node(node.clone(), run);
        graph = match last {
            None => graph.entry(node.clone()),
            Some(before) => graph.edge(before, node.clone()),
        };
        last = Some(node);
    }
    match last {
        None => graph.entry(MODEL),
        Some(before) => graph.edge(before, MODEL),
    }
    .build()
}

/// Whether each middleware finds the tools that it is about.
fn known(middleware: &[Middleware], tools: &[Tool]) -> Result<(), AgentError> {
    for middleware in middleware {
        let missing = middleware
            .about
            .iter()
            .find(|name| tools.iter().all(|tool| tool.spec().name != **name));
        if let Some(tool) = missing {
            return Err(AgentError::UnknownTool {
                middleware: middleware.name.clone(),
                tool: tool.clone(),
            });
        }
    }
    Ok(())
}

fn unique<'a>(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), AgentError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(AgentError::Duplicate {
                kind,
                name: name.to_owned(),
            });
        }
    }
    Ok(())
}

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Two of a kind under one name.
    #[error("two of the agent's {kind}s are called `{name}`: names must differ")]
    Duplicate {
        /// `tool`, `middleware` or `subagent`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A middleware is about a tool that the agent does not have.
    #[error("middleware `{middleware}` is about tool `{tool}`, which the agent does not have")]
    UnknownTool {
        /// The middleware.
        middleware: String,
        /// The tool.
        tool: String,
    },
    /// The graph behind it cannot be built.
    #[error(transparent)]
    Graph(#[from] BuildError),
}
