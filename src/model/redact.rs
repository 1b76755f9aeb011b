//! Takes private names, addresses and identifiers out of text.
//!
//! Input: what is private on this machine, and a text. Output: the text with each
//! private thing replaced by a word in angle brackets, or the list of what was found.
//! Both follow from one search, so a text in which nothing is found is exactly a text
//! that redaction leaves alone. Only whole tokens count: user `test` does not touch
//! `io-uring-test`. Boot ids, git ids, digests and kernel versions stay, because
//! points are told apart by them. It does not learn the private names (`edge` does),
//! and it cannot know a name nobody gave it.

mod address;
mod command_line;
mod token;

use token::{Span, ends_token, is_word, runs, starts_token, uuids};

/// Names every machine has, and the placeholders' own words (else redacting twice
/// would not be redacting once).
const NOT_PRIVATE: [&str; 7] = [
    "root",
    "localhost",
    "localhost.localdomain",
    "vm",
    "host",
    "user",
    "home",
];
/// Homes that name nobody.
const SHARED_HOMES: [&str; 6] = [
    "/",
    "/root",
    "/tmp",
    "/nonexistent",
    "/dev/null",
    "/var/empty",
];
/// Shorter names hit ordinary words too often; the rule is part of the bundle format.
const SHORTEST_PRIVATE_NAME: usize = 4;
/// Shortest value after `UUID=` taken for an identifier: a FAT volume id has nine characters, an NTFS one sixteen.
const SHORTEST_VOLUME_ID: usize = 8;

/// What is private on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Private {
    /// Host name, with or without its domain.
    pub host: Option<String>,
    /// Login name.
    pub user: Option<String>,
    /// Path of the home directory.
    pub home: Option<String>,
    /// The 32 hexadecimal digits of the machine id.
    pub machine_id: Option<String>,
    /// Serial numbers of the hardware.
    pub serials: Vec<String>,
}

/// The kind of a private thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A host name.
    Host,
    /// A login name.
    User,
    /// A home directory.
    Home,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A hardware address of a network interface.
    Mac,
    /// An identifier of a disk, a machine or a part.
    Id,
}

impl Kind {
    /// The text that takes its place.
    #[must_use]
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Host => "<host>",
            Self::User => "<user>",
            Self::Home => "<home>",
            Self::Ip => "<ip>",
            Self::Mac => "<mac>",
            Self::Id => "<id>",
        }
    }
}

/// One private thing found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Line, counted from 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
    /// The private text itself.
    pub found: String,
}

/// Finds and replaces what is private.
#[derive(Debug, Clone)]
pub struct Redactor {
    names: Vec<(String, Kind)>,
}

impl Redactor {
    /// A redactor for these names; addresses and disk ids are found by their shape.
    #[must_use]
    pub fn new(private: Private) -> Self {
        let mut names = Vec::new();
        if let Some(host) = private.host.map(|host| host.trim().to_owned()) {
            let short = host.split('.').next().unwrap_or_default().to_owned();
            if is_private_name(&host) {
                names.push((host, Kind::Host));
            }
            if is_private_name(&short) {
                names.push((short, Kind::Host));
            }
        }
        if let Some(user) = private.user.map(|user| user.trim().to_owned())
            && is_private_name(&user)
        {
            names.push((user, Kind::User));
        }
        if let Some(home) = private.home {
            let home = home.trim().trim_end_matches('/').to_owned();
            if home.len() > 1 && home.starts_with('/') && !SHARED_HOMES.contains(&home.as_str()) {
                names.push((home, Kind::Home));
            }
        }
        if let Some(id) = private.machine_id.map(|id| id.trim().to_owned())
            && is_machine_id(&id)
        {
            names.push((id, Kind::Id));
        }
        let serials = private.serials.iter().map(|serial| serial.trim());
        for serial in serials.filter(|serial| is_private_serial(serial)) {
            names.push((serial.to_owned(), Kind::Id));
        }
        names.sort();
        names.dedup();
        Self { names }
    }

    /// The text without what is private; doing it twice changes nothing more.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        // A replacement can free its neighbour (the second end of a range of
        // addresses); each pass that changes something leaves fewer characters outside
        // placeholders, so this ends.
        let mut text = text.to_owned();
        loop {
            let next: String = text
                .split_inclusive('\n')
                .map(|line| replace(line, &self.spans(line)))
                .collect();
            if next == text {
                return text;
            }
            text = next;
        }
    }

    /// Every private thing in the text, in order; empty exactly when `redact` changes nothing.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            for span in self.spans(line) {
                hits.push(Hit {
                    line: index + 1,
                    kind: span.kind,
                    found: line
                        .get(span.start..span.end)
                        .unwrap_or_default()
                        .to_owned(),
                });
            }
        }
        hits
    }

    /// A kernel command line without what is private.
    ///
    /// Values that name a disk, an address or a host by their key are replaced whole;
    /// of `BOOT_IMAGE` the file name stays; arguments of init are dropped; the rest is
    /// treated as any text.
    #[must_use]
    pub fn command_line(&self, text: &str) -> String {
        self.redact(&command_line::redact_values(text))
    }

    /// What to replace in one line: sorted, without overlap.
    fn spans(&self, line: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        for (name, kind) in &self.names {
            spans.extend(
                line.match_indices(name.as_str())
                    .map(|(start, _)| Span::new(start, name.len(), *kind))
                    .filter(|span| is_whole(line, span)),
            );
        }
        home_paths(line, &mut spans);
        identifiers(line, &mut spans);
        address::find(line, &mut spans);
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
        let mut reached = 0;
        spans.retain(|span| {
            let free = span.start >= reached;
            if free {
                reached = span.end;
            }
            free
        });
        spans
    }
}

