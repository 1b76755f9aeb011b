//! The text of a tracefs buffer, read: event lines, the header's two counts, and the
//! statistics of one CPU.
//!
//! Input is text of the kernel, output what it says. A line that is none of the forms
//! known here is an error: a line passed over would be a count that is too small. It
//! counts and judges nothing.

use std::borrow::Cow;

use thiserror::Error;

use crate::model::shown::printable;

/// Columns before the `-` that ends the task's name (`%16s-%-7d` in the kernel's
/// `trace_print_context`).
const NAME_WIDTH: usize = 16;

/// Why a text is not one of a tracefs buffer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("found `{found}`, wanted {wanted}")]
pub struct TraceTextError {
    /// The text found.
    pub found: String,
    /// What stands there in a buffer.
    pub wanted: &'static str,
}

fn unlike(found: &str, wanted: &'static str) -> TraceTextError {
    TraceTextError {
        found: printable(found, 120),
        wanted,
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceLine<'a> {
    /// A line of the header, or a remark that begins with `#`, or an empty one.
    Remark,
    /// The header's counts: entries in the buffer, and entries ever written to it.
    Entries(u64, u64),
    /// The buffer says here that events were lost.
    Lost,
    /// An event.
    Event(TraceEvent<'a>),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent<'a> {
    /// Task, as the initial pid namespace numbers it.
    pub pid: u32,
    /// Name without its group; system calls as `sys_enter_NAME` and `sys_exit_NAME`.
    pub name: Cow<'a, str>,
    /// What the event's own format printed.
    pub text: &'a str,
}

/// What one CPU's buffer lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Events overwritten by later ones.
    pub overrun: u64,
    /// Events lost because an interrupt filled the buffer.
    pub commit_overrun: u64,
    /// Events not written because the buffer was full.
    pub dropped: u64,
}

impl BufferStats {
    /// Events lost in any way.
    #[must_use]
    pub const fn lost(self) -> u64 {
        self.overrun
            .saturating_add(self.commit_overrun)
            .saturating_add(self.dropped)
    }
}

/// Reads one line of a buffer's `trace` file.
///
/// # Errors
///
/// When it is none of the forms that the kernel writes with its default options.
pub fn read_line(line: &str) -> Result<TraceLine<'_>, TraceTextError> {
    if line.starts_with('#') {
        return read_remark(line);
    }
    if line.trim().is_empty() {
        return Ok(TraceLine::Remark);
    }
    // Names of tasks have at most 15 characters, so an event's line begins with a blank.
    if line.starts_with("CPU:") {
        return Ok(TraceLine::Lost);
    }
    read_event(line).map_or_else(
        || {
            Err(unlike(
                line,
                "`NAME-PID [CPU] FLAGS SECONDS: EVENT: TEXT` of a tracefs buffer",
            ))
        },
        |event| Ok(TraceLine::Event(event)),
    )
}

fn read_remark(line: &str) -> Result<TraceLine<'_>, TraceTextError> {
    let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written:") else {
        return Ok(TraceLine::Remark);
    };
    let counts = counts.split_whitespace().next().unwrap_or("");
    counts
        .split_once('/')
        .and_then(|(kept, written)| {
            Some(TraceLine::Entries(
                kept.parse().ok()?,
                written.parse().ok()?,
            ))
        })
        .ok_or_else(|| {
            unlike(
                line,
                "two counts behind `entries-in-buffer/entries-written:`",
            )
        })
}

fn read_event(line: &str) -> Option<TraceEvent<'_>> {
    let (dash, _) = line.char_indices().nth(NAME_WIDTH)?;
    let rest = line.get(dash..)?.strip_prefix('-')?;
    let (pid, rest) = rest.split_once(' ')?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    cpu.parse::<u32>().ok()?;
    let (flags, rest) = rest.trim_start().split_once(' ')?;
    // Without the option irq-info there are no flags.
    let rest = match is_time(flags) {
        true => rest,
        false => {
            let (time, rest) = rest.trim_start().split_once(' ')?;
            is_time(time).then_some(rest)?
        }
    };
    let (name, text) = read_name(rest)?;
    Some(TraceEvent {
        pid: pid.parse().ok()?,
        name,
        text,
    })
}

