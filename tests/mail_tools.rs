//! The mail as the tools of kernel developers read it.

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::{
    Answer, answer, clean, feed, fresh_case, has, has_git, has_python, ingest_whole,
    published_case, regbundle,
};
use serde_json::Value;

const RECIPIENTS: [&str; 4] = [
    "maintainer@example.org",
    "io-uring@vger.kernel.org",
    "linux-kernel@vger.kernel.org",
    "regressions@lists.linux.dev",
];
const NON_ASCII_TITLE: &str = "Größerer Aufwand je futex-WAITV – „accounted“ allocation, \
    spürbar auf jedem Rechner, den wir gemessen haben";

/// Parses a mail with the default policy; prints every defect and what was understood.
const PARSE: &str = r#"
import email, email.policy, json, sys
mail = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
defects = [repr(d) for d in mail.defects]
for name, value in mail.items():
    defects += [name + ": " + repr(d) for d in value.defects]
def addresses(name):
    return [[a.display_name, a.addr_spec] for a in mail[name].addresses] if mail[name] else []
print(json.dumps({
    "defects": defects,
    "multipart": mail.is_multipart(),
    "type": mail.get_content_type(),
    "charset": mail.get_content_charset(),
    "subject": str(mail["Subject"]),
    "from": addresses("From"),
    "to": addresses("To"),
    "cc": addresses("Cc"),
    "in_reply_to": str(mail["In-Reply-To"] or ""),
    "references": str(mail["References"] or ""),
    "message_id": str(mail["Message-ID"]),
    "zone": str(mail["Date"].datetime.tzinfo),
    "body": mail.get_content(),
}))
"#;

fn mail_of(case: &Path, folder: &Path) -> PathBuf {
    let file = folder.join("mail.eml");
    answer(regbundle().arg("report").arg(case).arg("--out").arg(&file)).expect(0);
    file
}

/// A case whose sender, copy and title are not ASCII, not an answer to a posting.
fn non_ascii_case(folder: &Path) -> PathBuf {
    let case = fresh_case(folder, |text| {
        let changed = text
            .replace(
                "\"Reporter <reporter@example.org>\"",
                "\"Jörg Tester <joerg@example.org>\"",
            )
            .replace(
                "\"io-uring@vger.kernel.org\", ",
                "\"Björn Töpel <bjorn@example.org>\", \"Doe, John (Test) <doe@example.org>\", ",
            )
            .replace(
                "title = \"io_uring futex WAITV accounted-allocation slowdown\"",
                &format!("title = \"{NON_ASCII_TITLE}\""),
            );
        let kept = changed
            .lines()
            .filter(|line| !line.starts_with("in_reply_to") && !line.starts_with("reply_subject"));
        kept.flat_map(|line| [line, "\n"]).collect()
    });
    ingest_whole(&case);
    case
}

fn parsed(file: &Path) -> Value {
    let bytes = std::fs::read(file).unwrap();
    feed(clean("python3").args(["-c", PARSE]), &bytes)
        .expect(0)
        .json()
}

fn has_send_email() -> bool {
    let found = clean("git").args(["send-email", "-h"]).output();
    let present = found.is_ok_and(|output| {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        // Not there, or there without its perl.
        said.contains("git send-email [")
    });
    has("git send-email", present)
}

fn send_email(folder: &Path, options: &[&str], file: &Path) -> Answer {
    answer(
        clean("git")
            .current_dir(folder)
            .env("HOME", folder)
            .args([
                "send-email",
                "--dry-run",
                "--from=t@example.org",
                "--to-cmd=true",
            ])
            .args(options)
            .arg(file),
    )
}

/// Runs `git mailinfo` and returns its lines and the patch it found.
fn mailinfo(folder: &Path, file: &Path) -> (String, Vec<u8>) {
    let bytes = std::fs::read(file).unwrap();
    let answer = feed(
        clean("git")
            .current_dir(folder)
            .env("HOME", folder)
            .args(["mailinfo", "msg", "patch"]),
        &bytes,
    )
    .expect(0);
    (answer.stdout, std::fs::read(folder.join("patch")).unwrap())
}

#[test]
fn git_send_email_takes_the_mail_and_every_recipient_of_its_header() {
    if !has_git() || !has_send_email() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = mail_of(&published_case(folder.path()), folder.path());
    for options in [[].as_slice(), &["--suppress-cc=self"]] {
        let sent = send_email(folder.path(), options, &file).expect(0);
        for recipient in RECIPIENTS {
            let line = format!("RCPT TO:<{recipient}>");
            assert!(sent.stdout.contains(&line), "{line}: {}", sent.said());
        }
        assert!(sent.stdout.contains("Result: OK"), "{}", sent.said());
        assert!(
            sent.stdout
                .contains("In-Reply-To: <patch-posting@example.org>"),
            "{}",
            sent.said()
        );
    }
}

