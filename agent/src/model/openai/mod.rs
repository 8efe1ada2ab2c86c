//! The chat-completions protocol of OpenAI, which many other providers and local servers speak too.

mod answer;
mod body;
mod failure;
mod http;

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use self::http::Endpoint;
use super::{ChatModel, ChunkStream, ModelError, Request, Settings};

pub use http::Timeouts;

const OPENAI: &str = "https://api.openai.com/v1";

/// A model behind a chat-completions endpoint.
///
/// ```no_run
/// use superstep_agent::model::OpenAi;
///
/// # fn main() -> Result<(), superstep_agent::model::ModelError> {
/// let hosted = OpenAi::from_env("gpt-5-mini")?;
/// let local = OpenAi::new("qwen3").with_base_url("http://localhost:11434/v1");
/// # Ok(()) }
/// ```
///
/// - Nothing is sent again after an error: that is [`Retrying`](super::Retrying)'s work.
/// - The ids of messages stay here. Names go along, with `_` for characters that the protocol forbids in them.
/// - Reasoning is received but not sent back: the protocol has no place for it.
/// - A [`Block::Other`](crate::message::Block::Other) is sent as it is, as a content part.
/// - Proxies are taken from the environment (`HTTPS_PROXY`, `NO_PROXY`), but not for addresses of this machine.
/// - Redirects are not followed, so that the key goes only where you said.
/// - The key shows neither in `Debug` nor in errors, even when the provider repeats it.
#[derive(Clone)]
pub struct OpenAi {
    model: String,
    key: Option<String>,
    base_url: String,
    settings: Settings,
    timeouts: Timeouts,
    // Made by the first call: only then are the settings above complete.
    endpoint: OnceLock<Arc<Endpoint>>,
}

impl OpenAi {
    /// A model of this name at OpenAI, without a key.
    ///
    /// Keys and addresses are checked by the first call.
    pub fn new(model: impl Into<String>) -> Self {
        OpenAi {
            model: model.into(),
            key: None,
            base_url: OPENAI.to_owned(),
            settings: Settings::default(),
            timeouts: Timeouts::default(),
            endpoint: OnceLock::new(),
        }
    }

    /// The same with the key in `OPENAI_API_KEY` and the address in `OPENAI_BASE_URL`, if that is set.
    ///
    /// The key may be missing only when there is an address: many local servers want none.
    pub fn from_env(model: impl Into<String>) -> Result<Self, ModelError> {
        Self::from_variables(model, |name| std::env::var(name).ok())
    }

    fn from_variables(
        model: impl Into<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ModelError> {
        let set = |name| variable(name).filter(|value| !value.trim().is_empty());
        let openai = Self::new(model);
        match (set("OPENAI_API_KEY"), set("OPENAI_BASE_URL")) {
            (Some(key), Some(url)) => Ok(openai.with_key(key).with_base_url(url)),
            (Some(key), None) => Ok(openai.with_key(key)),
            (None, Some(url)) => Ok(openai.with_base_url(url)),
            (None, None) => Err(ModelError::Authentication(
                "the environment variable OPENAI_API_KEY is not set".into(),
            )),
        }
    }

    /// Sends this key along.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into().trim().to_owned()).filter(|key| !key.is_empty());
        self.endpoint = OnceLock::new();
        self
    }

    /// Talks to the server at this address: what stands before `/chat/completions`, usually ending in `/v1`.
    ///
    /// The key goes to this server as it is, over plain `http://` readable by who listens: take `https://` beyond this machine.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self.endpoint = OnceLock::new();
        self
    }

    /// Settings for requests that do not bring their own.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How long to wait.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self.endpoint = OnceLock::new();
        self
    }

    fn endpoint(&self) -> Result<&Arc<Endpoint>, ModelError> {
        if let Some(endpoint) = self.endpoint.get() {
            return Ok(endpoint);
        }
        let endpoint = Endpoint::new(&self.base_url, self.key.clone(), self.timeouts)?;
        Ok(self.endpoint.get_or_init(|| Arc::new(endpoint)))
    }
}

#[async_trait]
impl ChatModel for OpenAi {
    fn name(&self) -> &str {
        &self.model
    }

    async fn stream(&self, mut request: Request) -> Result<ChunkStream, ModelError> {
        request.settings = request.settings.or(self.settings);
        let endpoint = self.endpoint()?;
        let body = body::render(&self.model, &request, endpoint.limit_name());
        let bytes = endpoint.post(&body).await?;
        answer::chunks(bytes, Arc::clone(endpoint)).await
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("model", &self.model)
            .field("settings", &self.settings)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_gives_key_and_address() {
        let from = |key: Option<&str>, url: Option<&str>| {
            let (key, url) = (key.map(str::to_owned), url.map(str::to_owned));
            OpenAi::from_variables("m", |name| match name {
                "OPENAI_API_KEY" => key.clone(),
                "OPENAI_BASE_URL" => url.clone(),
                _ => None,
            })
            .map(|openai| (openai.key, openai.base_url))
        };
        let set = |text: &str| Some(text.to_owned());
        assert_eq!(from(Some("k\n"), None), Ok((set("k"), OPENAI.to_owned())));
        assert_eq!(
            from(None, Some("http://h/v1")),
            Ok((None, "http://h/v1".to_owned()))
        );
        assert_eq!(
            from(Some("k"), Some("http://h/v1")),
            Ok((set("k"), "http://h/v1".to_owned()))
        );
        assert_eq!(
            from(Some(" "), None).unwrap_err().to_string(),
            "not allowed, check the key and the account: \
             the environment variable OPENAI_API_KEY is not set"
        );
    }

    #[test]
    fn debug_hides_the_key() {
        let openai = OpenAi::new("m")
            .with_key("sk-secret")
            .with_base_url("http://u:sk-secret@h");
        assert!(openai.endpoint().is_err());
        assert!(!format!("{openai:?}").contains("sk-secret"));
    }
}
