//! Parameters given by name, resolved against a declaration: defaults filled in,
//! names and limits checked.

use std::collections::BTreeMap;

use super::declaration::Declaration;
use super::error::WorkloadError;

/// A value for every parameter of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    workload: &'static str,
    values: BTreeMap<&'static str, u64>,
}

impl Parameters {
    /// Fills in defaults and checks names and limits.
    ///
    /// # Errors
    ///
    /// When `given` holds an unknown name or a value outside its limits.
    pub fn resolve(
        declaration: &Declaration,
        given: &BTreeMap<String, u64>,
    ) -> Result<Self, WorkloadError> {
        let known = declaration.parameters;
        if let Some(name) = given
            .keys()
            .find(|name| known.iter().all(|parameter| parameter.name != *name))
        {
            return Err(unknown(
                declaration.name,
                name,
                known.iter().map(|parameter| parameter.name),
            ));
        }
        let mut values = BTreeMap::new();
        for parameter in known {
            let found = given
                .get(parameter.name)
                .copied()
                .unwrap_or(parameter.default);
            if !(parameter.min..=parameter.max).contains(&found) {
                return Err(WorkloadError::OutOfLimits {
                    workload: declaration.name,
                    name: parameter.name,
                    found,
                    min: parameter.min,
                    max: parameter.max,
                });
            }
            values.insert(parameter.name, found);
        }
        Ok(Self {
            workload: declaration.name,
            values,
        })
    }

    /// The value of a parameter.
    ///
    /// # Errors
    ///
    /// When the workload these were resolved for has no such parameter.
    pub fn get(&self, name: &str) -> Result<u64, WorkloadError> {
        self.values
            .get(name)
            .copied()
            .ok_or_else(|| unknown(self.workload, name, self.values.keys().copied()))
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.values.iter().map(|(name, value)| (*name, *value))
    }
}

fn unknown(
    workload: &'static str,
    name: &str,
    known: impl Iterator<Item = &'static str>,
) -> WorkloadError {
    WorkloadError::UnknownParameter {
        workload,
        name: name.to_owned(),
        known: known.collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::io_uring_futex_waitv::DECLARATION;

    fn given(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let resolved = Parameters::resolve(&DECLARATION, &given(&[("cycles", 7)])).unwrap();
        let all: Vec<_> = resolved.iter().collect();
        assert_eq!(
            all,
            [("cycles", 7), ("vectors", 8), ("wake", 3), ("words", 8)]
        );
        assert_eq!(resolved.get("vectors").unwrap(), 8);
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_known_ones_are_listed() {
        let error = Parameters::resolve(&DECLARATION, &given(&[("vector", 8)])).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("'vector'"), "{message}");
        assert!(
            message.contains("vectors, words, wake, cycles"),
            "{message}"
        );
        assert_eq!(error.kind().exit_code(), 64);
    }

    #[test]
    fn a_value_outside_its_limits_is_refused_with_found_and_limits() {
        for found in [0, 65] {
            let error =
                Parameters::resolve(&DECLARATION, &given(&[("vectors", found)])).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(&format!("is {found};")), "{message}");
            assert!(message.contains("1 to 64"), "{message}");
            assert_eq!(error.kind().exit_code(), 64);
        }
        for border in [1, 64] {
            assert!(Parameters::resolve(&DECLARATION, &given(&[("vectors", border)])).is_ok());
        }
    }

    #[test]
    fn every_default_lies_inside_its_own_limits() {
        for workload in crate::workload::registry::all() {
            let resolved = Parameters::resolve(workload.declaration(), &BTreeMap::new()).unwrap();
            workload.check(&resolved).unwrap();
        }
    }
}
