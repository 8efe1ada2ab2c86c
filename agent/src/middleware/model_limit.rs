//! An end for agents that find none.

use async_trait::async_trait;
use superstep::NodeError;

use super::{Middleware, ModelCall, ModelReply, NextModel, WrapModelCall};
use crate::message::{Body, Message};

/// Lets the model be called at most this often since the last human message.
/// After that the agent says so and ends, with all results it has.
pub fn limit_model_calls(limit: usize) -> Middleware {
    Middleware::new("model_call_limit").wrap_model_call(Limit(limit))
}

#[derive(Debug)]
struct Limit(usize);

#[async_trait]
impl WrapModelCall for Limit {
    async fn wrap(&self, call: ModelCall, next: NextModel<'_>) -> Result<ModelReply, NodeError> {
        let since_human = call.state.messages.iter().rev();
        let calls = since_human
            .take_while(|message| !matches!(message.body, Body::Human))
            .filter(|message| message.as_ai().is_some())
            .count();
        if calls < self.0 {
            return next.run(call).await;
        }
        let text = format!(
            "I stop here: the limit of {} model calls for one request is reached.",
            self.0
        );
        Ok(Message::ai(text).into())
    }
}
