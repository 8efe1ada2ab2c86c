//! A tool's handle to the run it is part of.

use std::ops::Deref;

use superstep::Context;

/// A tool's handle to the run: all that a [node's](superstep::Context) can do, and the call it answers.
///
/// A tool call is a task of its own. When the run is killed and taken up again, a call that was saved is not run again;
/// one that was not is. [`Context::task`] stays the same then: use it as an idempotency key.
#[derive(Clone, Debug)]
pub struct ToolContext {
    cx: Context,
    call_id: String,
}

impl ToolContext {
    pub(crate) fn new(cx: Context, call_id: String) -> Self {
        ToolContext { cx, call_id }
    }

    /// The id that the model gave the call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }
}

impl Deref for ToolContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.cx
    }
}
