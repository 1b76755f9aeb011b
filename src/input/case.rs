//! `case.toml`, read and checked: unknown keys, impossible numbers and names that
//! the catalogue does not have are refused with their place.

use thiserror::Error;

use super::case_check::Checker;
use crate::model::case::Case;
use crate::model::plan::{Plan, PlannedWorkload};
use crate::workload::registry;

/// Why a `case.toml` is not a case.
#[derive(Debug, Error)]
pub enum CaseError {
    /// Not TOML, an unknown key, or a value of another type.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// Line, column and expected keys, from the reader.
        message: String,
    },
    /// A value that cannot be.
    #[error("{file}: `{key}`: found {found}, wanted {wanted}")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What was found.
        found: String,
        /// What may stand there.
        wanted: String,
    },
}

/// Reads and checks a case; `file` names it in errors.
///
/// # Errors
///
/// When the text is not a case of this format, with place, found and wanted.
pub fn read_case(text: &str, file: &str) -> Result<Case, CaseError> {
    let case: Case = toml::from_str(text).map_err(|error| CaseError::Syntax {
        file: file.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    Checker { file, case: &case }.check()?;
    Ok(case)
}

/// Makes the plan of a checked case.
///
/// # Errors
///
/// When a parameter is unknown or outside its limits.
pub fn plan_of(case: &Case, file: &str) -> Result<Plan, CaseError> {
    let mut workloads = Vec::with_capacity(case.workload.len());
    for section in &case.workload {
        let key = format!("workload.{}.params", section.name);
        let value = |found: String, wanted: String| CaseError::Value {
            file: file.to_owned(),
            key: key.clone(),
            found,
            wanted,
        };
        if !section.command.is_empty() {
            workloads.push(PlannedWorkload {
                name: section.name.clone(),
                role: section.role,
                implementations: section.implementations.clone(),
                params: section.params.clone(),
                command: section.command.clone(),
            });
            continue;
        }
        let declaration = registry::declaration(&section.name)
            .ok_or_else(|| value(section.name.clone(), known_workloads()))?;
        let params = crate::workload::parameters::Parameters::resolve(declaration, &section.params)
            .and_then(|params| {
                let workload = registry::get(&section.name)?;
                workload.check(&params).map(|()| params)
            })
            .map_err(|error| value("other parameters".to_owned(), error.to_string()))?;
        workloads.push(PlannedWorkload {
            name: section.name.clone(),
            role: section.role,
            implementations: section.implementations.clone(),
            params: params
                .iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            command: Vec::new(),
        });
    }
    Ok(Plan::of_case(case, workloads))
}

/// Lists the names of the catalogue for a message.
pub(super) fn known_workloads() -> String {
    let names: Vec<&str> = registry::declarations().map(|known| known.name).collect();
    format!("one of: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"
format = 1
id = "x"
title = "t"
[scope]
statement = "s"
[plan]
order = ["parent", "child", "parent"]
primary = "syscall-getpid"
[[workload]]
name = "syscall-getpid"
role = "target"
"#;

    fn message(text: &str) -> String {
        read_case(text, "case.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_small_case_is_read_with_its_defaults() {
        let case = read_case(CASE, "case.toml").unwrap();
        let plan = plan_of(&case, "case.toml").unwrap();
        assert_eq!(plan.rounds, 15);
        assert_eq!(plan.warmup_rounds, 3);
        assert_eq!(plan.points.len(), 3);
        assert!(!plan.workloads[0].params.is_empty());
    }

    #[test]
    fn an_unknown_key_is_named_with_line_column_and_the_expected_keys() {
        let text = CASE.replace("primary", "primay");
        let message = message(&text);
        assert!(message.contains("line 9, column 1"), "{message}");
        assert!(message.contains("primay"), "{message}");
        assert!(message.contains("`primary`"), "{message}");
    }

    #[test]
    fn impossible_values_are_named_with_what_is_wanted() {
        for (from, to, key) in [
            ("id = \"x\"", "id = \"../x\"", "`id`"),
            ("title = \"t\"", "title = \"a\\nb\"", "`title`"),
            (
                "[\"parent\", \"child\", \"parent\"]",
                "[\"parent\"]",
                "`plan.order`",
            ),
            (
                "primary = \"syscall-getpid\"",
                "primary = \"x\"",
                "`plan.primary`",
            ),
            (
                "name = \"syscall-getpid\"",
                "name = \"nosuch\"",
                "`workload.name`",
            ),
            ("role = \"target\"", "role = \"control\"", "`plan.primary`"),
            ("format = 1", "format = 2", "`format`"),
        ] {
            let message = message(&CASE.replace(from, to));
            assert!(message.contains(key), "{message}");
            assert!(message.contains("wanted"), "{message}");
        }
        let message = message(&format!("{CASE}\n[gates]\ndrift_pct = -1.0\n"));
        assert!(message.contains("`gates.drift_pct`"), "{message}");
    }

    #[test]
    fn an_external_command_has_a_name_and_a_place_of_its_own() {
        let external = |name: &str, command: &str, implementations: &str| {
            let text = CASE
                .replace("primary = \"syscall-getpid\"", &format!("primary = \"{name}\""))
                .replace(
                    "name = \"syscall-getpid\"",
                    &format!("name = \"{name}\"\ncommand = [{command}]\nimplementations = [{implementations}]"),
                );
            read_case(&text, "case.toml").map(|case| plan_of(&case, "case.toml").unwrap())
        };
        let plan = external("bench", "\"./bench\", \"-x\"", "\"standalone\"").unwrap();
        assert_eq!(plan.workloads[0].command, ["./bench", "-x"]);
        for (name, command, implementations, key) in [
            (
                "syscall-getpid",
                "\"./b\"",
                "\"standalone\"",
                "workload.name",
            ),
            ("../x", "\"./b\"", "\"standalone\"", "workload.name"),
            (
                "bench",
                "\"/home/me/b\"",
                "\"standalone\"",
                "workload.command",
            ),
            ("bench", "\"../b\"", "\"standalone\"", "workload.command"),
            ("bench", "\"./b\"", "\"formal\"", "workload.implementations"),
        ] {
            let error = external(name, command, implementations)
                .unwrap_err()
                .to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn a_parameter_outside_its_limits_stops_the_plan() {
        let text = format!("{CASE}params = {{ calls = 0 }}\n");
        let case = read_case(&text, "case.toml").unwrap();
        let message = plan_of(&case, "case.toml").unwrap_err().to_string();
        assert!(message.contains("calls"), "{message}");
        // Two parameters that contradict each other, each within its limits.
        let text = CASE.replace("syscall-getpid", "io-uring-futex-waitv");
        let case = read_case(&format!("{text}params = {{ wake = 9 }}\n"), "case.toml").unwrap();
        let message = plan_of(&case, "case.toml").unwrap_err().to_string();
        assert!(message.contains("wake"), "{message}");
    }

    #[test]
    fn a_text_that_says_nothing_or_that_send_email_refuses_is_refused() {
        for title in [":", " ", "*** SUBJECT HERE ***", "a\u{2060}b"] {
            let message = message(&CASE.replace("title = \"t\"", &format!("title = \"{title}\"")));
            assert!(message.contains("`title`"), "{message}");
        }
    }

    #[test]
    fn a_text_that_a_mail_tool_would_collect_as_a_trailer_is_named_with_its_key() {
        let message = message(&CASE.replace("statement = \"s\"", "statement = \"Acked-by: a@b\""));
        assert!(
            message.contains("`scope.statement`") && message.contains("Acked-by"),
            "{message}"
        );
    }
}
