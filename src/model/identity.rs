//! What a point records of its kernel and machine.
//!
//! Input: readings made elsewhere (a host, a guest, a log made by others). Output: a
//! value with stable JSON, its fields and keys sorted. A thing the machine does not
//! expose is unknown with the reason, never a default. This module reads nothing and
//! compares nothing; the gates do.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// The settings a point records, one per equality gate, sorted.
pub const SETTING_KEYS: &[&str] = &[
    "aslr",
    "cgroup",
    "clocksource",
    "cmdline",
    "environment",
    "epp",
    "governor",
    "isolation",
    "machine",
    "microcode",
    "mitigations",
    "preempt",
    "smt",
    "taint",
    "thp",
    "turbo",
];

/// One setting: its value, or why it is not known.
///
/// JSON: `{"value": "..."}` or `{"unknown": "reason"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    /// The value as the machine states it.
    #[serde(rename = "value")]
    Known(String),
    /// The reason why there is no value.
    #[serde(rename = "unknown")]
    Unknown(String),
}

impl Reading {
    /// A reading with a value.
    #[must_use]
    pub fn known(value: impl Into<String>) -> Self {
        Self::Known(value.into())
    }

    /// A reading without a value, with the reason.
    #[must_use]
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown(reason.into())
    }

    /// The value; `None` when it is not known.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }
}

/// The kernel of a point. A point ingested from others may lack any of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelIdentity {
    /// GNU build id of the running image, lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Compiler and linker, as the kernel states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// Architecture, for example `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The release, for example `6.12.117`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The part after the compiler, for example `#1 SMP PREEMPT_DYNAMIC ...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One boot of one kernel on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootIdentity {
    /// The kernel's random id of this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The kernel that was running.
    pub kernel: KernelIdentity,
    /// Settings by key, each one of [`SETTING_KEYS`]; an ingested point may have few or none.
    #[serde(default, deserialize_with = "settings_with_known_keys")]
    pub settings: BTreeMap<String, Reading>,
}

impl BootIdentity {
    /// The identity of a point made elsewhere: the release, and nothing else yet.
    #[must_use]
    pub fn foreign(release: impl Into<String>) -> Self {
        Self {
            kernel: KernelIdentity {
                release: Some(release.into()),
                ..KernelIdentity::default()
            },
            ..Self::default()
        }
    }

    /// The same identity with one setting more, or replaced.
    #[must_use]
    pub fn with_setting(mut self, key: &str, reading: Reading) -> Self {
        self.settings.insert(key.to_owned(), reading);
        self
    }

    /// The reading of a setting; one that was never taken is unknown with that reason.
    #[must_use]
    pub fn setting(&self, key: &str) -> Reading {
        self.settings
            .get(key)
            .cloned()
            .unwrap_or_else(|| Reading::unknown("not recorded for this point"))
    }
}

fn settings_with_known_keys<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Reading>, D::Error> {
    let settings = BTreeMap::<String, Reading>::deserialize(deserializer)?;
    match settings
        .keys()
        .find(|key| !SETTING_KEYS.contains(&key.as_str()))
    {
        Some(key) => Err(D::Error::unknown_field(key, SETTING_KEYS)),
        None => Ok(settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_keys_are_sorted_and_unique() {
        assert!(SETTING_KEYS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn readings_are_an_object_with_one_key() {
        let identity = BootIdentity::foreign("6.12.117")
            .with_setting("smt", Reading::known("on"))
            .with_setting("preempt", Reading::unknown("not in the log"));
        assert_eq!(
            serde_json::to_string(&identity).unwrap(),
            r#"{"kernel":{"release":"6.12.117"},"settings":{"preempt":{"unknown":"not in the log"},"smt":{"value":"on"}}}"#
        );
    }

    #[test]
    fn a_full_identity_survives_json_and_its_fields_come_sorted() {
        let mut identity = BootIdentity::foreign("6.18.4");
        identity.boot_id = Some("0f1e2d3c-0000-4000-8000-001122334455".into());
        identity.kernel.build_id = Some("ab01".into());
        identity.kernel.compiler = Some("gcc".into());
        identity.kernel.machine = Some("x86_64".into());
        identity.kernel.version = Some("#1 SMP".into());
        let text = serde_json::to_string(&identity).unwrap();
        let places: Vec<_> = [
            "boot_id", "build_id", "compiler", "machine", "release", "version", "settings",
        ]
        .iter()
        .map(|field| text.find(field).unwrap())
        .collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(
            serde_json::from_str::<BootIdentity>(&text).unwrap(),
            identity
        );
    }

    #[test]
    fn an_unknown_field_or_setting_or_kind_of_reading_is_refused() {
        for text in [
            r#"{"kernel":{},"extra":1}"#,
            r#"{"kernel":{"extra":1}}"#,
            r#"{"kernel":{},"settings":{"colour":{"value":"red"}}}"#,
            r#"{"kernel":{},"settings":{"smt":{"guess":"on"}}}"#,
            r#"{"kernel":{},"settings":{"smt":{"value":"on","unknown":"why"}}}"#,
        ] {
            assert!(
                serde_json::from_str::<BootIdentity>(text).is_err(),
                "{text}"
            );
        }
        assert!(serde_json::from_str::<BootIdentity>(r#"{"kernel":{}}"#).is_ok());
    }

    #[test]
    fn a_setting_never_taken_is_unknown() {
        assert_eq!(BootIdentity::foreign("6.1").setting("smt").value(), None);
    }
}
