//! Finds network addresses in a line by their shape, and leaves kernel versions alone.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Kind;
use super::token::{Span, ends_token, is_inside_word, runs, starts_token};

/// Groups of an Ethernet hardware address; other networks have more.
const SHORTEST_MAC: usize = 6;

pub(super) fn find(line: &str, spans: &mut Vec<Span>) {
    // Rows of numbers are most of a tree: a line without the separator is done at once.
    if line.contains(':') {
        macs(line, ':', spans);
        ipv6(line, spans);
    }
    if line.contains('-') {
        macs(line, '-', spans);
    }
    if line.contains('.') {
        ipv4(line, spans);
    }
}

fn macs(line: &str, separator: char, spans: &mut Vec<Span>) {
    for (offset, run) in runs(line, |c| c.is_ascii_hexdigit() || c == separator) {
        let mut start = offset;
        let mut pairs: Option<(usize, usize, usize)> = None;
        for group in run.split(separator) {
            let end = start + group.len();
            // Only the outer groups of a run can be cut out of a longer word.
            let whole = group.len() == 2
                && (start > offset || starts_word(line, start))
                && (end < offset + run.len() || ends_word(line, end));
            pairs = match (whole, pairs) {
                (true, Some((first, _, count))) => Some((first, end, count + 1)),
                (true, None) => Some((start, end, 1)),
                (false, pairs) => {
                    push_mac(pairs, spans);
                    None
                }
            };
            start = end + separator.len_utf8();
        }
        push_mac(pairs, spans);
    }
}

fn push_mac(pairs: Option<(usize, usize, usize)>, spans: &mut Vec<Span>) {
    if let Some((start, end, count)) = pairs
        && count >= SHORTEST_MAC
    {
        spans.push(Span::new(start, end - start, Kind::Mac));
    }
}

fn starts_word(line: &str, start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    before.ends_with(['-', ':', '_']) || starts_token(line, start)
}

fn ends_word(line: &str, end: usize) -> bool {
    let after = line.get(end..).unwrap_or_default();
    after.starts_with(['-', ':', '_']) || ends_token(line, end)
}

fn ipv6(line: &str, spans: &mut Vec<Span>) {
    for (offset, run) in runs(line, |c| c.is_ascii_hexdigit() || c == ':' || c == '.') {
        let mut start = offset;
        let mut text = run;
        if !starts_token(line, offset) {
            // The first group belongs to a word: `inet6:fe80::1`, or a path in code.
            let Some((word, rest)) = run.split_once(':') else {
                continue;
            };
            start += word.len() + 1;
            text = rest;
        }
        if text.starts_with(':') && !text.starts_with("::") {
            start += 1;
            text = text.trim_start_matches(':');
        }
        let bare = text.trim_end_matches('.');
        let bare = match bare.strip_suffix(':') {
            Some(shorter) if !shorter.ends_with(':') => shorter,
            _ => bare,
        };
        let after = line.get(start + bare.len()..).unwrap_or_default();
        if !after.starts_with(is_inside_word)
            && bare
                .parse()
                .is_ok_and(|address| is_private_ipv6(address, bare))
        {
            spans.push(Span::new(start, bare.len(), Kind::Ip));
        }
    }
}

/// Everything in use on a network begins at 2000:: or above (RFC 4291 section 2.4), but
/// for mapped IPv4; below that, short forms are rather cgroup lines or code (`0::`, `a::b`).
fn is_private_ipv6(address: Ipv6Addr, text: &str) -> bool {
    let [first, ..] = address.segments();
    first >= 0x2000 || address.to_ipv4_mapped().is_some() || !text.contains("::")
}

fn ipv4(line: &str, spans: &mut Vec<Span>) {
    for (offset, run) in runs(line, |c| c.is_ascii_digit() || c == '.') {
        let start = offset + run.len() - run.trim_start_matches('.').len();
        let text = run.trim_matches('.');
        if text.parse().is_ok_and(is_private_ipv4)
            && starts_token(line, start)
            && !is_version(line, start, start + text.len())
        {
            spans.push(Span::new(start, text.len(), Kind::Ip));
        }
    }
}

/// The loopback network and 0.0.0.0 are the same on every machine, as `localhost` is.
fn is_private_ipv4(address: Ipv4Addr) -> bool {
    !address.is_loopback() && !address.is_unspecified()
}

/// Whether four dotted numbers are a version: called one, or with a local part
/// (`6.12.117.0-1`, `6.18.4.1+`). A range of addresses is not.
fn is_version(line: &str, start: usize, end: usize) -> bool {
    let after = line.get(end..).unwrap_or_default();
    let has_local_part = match after.strip_prefix('-') {
        Some(local) => {
            let range_end = local
                .split(|c: char| !c.is_ascii_digit() && c != '.')
                .next()
                .unwrap_or_default();
            local.starts_with(|c: char| c.is_alphanumeric())
                && range_end.trim_end_matches('.').parse::<Ipv4Addr>().is_err()
        }
        None => after.starts_with(|c: char| c.is_alphanumeric() || "_+~".contains(c)),
    };
    let before = line.get(..start).unwrap_or_default();
    let label = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'=:".contains(c));
    let word = last_word(label);
    let is_labelled = label.len() < before.len()
        && (word.ends_with("version")
            || word.ends_with("release")
            // A log line begins with `kernel: `, which labels nothing.
            || (before.trim_end() == label && ["linux", "kernel"].contains(&word.as_str())));
    has_local_part || is_labelled
}

fn last_word(text: &str) -> String {
    text.rsplit(|c: char| !c.is_alphabetic())
        .next()
        .unwrap_or_default()
        .to_lowercase()
}