/// `SECONDS.FRACTION:`
fn is_time(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.strip_suffix(':')
        .and_then(|time| time.split_once('.'))
        .is_some_and(|(seconds, fraction)| digits(seconds) && digits(fraction))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `EVENT: TEXT`; system calls print `sys_NAME(ARGUMENTS)` and `sys_NAME -> RESULT`.
fn read_name(rest: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (name, after) = (rest.get(..end)?, rest.get(end..)?);
    if !is_name(name) {
        return None;
    }
    if let Some(text) = after.strip_prefix(':') {
        return Some((Cow::Borrowed(name), text.trim_start()));
    }
    let call = name.strip_prefix("sys_")?;
    if after.starts_with('(') {
        return Some((Cow::Owned(format!("sys_enter_{call}")), after));
    }
    let text = after.strip_prefix(" -> ")?;
    Some((Cow::Owned(format!("sys_exit_{call}")), text))
}

/// Returns the value of a field in an event's text, printed as `name=value`,
/// `name: value` or `name value`; `None` when the text has no such field.
#[must_use]
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    if name.is_empty() {
        return None;
    }
    text.match_indices(name).find_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        if before.is_some_and(|c| !matches!(c, ' ' | ',' | '(')) {
            return None;
        }
        let rest = text.get(at + name.len()..)?;
        let value = ["=", ": ", " "]
            .iter()
            .find_map(|separator| rest.strip_prefix(separator))?;
        let end = value.find([' ', ',', ')']).unwrap_or(value.len());
        value.get(..end).filter(|value| !value.is_empty())
    })
}

/// Returns the function of a call site such as `io_futexv_prep+0x57/0x110`, without the
/// suffixes that a compiler gives its copies; `None` when the kernel printed an address.
#[must_use]
pub fn function_of(call_site: &str) -> Option<&str> {
    let symbol = call_site.split('+').next()?;
    let name = symbol.split('.').next()?;
    let begins = name.bytes().next()?;
    (is_name(name) && !begins.is_ascii_digit()).then_some(name)
}

