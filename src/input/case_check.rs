//! What a case may say: the values of `case.toml` that types cannot rule out.
//!
//! Input: a case as read. Output: nothing, or the first key whose value cannot be, with
//! what was found and wanted. It reads no files and does not judge parameters of workloads.

use super::case::{CaseError, known_workloads};
use crate::model::case::{
    Accel, Boots, CASE_FORMAT, Case, GuestClock, Implementation, WorkloadRole, WorkloadSection,
};
use crate::model::plan::Role;
use crate::workload::registry;

/// Most boots a plan may have: letters of the labels run from a to y.
const MOST_POINTS: usize = 25;

/// Longest text of one line, characters: it must fit a header line of 998 bytes when encoded.
const LONGEST_LINE: usize = 300;

/// A case and the name of its file, for messages.
pub(super) struct Checker<'a> {
    pub(super) file: &'a str,
    pub(super) case: &'a Case,
}

impl Checker<'_> {
    fn value<T>(
        &self,
        key: &str,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) -> Result<T, CaseError> {
        Err(CaseError::Value {
            file: self.file.to_owned(),
            key: key.to_owned(),
            found: found.into(),
            wanted: wanted.into(),
        })
    }

    /// Stops at the first value that cannot be.
    pub(super) fn check(&self) -> Result<(), CaseError> {
        let case = self.case;
        if case.format != CASE_FORMAT {
            return self.value("format", case.format.to_string(), format!("{CASE_FORMAT}"));
        }
        if !is_name(&case.id) {
            return self.value(
                "id",
                format!("`{}`", crate::model::shown::printable(&case.id, 60)),
                "letters, digits and . _ - only, at most 100, beginning with a letter or digit",
            );
        }
        self.line("title", &case.title)?;
        self.body("scope.statement", &case.scope.statement)?;
        for text in &case.scope.not_claimed {
            self.body("scope.not_claimed", text)?;
        }
        if let Some(question) = &case.question {
            self.body("question", question)?;
        }
        self.change()?;
        self.plan()?;
        self.qemu()?;
        self.workloads()?;
        self.gates()?;
        self.machine()?;
        self.report()
    }

    /// A text that ends up in headers and tables must be one line without controls.
    fn line(&self, key: &str, text: &str) -> Result<(), CaseError> {
        if !text.chars().any(char::is_alphanumeric) {
            return self.value(key, "a text without a letter or digit", "one line of text");
        }
        if text.chars().count() > LONGEST_LINE {
            return self.value(
                key,
                format!("{} characters", text.chars().count()),
                format!("at most {LONGEST_LINE}"),
            );
        }
        if text.to_ascii_lowercase().contains("#regzbot") {
            return self.value(
                key,
                "`#regzbot` in it",
                "a text without that word: the mail's own lines are the only commands to the bot",
            );
        }
        for template in ["*** SUBJECT HERE ***", "*** BLURB HERE ***"] {
            if text.contains(template) {
                return self.value(
                    key,
                    format!("`{template}`"),
                    "a text of your own: git send-email refuses that one",
                );
            }
        }
        if let Some(odd) = text.chars().find(|c| !crate::model::shown::is_shown(*c)) {
            return self.value(
                key,
                format!("the character U+{:04X}", u32::from(odd)),
                "one line without control or direction characters",
            );
        }
        Ok(())
    }

    /// A text of the body, where a fold can bring any word to the start of a line.
    fn body(&self, key: &str, text: &str) -> Result<(), CaseError> {
        self.line(key, text)?;
        match trailer(text) {
            None => Ok(()),
            Some(word) => self.value(
                key,
                format!(
                    "`{}` before an address",
                    crate::model::shown::printable(word, 60)
                ),
                "a text without `Word: … user@host`: mail tools collect such lines as trailers",
            ),
        }
    }

    fn change(&self) -> Result<(), CaseError> {
        let Some(change) = &self.case.change else {
            return Ok(());
        };
        for (key, id) in [
            ("change.parent", &change.parent),
            ("change.child", &change.child),
        ] {
            if !is_commit(id) {
                return self.value(
                    key,
                    format!("`{id}`"),
                    "a full commit id of 40 lower-case hex digits",
                );
            }
        }
        if change.parent == change.child {
            return self.value(
                "change.child",
                "the parent's id",
                "another commit than change.parent",
            );
        }
        self.line("change.subject", &change.subject)?;
        if let Some(author) = &change.author {
            self.line("change.author", author)?;
        }
        if let Some(summary) = &change.summary {
            self.body("change.summary", summary)?;
        }
        for function in &change.functions {
            self.line("change.functions", function)?;
        }
        Ok(())
    }

    fn plan(&self) -> Result<(), CaseError> {
        let plan = &self.case.plan;
        let count = |role| plan.order.iter().filter(|known| **known == role).count();
        if count(Role::Parent) == 0 || count(Role::Child) == 0 || plan.order.len() > MOST_POINTS {
            return self.value(
                "plan.order",
                format!("{} parent and {} child", count(Role::Parent), count(Role::Child)),
                format!("at least one of each and at most {MOST_POINTS} points, such as [\"parent\", \"child\", \"parent\"]"),
            );
        }
        if !(2..=100_000).contains(&plan.rounds) {
            return self.value("plan.rounds", plan.rounds.to_string(), "2 to 100000");
        }
        if plan.warmup_rounds > 10_000 {
            return self.value(
                "plan.warmup_rounds",
                plan.warmup_rounds.to_string(),
                "0 to 10000",
            );
        }
        if !(1..=86_400).contains(&plan.point_seconds) {
            return self.value(
                "plan.point_seconds",
                plan.point_seconds.to_string(),
                "1 to 86400",
            );
        }
        Ok(())
    }

    fn qemu(&self) -> Result<(), CaseError> {
        let case = self.case;
        let Some(qemu) = &case.engine.qemu else {
            return Ok(());
        };
        if case.engine.host.is_some() {
            return self.value(
                "engine",
                "[engine.host] and [engine.qemu]",
                "one of them: a case has one kind of point",
            );
        }
        for role in [Role::Parent, Role::Child] {
            let key = format!("engine.qemu.kernels.{}", role.word());
            let Some(path) = qemu.kernels.get(&role) else {
                return self.value(
                    &key,
                    "nothing",
                    "a bzImage or a .deb, such as `../build/parent/bzImage`",
                );
            };
            self.line(&key, path)?;
            if path.starts_with('/') {
                return self.value(
                    &key,
                    format!("`{path}`"),
                    "a path relative to the case's folder: case.toml is published",
                );
            }
        }
        if case.plan.boots == Boots::Same {
            return self.value(
                "plan.boots",
                "\"same\" with [engine.qemu]",
                "\"distinct\": each point is a boot of its own there",
            );
        }
        if !(128..=65_536).contains(&qemu.memory) {
            return self.value(
                "engine.qemu.memory",
                qemu.memory.to_string(),
                "128 to 65536 MiB",
            );
        }
        if !(1..=3_600).contains(&qemu.boot_seconds) {
            return self.value(
                "engine.qemu.boot_seconds",
                qemu.boot_seconds.to_string(),
                "1 to 3600",
            );
        }
        if !qemu.append.is_empty() {
            self.line("engine.qemu.append", &qemu.append)?;
        }
        if qemu.clock == GuestClock::Instructions && qemu.accel == Accel::Kvm {
            return self.value(
                "engine.qemu.accel",
                "\"kvm\" with clock = \"instructions\"",
                "\"tcg\" or \"auto\": only emulation counts instructions",
            );
        }
        if case.machine.cpu.is_some_and(|cpu| cpu != 0) {
            return self.value(
                "machine.cpu",
                case.machine.cpu.unwrap_or_default().to_string(),
                "0 or nothing with [engine.qemu]: the guest has one CPU",
            );
        }
        Ok(())
    }

    fn workloads(&self) -> Result<(), CaseError> {
        let case = self.case;
        for (index, section) in case.workload.iter().enumerate() {
            if section.command.is_empty() {
                if registry::declaration(&section.name).is_none() {
                    return self.value(
                        "workload.name",
                        format!("`{}`", section.name),
                        format!("{}; or a `command` of yours", known_workloads()),
                    );
                }
            } else {
                self.external(section)?;
            }
            if case
                .workload
                .iter()
                .skip(index + 1)
                .any(|other| other.name == section.name)
            {
                return self.value(
                    "workload.name",
                    format!("`{}` twice", section.name),
                    "each workload once",
                );
            }
            let mut sorted = section.implementations.clone();
            sorted.sort();
            sorted.dedup();
            if sorted.is_empty() || sorted.len() != section.implementations.len() {
                return self.value(
                    &format!("workload.{}.implementations", section.name),
                    "none, or one twice",
                    "\"formal\", \"standalone\" or both",
                );
            }
        }
        let primary = case
            .workload
            .iter()
            .find(|section| section.name == case.plan.primary);
        match primary {
            Some(section) if section.role == WorkloadRole::Target => Ok(()),
            _ => self.value(
                "plan.primary",
                format!("`{}`", case.plan.primary),
                "the name of a [[workload]] of this case with role = \"target\"",
            ),
        }
    }

    /// An external command: its name is not one of ours, and its path says nothing of the
    /// reporter's machine, because plan and case are published.
    fn external(&self, section: &WorkloadSection) -> Result<(), CaseError> {
        if !is_name(&section.name) || registry::declaration(&section.name).is_some() {
            return self.value(
                "workload.name",
                format!("`{}`", crate::model::shown::printable(&section.name, 60)),
                "letters, digits and . _ - only, and no name of the catalogue, beside `command`",
            );
        }
        if section.implementations != [Implementation::Standalone] {
            return self.value(
                "workload.implementations",
                format!("{} implementations", section.implementations.len()),
                "[\"standalone\"] for an external command",
            );
        }
        for word in &section.command {
            self.line("workload.command", word)?;
        }
        let program = section.command.first().map_or("", String::as_str);
        let inside = !program.starts_with('/') && program.split('/').all(|part| part != "..");
        if !inside {
            return self.value(
                "workload.command",
                format!("`{program}`"),
                "a path relative to the case's folder, such as `./bench`: the plan is published",
            );
        }
        if let Some(name) = section.params.keys().find(|name| !is_name(name)) {
            return self.value(
                "workload.params",
                format!("`{}`", crate::model::shown::printable(name, 60)),
                "names of letters, digits and . _ -",
            );
        }
        Ok(())
    }

    fn gates(&self) -> Result<(), CaseError> {
        let gates = &self.case.gates;
        for (key, value) in [
            ("gates.signal_pct", gates.signal_pct),
            ("gates.drift_pct", gates.drift_pct),
            ("gates.cv_pct", gates.cv_pct),
            ("gates.margin_pct", gates.margin_pct),
            ("gates.canary_pct", gates.canary_pct),
        ] {
            if !(value > 0.0 && value <= 100.0) {
                return self.value(key, value.to_string(), "percent, above 0 and at most 100");
            }
        }
        Ok(())
    }

    fn machine(&self) -> Result<(), CaseError> {
        let machine = &self.case.machine;
        let classes = ["bare-metal", "virtual-machine", "emulated"];
        if let Some(found) = machine
            .environment
            .as_deref()
            .filter(|text| !classes.contains(text))
        {
            return self.value(
                "machine.environment",
                format!("`{found}`"),
                format!("one of: {}", classes.join(", ")),
            );
        }
        if let Some(found) = machine
            .cgroup
            .as_deref()
            .filter(|text| !["root", "child"].contains(text))
        {
            return self.value("machine.cgroup", format!("`{found}`"), "`root` or `child`");
        }
        for (key, text) in [
            ("machine.preempt", &machine.preempt),
            ("machine.description", &machine.description),
        ] {
            if let Some(text) = text {
                self.body(key, text)?;
            }
        }
        Ok(())
    }

    fn report(&self) -> Result<(), CaseError> {
        let report = &self.case.report;
        let addresses = report.from.iter().chain(&report.to).chain(&report.cc);
        for address in addresses {
            self.line("report", address)?;
            if !is_address(address) {
                return self.value(
                    "report",
                    format!("`{address}`"),
                    "`Name <user@example.org>` or `user@example.org`",
                );
            }
        }
        if let Some(id) = &report.in_reply_to {
            let bare = id.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
            let good = bare.is_some_and(|bare| {
                bare.contains('@')
                    && bare
                        .bytes()
                        .all(|byte| byte.is_ascii_graphic() && byte != b'<' && byte != b'>')
            });
            if !good {
                return self.value(
                    "report.in_reply_to",
                    format!("`{id}`"),
                    "a Message-ID such as `<id@example.org>`",
                );
            }
        }
        for (key, text) in [
            ("report.area", &report.area),
            ("report.reply_subject", &report.reply_subject),
            ("report.regzbot_title", &report.regzbot_title),
        ] {
            if let Some(text) = text {
                self.line(key, text)?;
            }
        }
        Ok(())
    }
}