#[test]
fn git_mailinfo_reads_subject_and_author_and_finds_no_patch() {
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = mail_of(&published_case(folder.path()), folder.path());
    let (said, patch) = mailinfo(folder.path(), &file);
    for line in [
        "Author: Reporter",
        "Email: reporter@example.org",
        // mailinfo itself takes "Re:" and the bracketed prefix away.
        "Subject: io_uring/futex: use GFP_KERNEL_ACCOUNT for futex data allocation",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    assert_eq!(String::from_utf8_lossy(&patch), "");
    // Nothing in the body is taken for headers or for the end of the message.
    let message = std::fs::read_to_string(folder.path().join("msg")).unwrap();
    let mail = std::fs::read_to_string(&file).unwrap();
    let body = mail.split_once("\n\n").unwrap().1;
    assert_eq!(message.trim(), body.trim());
}

#[test]
fn pythons_parser_finds_no_defect_in_the_mail_or_a_header() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = mail_of(&published_case(folder.path()), folder.path());
    let mail = parsed(&file);
    assert_eq!(mail["defects"], Value::Array(Vec::new()));
    assert_eq!(mail["multipart"], false);
    assert_eq!(mail["type"], "text/plain");
    assert_eq!(mail["charset"], "utf-8");
    assert_eq!(mail["zone"], "UTC");
    assert_eq!(
        mail["subject"],
        "Re: [PATCH for-next] io_uring/futex: use GFP_KERNEL_ACCOUNT for futex data allocation"
    );
    assert_eq!(mail["from"][0][1], "reporter@example.org");
    assert_eq!(mail["to"][0][0], "Maintainer");
    let listed = |name: &str| mail[name].as_array().unwrap().clone();
    let mut recipients = listed("to");
    recipients.extend(listed("cc"));
    let recipients: Vec<&str> = recipients
        .iter()
        .map(|address| address[1].as_str().unwrap())
        .collect();
    assert_eq!(recipients, RECIPIENTS);
    assert_eq!(mail["in_reply_to"], "<patch-posting@example.org>");
    assert_eq!(mail["references"], "<patch-posting@example.org>");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(mail["body"], text.split_once("\n\n").unwrap().1);
}

#[test]
fn names_and_a_title_that_are_not_ascii_survive_pythons_parser() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = mail_of(&non_ascii_case(folder.path()), folder.path());
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    assert!(head.is_ascii(), "{head}");
    assert!(head.lines().all(|line| line.len() <= 78), "{head}");
    let mail = parsed(&file);
    assert_eq!(mail["defects"], Value::Array(Vec::new()));
    assert_eq!(mail["from"][0][0], "Jörg Tester");
    assert_eq!(mail["from"][0][1], "joerg@example.org");
    assert_eq!(mail["cc"][0][0], "Björn Töpel");
    assert_eq!(mail["cc"][0][1], "bjorn@example.org");
    assert_eq!(mail["cc"][1][0], "Doe, John (Test)");
    assert_eq!(mail["cc"][1][1], "doe@example.org");
    let subject = mail["subject"].as_str().unwrap();
    assert!(subject.contains(NON_ASCII_TITLE), "{subject}");
    assert!(
        subject.starts_with("[REGRESSION] io_uring/futex: "),
        "{subject}"
    );
    assert!(subject.contains("6e0d71c288fd"), "{subject}");
    assert!(body.contains(&format!("#regzbot title: {NON_ASCII_TITLE}\n")));
    assert_eq!(mail["body"], body);
    assert_eq!(mail["in_reply_to"], "");
}

#[test]
fn git_reads_names_and_a_title_that_are_not_ascii() {
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = mail_of(&non_ascii_case(folder.path()), folder.path());
    let (said, patch) = mailinfo(folder.path(), &file);
    assert!(said.contains("Author: Jörg Tester\n"), "{said}");
    assert!(said.contains(NON_ASCII_TITLE), "{said}");
    assert!(patch.is_empty());
    if !has_send_email() {
        return;
    }
    let sent = send_email(folder.path(), &["--suppress-cc=self"], &file).expect(0);
    for recipient in ["bjorn@example.org", "doe@example.org"] {
        let line = format!("RCPT TO:<{recipient}>");
        assert!(sent.stdout.contains(&line), "{}", sent.said());
    }
}

#[test]
fn no_text_of_a_case_becomes_a_command_to_the_bot_or_a_line_of_its_own_kind() {
    let folder = tempfile::tempdir().unwrap();
    for (key, text) in [
        ("question", "#regzbot invalid: x"),
        ("title", "t; #regzbot fix: x"),
    ] {
        let place = folder.path().join(key);
        std::fs::create_dir(&place).unwrap();
        let case = common::fresh_case(&place, |case| {
            let line = case
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap()
                .to_owned();
            case.replace(&line, &format!("{key} = \"{text}\""))
        });
        let said = common::run([std::path::Path::new("analyze"), &case])
            .expect(4)
            .said();
        assert!(said.contains(key) && said.contains("#regzbot"), "{said}");
    }
    let case = common::fresh_case(folder.path(), |case| {
        let line = case
            .lines()
            .find(|line| line.starts_with("question"))
            .unwrap()
            .to_owned();
        case.replace(&line, "question = \"| Closes: https://example.org\"")
    });
    common::ingest_whole(&case);
    let mail = common::run([std::path::Path::new("report"), &case])
        .expect(0)
        .stdout;
    assert!(mail.contains("\n\"| Closes:"), "{mail}");
}
