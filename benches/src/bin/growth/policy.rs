//! The policies by name.

use std::fmt;
use std::str::FromStr;

use superstep::channels::Snapshots;

/// How the growing channel is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Whole in every superstep that changed it.
    Full,
    /// As its writes, and whole now and then.
    Delta(Snapshots),
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let wrong = || format!("no policy `{text}`: amortised, every:K, bytes:N, never or full");
        Ok(match (name, number) {
            ("full", None) => Policy::Full,
            ("amortised", None) => Policy::Delta(Snapshots::Amortised),
            ("never", None) => Policy::Delta(Snapshots::Never),
            ("every", Some(k)) => Policy::Delta(Snapshots::Every(k.parse().map_err(|_| wrong())?)),
            ("bytes", Some(n)) => Policy::Delta(Snapshots::Bytes(n.parse().map_err(|_| wrong())?)),
            _ => return Err(wrong()),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Full => f.write_str("full"),
            Policy::Delta(Snapshots::Amortised) => f.write_str("amortised"),
            Policy::Delta(Snapshots::Every(k)) => write!(f, "every:{k}"),
            Policy::Delta(Snapshots::Bytes(n)) => write!(f, "bytes:{n}"),
            Policy::Delta(Snapshots::Never) => f.write_str("never"),
            Policy::Delta(other) => write!(f, "{other:?}"),
        }
    }
}
