//! Why a model gave no reply.

use std::fmt;
use std::time::Duration;

use crate::message::Message;

/// Why a model gave no reply, by what a caller does next.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Too many requests: wait, then ask again.
    #[error("rate limited: {said}")]
    RateLimited {
        /// The provider's words.
        said: Excerpt,
        /// How long the provider wants us to wait.
        retry_after: Option<Duration>,
    },
    /// The provider is out of order or out of capacity: ask again later.
    #[error("the provider is overloaded or out of order: {said}")]
    Overloaded {
        /// The provider's words.
        said: Excerpt,
        /// How long the provider wants us to wait.
        retry_after: Option<Duration>,
    },
    /// The conversation does not fit the model's context window: shorten it.
    #[error("the conversation is too long for the model: {0}")]
    ContextOverflow(Excerpt),
    /// A filter of the provider refused the request: ask something else.
    #[error("the provider refused the request: {0}")]
    Refused(Excerpt),
    /// The key is missing or wrong, or the account may not use the model: somebody has to set it right.
    #[error("not allowed, check the key and the account: {0}")]
    Authentication(Excerpt),
    /// The provider, or the client before it, does not take the request: change it.
    #[error("bad request: {0}")]
    BadRequest(Excerpt),
    /// The answer is not what the protocol says: use another endpoint, or mend the client.
    #[error("the answer is not a model's reply: {0}")]
    Malformed(Excerpt),
    /// The provider was not reached, or the connection was lost before a reply began: try again.
    #[error("{0}")]
    Transport(Excerpt),
    /// No answer in time: try again, or allow more time.
    #[error("{0}")]
    Timeout(Excerpt),
    /// The reply was cut off on its way: use what came, or ask again.
    #[error("the reply was cut off: {cause}")]
    Interrupted {
        /// What had come, without a stop reason.
        partial: Box<Message>,
        /// What cut it off.
        cause: Box<ModelError>,
    },
}

impl ModelError {
    /// Whether the same request may work when it is sent again.
    ///
    /// An interrupted reply counts: whether its part that was already shown may come twice, only the caller knows.
    pub fn is_retryable(&self) -> bool {
        match self {
            ModelError::RateLimited { .. }
            | ModelError::Overloaded { .. }
            | ModelError::Transport(_)
            | ModelError::Timeout(_) => true,
            ModelError::Interrupted { cause, .. } => cause.is_retryable(),
            _ => false,
        }
    }

    /// How long the provider wants us to wait, where it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::RateLimited { retry_after, .. }
            | ModelError::Overloaded { retry_after, .. } => *retry_after,
            ModelError::Interrupted { cause, .. } => cause.retry_after(),
            _ => None,
        }
    }
}

/// A few words from outside, safe to log: at most [`Excerpt::MAX`] characters, none of them a control character.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// The most characters an excerpt has.
    pub const MAX: usize = 500;

    /// Takes the beginning of a text; each run of white space and control characters becomes one space.
    ///
    /// ```
    /// use superstep_agent::model::Excerpt;
    ///
    /// assert_eq!(Excerpt::new("no\r\n\u{1b}[31mway ").as_str(), "no [31mway");
    /// ```
    pub fn new(text: &str) -> Self {
        let words = text.split(|c: char| c.is_whitespace() || c.is_control());
        let mut excerpt = String::new();
        let mut length = 0;
        for word in words.filter(|word| !word.is_empty()) {
            let space = if length == 0 { "" } else { " " };
            for c in space.chars().chain(word.chars()) {
                length += 1;
                if length > Self::MAX {
                    excerpt.pop();
                    excerpt.push('…');
                    return Excerpt(excerpt);
                }
                excerpt.push(c);
            }
        }
        Excerpt(excerpt)
    }

    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Excerpt {
    fn from(text: &str) -> Self {
        Excerpt::new(text)
    }
}

impl From<String> for Excerpt {
    fn from(text: String) -> Self {
        Excerpt::new(&text)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short() {
        assert_eq!(Excerpt::new(&"ä".repeat(500)).as_str(), "ä".repeat(500));
        let long = Excerpt::new(&"ä".repeat(501));
        assert_eq!(long.as_str(), format!("{}…", "ä".repeat(499)));
        assert_eq!(Excerpt::new(" \0\n").as_str(), "");
    }

    #[test]
    fn a_cut_is_what_cut_it() {
        let cut = |cause| ModelError::Interrupted {
            partial: Box::new(Message::ai("Hel")),
            cause: Box::new(cause),
        };
        let retry_after = Some(Duration::from_secs(3));
        let limited = ModelError::RateLimited {
            said: "slow down".into(),
            retry_after,
        };
        assert!(cut(limited.clone()).is_retryable());
        assert_eq!(cut(limited).retry_after(), retry_after);
        assert!(!cut(ModelError::Refused("no".into())).is_retryable());
    }
}
