//! What a model can do: tools, from typed functions or from schemas.

mod context;
pub(crate) mod output;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::ToolSpec;

pub use context::ToolContext;
pub use output::{ToolError, ToolOutput};

/// What a tool's function returns.
pub type ToolResult = Result<ToolOutput, ToolError>;

/// A tool: what the model is told of it, and the function behind it. Cheap to clone.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use superstep_agent::tool::{Tool, ToolContext, ToolResult};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// async fn add(args: Add, _: ToolContext) -> ToolResult {
///     let sum = args.a.checked_add(args.b).ok_or("the sum does not fit 64 bits")?;
///     Ok(sum.to_string().into())
/// }
///
/// let tool = Tool::new("add", "Adds two numbers.", add);
/// assert_eq!(tool.spec().parameters["required"], serde_json::json!(["a", "b"]));
/// ```
#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    run: Arc<Run>,
}

type Run = dyn Fn(Value, ToolContext) -> BoxFuture<'static, ToolResult> + Send + Sync;

impl Tool {
    /// A tool from a typed async function: the schema comes from the argument type, its doc comments become
    /// the descriptions. Arguments that do not fit are not passed to the function: the model is told which field is wrong.
    pub fn new<A, F, R>(name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = ToolResult> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters: schemars::schema_for!(A).to_value(),
        };
        Tool::from_spec(spec, move |args, cx| -> BoxFuture<'static, ToolResult> {
            match arguments(args) {
                Ok(args) => Box::pin(run(args, cx)),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }
        })
    }

    /// A tool whose schema exists at run time only.
    pub fn from_spec<R>(
        spec: ToolSpec,
        run: impl Fn(Value, ToolContext) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = ToolResult> + Send + 'static,
    {
        Tool {
            spec: Arc::new(spec),
            run: Arc::new(move |args, cx| Box::pin(run(args, cx))),
        }
    }

    /// What the model is told.
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Runs it.
    pub(crate) fn call(&self, args: Value, cx: ToolContext) -> BoxFuture<'static, ToolResult> {
        (self.run)(args, cx)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.spec.name)
    }
}

/// Reads arguments; the error names the field.
fn arguments<A: DeserializeOwned>(args: Value) -> Result<A, ToolError> {
    serde_path_to_error::deserialize(args)
        .map_err(|error| ToolError::from(format!("the arguments do not fit: {error}")))
}
