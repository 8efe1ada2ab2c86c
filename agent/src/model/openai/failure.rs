//! What a provider's error means for the caller.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::http::Endpoint;
use crate::model::ModelError;

/// The error of an answer with this status.
pub(super) fn from_status(
    endpoint: &Endpoint,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ModelError {
    let text = String::from_utf8_lossy(body);
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let error = json.get("error").unwrap_or(&json);
    let message = message(error).unwrap_or(&text);
    let said = format!("HTTP {}: {message}", status.as_u16());
    classify(
        endpoint,
        status.as_u16(),
        error,
        &said,
        retry_after(headers),
    )
}

/// The error of an error object in the middle of a reply.
pub(super) fn in_reply(endpoint: &Endpoint, error: &Value) -> ModelError {
    let whole = error.to_string();
    let said = message(error).unwrap_or(&whole);
    // The request was accepted: unless the object says otherwise, it is the provider that failed.
    let status = ["status_code", "code"]
        .iter()
        .find_map(|field| error.get(field)?.as_u64());
    let status = match status.and_then(|status| u16::try_from(status).ok()) {
        Some(status) => status,
        None if words(error).any(|word| word == "invalid_request_error") => 400,
        None => 500,
    };
    classify(endpoint, status, error, said, None)
}

fn classify(
    endpoint: &Endpoint,
    status: u16,
    error: &Value,
    said: &str,
    retry_after: Option<Duration>,
) -> ModelError {
    let has = |wanted: &[&str]| words(error).any(|word| wanted.contains(&word));
    let too_long = said.contains("maximum context length");
    let said = endpoint.said(said);
    if too_long || has(&["context_length_exceeded", "exceed_context_size_error"]) {
        return ModelError::ContextOverflow(said);
    }
    if has(&["content_filter", "content_policy_violation"]) {
        return ModelError::Refused(said);
    }
    // An empty account answers 429 too, but waiting does not fill it.
    if has(&["insufficient_quota", "invalid_api_key"]) {
        return ModelError::Authentication(said);
    }
    match status {
        401..=403 => ModelError::Authentication(said),
        408 => ModelError::Timeout(said),
        413 => ModelError::ContextOverflow(said),
        429 => ModelError::RateLimited { said, retry_after },
        _ if has(&["rate_limit_exceeded", "rate_limit_error"]) => {
            ModelError::RateLimited { said, retry_after }
        }
        500.. => ModelError::Overloaded { said, retry_after },
        _ => ModelError::BadRequest(said),
    }
}

/// The error's own names for itself.
fn words(error: &Value) -> impl Iterator<Item = &str> {
    ["code", "type"]
        .into_iter()
        .filter_map(|field| error.get(field)?.as_str())
}

fn message(error: &Value) -> Option<&str> {
    error.as_str().or_else(|| error.get("message")?.as_str())
}

/// A number of seconds or a date; a date in the past means now.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &str) -> ModelError {
        let endpoint = Endpoint::unused(None);
        let status = StatusCode::from_u16(status).unwrap();
        from_status(&endpoint, status, &HeaderMap::new(), body.as_bytes())
    }

    fn coded(status: u16, code: &str) -> ModelError {
        error(
            status,
            &format!(r#"{{"error":{{"message":"m","type":"t","code":"{code}"}}}}"#),
        )
    }

    #[test]
    fn statuses_and_codes() {
        let m = |status: u16| format!("HTTP {status}: m").into();
        let overloaded = |status| ModelError::Overloaded {
            said: m(status),
            retry_after: None,
        };
        let limited = |status| ModelError::RateLimited {
            said: m(status),
            retry_after: None,
        };
        assert_eq!(coded(400, ""), ModelError::BadRequest(m(400)));
        assert_eq!(
            coded(404, "model_not_found"),
            ModelError::BadRequest(m(404))
        );
        assert_eq!(
            coded(400, "context_length_exceeded"),
            ModelError::ContextOverflow(m(400))
        );
        assert_eq!(coded(413, ""), ModelError::ContextOverflow(m(413)));
        assert_eq!(coded(400, "content_filter"), ModelError::Refused(m(400)));
        assert_eq!(
            coded(401, "invalid_api_key"),
            ModelError::Authentication(m(401))
        );
        assert_eq!(coded(403, ""), ModelError::Authentication(m(403)));
        assert_eq!(
            coded(429, "insufficient_quota"),
            ModelError::Authentication(m(429))
        );
        assert_eq!(coded(429, "rate_limit_exceeded"), limited(429));
        assert_eq!(coded(500, ""), overloaded(500));
        assert_eq!(coded(529, ""), overloaded(529));
        assert_eq!(coded(408, ""), ModelError::Timeout(m(408)));
        assert_eq!(coded(307, ""), ModelError::BadRequest(m(307)));
    }

    #[test]
    fn bodies_in_other_forms() {
        let said = |body| error(400, body).to_string();
        assert_eq!(
            said(r#"{"error":"no such model"}"#),
            "bad request: HTTP 400: no such model"
        );
        assert_eq!(
            said(r#"{"message":"wrong"}"#),
            "bad request: HTTP 400: wrong"
        );
        assert_eq!(
            said("<h1>\r\nBad\0 gateway"),
            "bad request: HTTP 400: <h1> Bad gateway"
        );
        let too_long = r#"{"message":"This model's maximum context length is 8 tokens"}"#;
        assert!(matches!(
            error(400, too_long),
            ModelError::ContextOverflow(_)
        ));
    }

    #[test]
    fn within_a_reply() {
        let endpoint = Endpoint::unused(None);
        let error = |json| in_reply(&endpoint, &json);
        let overloaded = ModelError::Overloaded {
            said: "m".into(),
            retry_after: None,
        };
        let limited = ModelError::RateLimited {
            said: "m".into(),
            retry_after: None,
        };
        let bad = ModelError::BadRequest("m".into());
        assert_eq!(error(serde_json::json!({ "message": "m" })), overloaded);
        assert_eq!(
            error(serde_json::json!({ "message": "m", "code": 503 })),
            overloaded
        );
        assert_eq!(
            error(serde_json::json!({ "message": "m", "code": 400 })),
            bad
        );
        assert_eq!(
            error(serde_json::json!({ "message": "m", "type": "invalid_request_error" })),
            bad
        );
        assert_eq!(
            error(serde_json::json!({ "message": "m", "code": "rate_limit_exceeded" })),
            limited
        );
        assert_eq!(
            error(serde_json::json!({ "message": "m", "code": 429 })),
            limited
        );
    }

    #[test]
    fn when_to_come_back() {
        let after = |value: &str| {
            let value = value.parse().unwrap();
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
        let later = SystemTime::now() + Duration::from_secs(600);
        let wait = after(&httpdate::fmt_http_date(later)).unwrap();
        assert!((590..=600).contains(&wait.as_secs()), "{wait:?}");
    }
}