fn is_private_name(name: &str) -> bool {
    name.chars().count() >= SHORTEST_PRIVATE_NAME
        // All digits would hit measured numbers.
        && name.chars().any(char::is_alphabetic)
        && name.chars().all(|c| is_word(c) || c == '.')
        && !NOT_PRIVATE.contains(&name)
}

/// Vendors fill serial numbers with words ("Default string"); digits alone could be a measured number.
fn is_private_serial(serial: &str) -> bool {
    serial.len() >= 6
        && serial
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
        && serial.chars().any(|c| c.is_ascii_digit())
        && serial.chars().any(|c| c.is_ascii_alphabetic())
}

fn is_machine_id(text: &str) -> bool {
    text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_whole(line: &str, span: &Span) -> bool {
    starts_token(line, span.start) && ends_token(line, span.end)
}

fn replace(line: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut reached = 0;
    for span in spans {
        out.push_str(line.get(reached..span.start).unwrap_or_default());
        out.push_str(span.kind.placeholder());
        reached = span.end;
    }
    out.push_str(line.get(reached..).unwrap_or_default());
    out
}

/// `/home/NAME` is a home whoever NAME is.
fn home_paths(line: &str, spans: &mut Vec<Span>) {
    const PREFIX: &str = "/home/";
    for (start, _) in line.match_indices(PREFIX) {
        let rest = line.get(start + PREFIX.len()..).unwrap_or_default();
        let name = leading(rest, |c| is_word(c) || c == '.').trim_end_matches('.');
        let is_example = name.is_empty() || ["user", "host", "home"].contains(&name);
        if !is_example && starts_token(line, start) {
            spans.push(Span::new(start, PREFIX.len() + name.len(), Kind::Home));
        }
    }
}

/// Ids of disks and machines, told from boot ids by what stands before them.
fn identifiers(line: &str, spans: &mut Vec<Span>) {
    for (start, folder) in line.match_indices("/dev/disk/by-") {
        let rest = line.get(start + folder.len()..).unwrap_or_default();
        let sort = leading(rest, is_word);
        if let Some(value) = rest
            .get(sort.len()..)
            .and_then(|rest| rest.strip_prefix('/'))
        {
            let id = leading(value, |c| !c.is_whitespace() && !"\"'`,;()<>".contains(c));
            let offset = start + folder.len() + sort.len() + 1;
            spans.push(Span::new(offset, id.len(), Kind::Id));
        }
    }
    for (start, label) in line.match_indices("UUID=") {
        let rest = line.get(start + label.len()..).unwrap_or_default();
        let value = rest.trim_start_matches(['"', '\'']);
        let offset = start + label.len() + rest.len() - value.len();
        let id = leading(value, |c| c.is_ascii_hexdigit() || c == '-');
        if id.len() >= SHORTEST_VOLUME_ID {
            spans.push(Span::new(offset, id.len(), Kind::Id));
        }
    }
    if line.contains('=') {
        key_uuids(line, spans);
    }
    if line.contains("machine") {
        labelled_machine_ids(line, spans);
    }
    spans.retain(|span| span.start < span.end);
}

/// UUIDs that are the value of a key, unless the key says it is a boot.
fn key_uuids(line: &str, spans: &mut Vec<Span>) {
    for start in uuids(line) {
        let before = line.get(..start).unwrap_or_default();
        let token = before
            .rsplit(|c: char| c.is_whitespace() || "\"',;(){}".contains(c))
            .next()
            .unwrap_or_default();
        if let Some((key, _)) = token.split_once('=')
            && !key.ends_with("boot_id")
        {
            spans.push(Span::new(start, 36, Kind::Id));
        }
    }
}

fn labelled_machine_ids(line: &str, spans: &mut Vec<Span>) {
    for (start, run) in runs(line, |c| c.is_ascii_hexdigit()) {
        let before = line.get(..start).unwrap_or_default();
        let label = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'=:".contains(c));
        if is_machine_id(run)
            && label.len() < before.len()
            && ["machine-id", "machine_id"]
                .iter()
                .any(|name| label.ends_with(name))
        {
            spans.push(Span::new(start, run.len(), Kind::Id));
        }
    }
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