/// Says whether a text can name a folder in a bundle on any file system.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=100).contains(&text.len())
        && text.bytes().all(plain)
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Says whether a text is a full commit id.
fn is_commit(text: &str) -> bool {
    text.len() == 40
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the word that would make a line a trailer: `Word:` with an address after it.
fn trailer(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(": ") {
        let word = before.rsplit(' ').next().unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !word.is_empty() && word.bytes().all(plain) && after.contains('@') {
            return Some(word);
        }
        rest = after;
    }
    None
}

/// Says whether a text is the host of an address: labels of letters, digits and `-`.
fn is_host(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

/// Says whether a text is a mail address with or without a name.
fn is_address(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    address.split_once('@').is_some_and(|(user, host)| {
        let atom = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte)
                })
        };
        let dotted = |part: &str| part.split('.').all(|piece| !piece.is_empty());
        atom(user) && dotted(user) && is_host(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert!(is_address("A B <a@example.org>"));
        assert!(is_address("a@example.org"));
        for bad in [
            "a",
            "a@",
            "A <a@example.org",
            "a b@example.org",
            "a@x, b@y",
            "a@exa/mple.org",
            "a@example..org",
            "a@-example.org",
            "a@example.org%b",
            ".a@example.org",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_text_that_a_mail_tool_would_collect_as_a_trailer_is_refused() {
        for (text, word) in [
            ("Reviewed-by: A <a@example.org>", Some("Reviewed-by")),
            ("so: Tested-by: A <a@example.org>", Some("so")),
            ("mm: a word", None),
            ("see a@example.org: it says", None),
            ("io_uring/futex: ask a@example.org", None),
        ] {
            assert_eq!(trailer(text), word, "{text}");
        }
    }
}
