//! One address that requests are sent to, and what can go wrong on the way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use serde::Serialize;

use super::failure;
use crate::model::{Excerpt, ModelError};

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// Without a byte from the server, before the reply and within it.
    pub idle: Duration,
    /// From the request to the end of the reply.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(900),
        }
    }
}

/// The body of an answer as it arrives.
pub(super) type Bytes = BoxStream<'static, Result<Vec<u8>, ModelError>>;

/// No reply is longer; a server that sends more is broken or hostile.
const LONGEST_REPLY: usize = 256 << 20;

/// Enough of an error's body to find the message in it.
const LONGEST_FAILURE: usize = 64 << 10;

/// Where requests go.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// The URL without anything secret, for messages.
    shown: String,
    key: Option<String>,
}

impl Endpoint {
    /// The chat-completions endpoint below this address.
    pub(super) fn new(
        base: &str,
        key: Option<String>,
        timeouts: Timeouts,
    ) -> Result<Self, ModelError> {
        let url = completions(base)?;
        let mut client = Client::builder()
            .default_headers(authorization(key.as_deref())?)
            .tls_backend_preconfigured(tls(url.scheme())?)
            .redirect(redirect::Policy::none())
            .connect_timeout(timeouts.connect)
            .read_timeout(timeouts.idle)
            .timeout(timeouts.total);
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| setup(&chain(&error)))?;
        let mut shown = url.clone();
        shown.set_query(None);
        Ok(Endpoint {
            client,
            url,
            shown: shown.into(),
            key,
        })
    }

    /// What the limit on written tokens is called here: OpenAI has renamed it, the others know the old name.
    pub(super) fn limit_name(&self) -> &'static str {
        match self.url.host_str() {
            Some(host) if host.ends_with(".openai.com") || host.ends_with(".azure.com") => {
                "max_completion_tokens"
            }
            _ => "max_tokens",
        }
    }

    /// Sends a request; an answer whose status is not 2xx is an error.
    pub(super) async fn post(self: &Arc<Self>, body: &impl Serialize) -> Result<Bytes, ModelError> {
        let request = self.client.post(self.url.clone()).json(body);
        let response = request.send().await.map_err(|error| self.lost(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut bytes = self.bytes(response);
        if status.is_success() {
            return Ok(bytes);
        }
        let mut failure = Vec::new();
        // A failure's body that breaks off is still a failure.
        while let Some(Ok(piece)) = bytes.next().await
            && failure.len() < LONGEST_FAILURE
        {
            failure.extend(piece);
        }
        Err(failure::from_status(self, status, &headers, &failure))
    }

    fn bytes(self: &Arc<Self>, response: Response) -> Bytes {
        let endpoint = Arc::clone(self);
        let pieces = response.bytes_stream();
        let pieces = pieces.map_err(move |error| endpoint.lost(error));
        pieces
            .scan(LONGEST_REPLY, |left, piece| {
                future::ready(Some(piece.and_then(|piece| {
                    *left = left.checked_sub(piece.len()).ok_or_else(|| {
                        let text = format!("it is longer than {LONGEST_REPLY} bytes");
                        ModelError::Malformed(text.into())
                    })?;
                    Ok(piece.to_vec())
                })))
            })
            .boxed()
    }

    /// The provider's words, without our key in them.
    pub(super) fn said(&self, text: &str) -> Excerpt {
        match &self.key {
            Some(key) => text.replace(key, "***").into(),
            None => text.into(),
        }
    }

    /// The server closed the connection without a word.
    pub(super) fn silent(&self) -> ModelError {
        let text = format!("{} closed the connection without an answer", self.shown);
        ModelError::Transport(self.said(&text))
    }

    fn lost(&self, error: reqwest::Error) -> ModelError {
        let (timeout, connect) = (error.is_timeout(), error.is_connect());
        let reason = chain(&error.without_url());
        let url = &self.shown;
        if timeout {
            return ModelError::Timeout(self.said(&format!("{url} took too long: {reason}")));
        }
        let what = if connect {
            "cannot reach"
        } else {
            "lost the connection to"
        };
        ModelError::Transport(self.said(&format!("{what} {url}: {reason}")))
    }
}

/// The address of chat completions; a query of the base stays, since some servers need one.
fn completions(base: &str) -> Result<Url, ModelError> {
    let mut url = Url::parse(base).map_err(|error| setup(&format!("the base URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(setup("the base URL must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(setup(
            "the base URL holds a user or a password; use a key instead",
        ));
    }
    url.set_fragment(None);
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["chat", "completions"]);
    }
    Ok(url)
}

fn authorization(key: Option<&str>) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
            ModelError::Authentication("the key holds characters that no header can".into())
        })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Plain HTTP must work where the system has no certificates, so they are not looked for.
fn tls(scheme: &str) -> Result<ClientConfig, ModelError> {
    let failed = |error: rustls::Error| setup(&format!("TLS: {error}"));
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    Ok(match scheme {
        "https" => config.with_platform_verifier().map_err(failed)?,
        _ => config.with_root_certificates(RootCertStore::empty()),
    }
    .with_no_client_auth())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn setup(text: &str) -> ModelError {
    ModelError::BadRequest(text.into())
}

/// An error and what caused it: reqwest says what happened only in the causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[cfg(test)]
impl Endpoint {
    /// An endpoint nobody talks to.
    pub(super) fn unused(key: Option<&str>) -> Arc<Self> {
        let key = key.map(str::to_owned);
        Arc::new(Self::new("http://localhost/v1", key, Timeouts::default()).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = |base| {
            completions(base)
                .map_err(|error| error.to_string())
                .map(String::from)
        };
        assert_eq!(
            [
                address("https://api.openai.com/v1"),
                address("http://[::1]:8080/v1/"),
                address("https://x.azure.com/openai?api-version=3#top"),
                address("localhost:8080/v1"),
                address("no address"),
                address("https://me:pass@host/v1"),
            ],
            [
                Ok("https://api.openai.com/v1/chat/completions".to_owned()),
                Ok("http://[::1]:8080/v1/chat/completions".to_owned()),
                Ok("https://x.azure.com/openai/chat/completions?api-version=3".to_owned()),
                Err("bad request: the base URL must begin with http:// or https://".to_owned()),
                Err("bad request: the base URL: relative URL without a base".to_owned()),
                Err(
                    "bad request: the base URL holds a user or a password; use a key instead"
                        .to_owned()
                ),
            ]
        );
    }

    #[test]
    fn loopback() {
        let yes = [
            "http://localhost:1",
            "http://127.0.0.2",
            "http://[::1]:80/v1",
        ];
        let no = [
            "http://localhost.example.com",
            "http://10.0.0.1",
            "http://[::2]",
        ];
        assert!(yes.iter().all(|url| is_loopback(&Url::parse(url).unwrap())));
        assert!(!no.iter().any(|url| is_loopback(&Url::parse(url).unwrap())));
    }

    #[test]
    fn the_key_is_never_repeated() {
        let endpoint = Endpoint::unused(Some("sk-secret"));
        let said = endpoint.said("Incorrect API key provided: sk-secret.");
        assert_eq!(said.as_str(), "Incorrect API key provided: ***.");
        let error = authorization(Some("sk-\u{7f}secret")).unwrap_err();
        assert!(!error.to_string().contains("secret"));
    }
}