/// Reads `per_cpu/cpuN/stats`.
///
/// # Errors
///
/// When one of the three counts of lost events is not there: without them nothing says
/// that a count is whole.
pub fn read_stats(text: &str) -> Result<BufferStats, TraceTextError> {
    let count = |key: &str, wanted| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| unlike(text, wanted))
    };
    Ok(BufferStats {
        overrun: count("overrun", "a line `overrun: N`")?,
        commit_overrun: count("commit overrun", "a line `commit overrun: N`")?,
        dropped: count("dropped events", "a line `dropped events: N`")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Linux 6.18 wrote them.
    const KMALLOC: &str = "io-uring-futex-w-4242    [001] ...1.  3301.518093: kmalloc: call_site=io_futexv_prep+0x57/0x110 ptr=00000000c6a9ea32 bytes_req=1280 bytes_alloc=2048 gfp_flags=GFP_KERNEL|__GFP_ZERO node=-1 accounted=false";
    const SUBMIT: &str = "       regbundle-77      [000] .....    12.000001: io_uring_submit_req: ring 00000000aaaaaaaa, req 00000000bbbbbbbb, user_data 0x10, opcode FUTEX_WAITV, flags 0x200000, sq_thread 0";

    fn event(line: &str) -> TraceEvent<'_> {
        match read_line(line).unwrap() {
            TraceLine::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_gives_its_task_its_name_and_its_fields() {
        let found = event(KMALLOC);
        assert_eq!((found.pid, found.name.as_ref()), (4242, "kmalloc"));
        let site = field(found.text, "call_site").unwrap();
        assert_eq!(function_of(site), Some("io_futexv_prep"));
        assert_eq!(field(found.text, "bytes_req"), Some("1280"));
        assert_eq!(
            field(found.text, "gfp_flags"),
            Some("GFP_KERNEL|__GFP_ZERO")
        );
        assert_eq!(field(found.text, "accounted"), Some("false"));
        let found = event(SUBMIT);
        assert_eq!(found.name, "io_uring_submit_req");
        assert_eq!(field(found.text, "opcode"), Some("FUTEX_WAITV"));
        assert_eq!(field(found.text, "flags"), Some("0x200000"));
        assert_eq!(field(found.text, "data"), None);
    }

    #[test]
    fn a_system_call_has_the_name_of_its_event() {
        let enter = "      flistxattr-9       [000] ..... 1.5: sys_flistxattr(fd: 3, list: 7ffd, size: 1000)";
        let found = event(enter);
        assert_eq!(found.name, "sys_enter_flistxattr");
        assert_eq!(field(found.text, "fd"), Some("3"));
        assert_eq!(field(found.text, "size"), Some("1000"));
        let exit = "      flistxattr-9       [000] ..... 1.5: sys_flistxattr -> 0x110";
        assert_eq!(event(exit).name, "sys_exit_flistxattr");
        assert_eq!(event(exit).text, "0x110");
    }

    #[test]
    fn a_call_site_that_is_an_address_has_no_function() {
        assert_eq!(function_of("0xffffffff81234567"), None);
        assert_eq!(function_of("0000000000000000"), None);
        assert_eq!(function_of("f.constprop.0+0x1/0x2"), Some("f"));
        assert_eq!(function_of(""), None);
    }

    #[test]
    fn lost_events_and_the_headers_counts_are_seen() {
        let head = "# entries-in-buffer/entries-written: 140/152   #P:2";
        assert_eq!(read_line(head), Ok(TraceLine::Entries(140, 152)));
        assert!(read_line("# entries-in-buffer/entries-written: x").is_err());
        for line in ["CPU:1 [LOST 12 EVENTS]", "CPU:1 [LOST EVENTS]"] {
            assert_eq!(read_line(line), Ok(TraceLine::Lost));
        }
        assert_eq!(read_line("# tracer: nop"), Ok(TraceLine::Remark));
    }

    #[test]
    fn a_line_of_another_form_is_refused_and_not_passed_over() {
        for line in [
            "kmalloc: call_site=x",
            "       regbundle-77      [000] .....    12.000001: ",
            "       regbundle-77      [000] .....    noon: kmalloc: call_site=x",
            "       regbundle-x       [000] .....    12.000001: kmalloc: call_site=x",
        ] {
            assert!(read_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn each_kind_of_loss_is_counted_and_statistics_without_them_are_refused() {
        let text = "entries: 3\noverrun: 1\ncommit overrun: 2\nbytes: 4\noldest event ts:     1.2\nnow ts:     3.4\ndropped events: 4\nread events: 0\n";
        let stats = read_stats(text).unwrap();
        assert_eq!(stats.lost(), 7);
        assert!(read_stats("entries: 3\noverrun: 1\ncommit overrun: 2\n").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), name in "[a-z_]{0,8}") {
            let _ = read_line(&text);
            let _ = read_stats(&text);
            let _ = function_of(&text);
            if let Some(value) = field(&text, &name) {
                prop_assert!(text.contains(value));
            }
        }

        #[test]
        fn a_line_cut_or_changed_anywhere_is_read_or_refused(
            at in 0..KMALLOC.len(), byte in any::<char>(), cut in any::<bool>(),
        ) {
            let mut line = KMALLOC.to_owned();
            if cut {
                line.truncate(at);
            } else {
                line.replace_range(at..=at, &byte.to_string());
            }
            if let Ok(TraceLine::Event(event)) = read_line(&line) {
                prop_assert!(line.contains(event.text));
            }
        }

        #[test]
        fn a_written_event_is_read_back(
            task in "[ -~]{1,15}", pid in 1_u32..4_000_000, name in "[a-z][a-z_]{0,20}",
            text in "[ -~]{0,40}",
        ) {
            let line = format!("{task:>16}-{pid:<7} [003] d..2. 17.000042: {name}: {text}");
            prop_assume!(!line.starts_with('#') && !line.starts_with("CPU:"));
            let found = event(&line);
            prop_assert_eq!(found.pid, pid);
            prop_assert_eq!(found.name.as_ref(), name);
            prop_assert_eq!(found.text, text.trim_start());
        }
    }
}
