//! Replaces the values of a kernel command line whose keys say that they are private.

use super::Kind;
use super::token::uuids;

/// Keys whose value names a disk, a network or a host: kernel-parameters.txt, nfsroot.txt,
/// dracut.cmdline(7) and systemd(1).
const KEYS: [(&str, Kind); 20] = [
    ("BOOTIF", Kind::Mac),
    ("cryptdevice", Kind::Id),
    ("cryptkey", Kind::Id),
    ("hostname", Kind::Host),
    ("ifname", Kind::Mac),
    ("ip", Kind::Ip),
    ("nameserver", Kind::Ip),
    ("netconsole", Kind::Ip),
    ("netroot", Kind::Id),
    ("nfsaddrs", Kind::Ip),
    ("nfsroot", Kind::Id),
    ("rd.lvm.lv", Kind::Id),
    ("rd.lvm.vg", Kind::Id),
    ("resume", Kind::Id),
    ("root", Kind::Id),
    ("systemd.hostname", Kind::Host),
    ("systemd.machine_id", Kind::Id),
    ("systemd.set_credential", Kind::Id),
    ("systemd.set_credential_binary", Kind::Id),
    ("zfs", Kind::Id),
];
/// Families of keys that name disks.
const PREFIXES: [&str; 4] = ["rd.luks.", "luks.", "rd.md.", "rd.iscsi."];

/// The command line, words separated by one space, with such values replaced.
///
/// What follows `--` goes to init, sets nothing in the kernel and may be a secret: it is dropped.
pub(super) fn redact_values(text: &str) -> String {
    words(text)
        .into_iter()
        .take_while(|word| *word != "--")
        .map(redact_word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Splits at white space outside double quotes, as the kernel does.
fn words(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    })
    .filter(|word| !word.is_empty())
    .collect()
}

fn redact_word(word: &str) -> String {
    let Some((key, value)) = word.split_once('=') else {
        return word.to_owned();
    };
    let name = key.trim_start_matches('"');
    let kept = if name == "BOOT_IMAGE" {
        let file = value.trim_matches('"').rsplit(['/', ')']).next();
        let file = file.unwrap_or_default();
        file.split(|c: char| c.is_whitespace() || c == '"')
            .next()
            .unwrap_or_default()
    } else {
        let named = KEYS
            .iter()
            .find_map(|(private, kind)| (*private == name).then_some(*kind));
        let is_of_a_disk =
            PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || !uuids(value).is_empty();
        match named.or(is_of_a_disk.then_some(Kind::Id)) {
            Some(kind) => kind.placeholder(),
            None => return word.to_owned(),
        }
    };
    // An odd quote lost would move the borders of the words after this one.
    let quote = if value.matches('"').count() % 2 == 1 {
        "\""
    } else {
        ""
    };
    format!("{key}={kept}{quote}")
}
