//! What a tool gives back.

use std::fmt;

use superstep::{NodeError, Update};
use superstep_channels::Json;

use crate::message::Block;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a tool gives back: content for the model, and what else it changes.
#[derive(Clone, Debug, Default)]
pub struct ToolOutput {
    /// What the model reads.
    pub content: Vec<Block>,
    /// Data for programs; the model never sees it.
    pub artifact: Option<Json>,
    /// Further writes to the agent's state.
    pub update: Update,
}

impl<T: Into<String>> From<T> for ToolOutput {
    fn from(text: T) -> Self {
        ToolOutput {
            content: vec![Block::Text(text.into())],
            ..ToolOutput::default()
        }
    }
}

/// Why a tool call gave nothing.
///
/// Any error becomes one by `?`, and the model reads its text and can try something else.
/// Only what no model can mend fails the run: make it with [`ToolError::fatal`].
pub struct ToolError(pub(crate) Kind);

pub(crate) enum Kind {
    /// The model is told.
    Told(BoxError),
    /// The run fails.
    Fatal(NodeError),
}

impl ToolError {
    /// An error that fails the run: the tool call runs again when the run is taken up.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        ToolError(Kind::Fatal(NodeError::from(error.into())))
    }
}

impl<E: Into<BoxError>> From<E> for ToolError {
    fn from(error: E) -> Self {
        ToolError(Kind::Told(error.into()))
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Told(error) => write!(f, "{error:?}"),
            Kind::Fatal(error) => write!(f, "fatal: {error:?}"),
        }
    }
}
