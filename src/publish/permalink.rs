//! The address under which a forge shows one folder of one commit for good.
//!
//! Inputs: the remote's URL as git has it, a full commit id and a path. Output: a link
//! for readers. It asks no server whether the link works, and never copies a user name, password
//! or query of the URL into it.

use crate::bundle::name::{profile_fault, shown};

/// A kind of web front end, which decides the shape of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forge {
    /// github.com and GitHub Enterprise.
    GitHub,
    /// gitlab.com and other GitLab servers.
    GitLab,
    /// Codeberg and other Forgejo or Gitea servers.
    Forgejo,
    /// git.kernel.org and other cgit servers.
    Cgit,
    /// git.sr.ht and other sourcehut servers.
    Sourcehut,
}

impl Forge {
    /// Every kind, in the order of the words in messages.
    pub const ALL: [Self; 5] = [
        Self::GitHub,
        Self::GitLab,
        Self::Forgejo,
        Self::Cgit,
        Self::Sourcehut,
    ];

    /// The word for it in options and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Forgejo => "forgejo",
            Self::Cgit => "cgit",
            Self::Sourcehut => "sourcehut",
        }
    }

    /// Reads the word; `None` when it is another one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|forge| forge.word() == word)
    }

    /// The kind of a host that is known, or that says it in its name.
    fn of_host(host: &str) -> Option<Self> {
        match host {
            "github.com" => Some(Self::GitHub),
            "gitlab.com" => Some(Self::GitLab),
            "codeberg.org" => Some(Self::Forgejo),
            "git.kernel.org" => Some(Self::Cgit),
            "git.sr.ht" => Some(Self::Sourcehut),
            other if other.starts_with("gitlab.") => Some(Self::GitLab),
            other if other.starts_with("forgejo.") => Some(Self::Forgejo),
            _ => None,
        }
    }
}

/// Why there is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermalinkError {
    /// A path on this machine, or a scheme without a host.
    #[error(
        "the remote is no address that others can reach: add a remote on a forge, wanted https://HOST/PATH, ssh://HOST/PATH or HOST:PATH"
    )]
    Local,
    /// A URL with a part that cannot go into a link.
    #[error("the remote's {part} cannot be part of a link: set it again with `git remote set-url`")]
    Malformed {
        /// Which part; the URL itself may hold a password and is not shown.
        part: &'static str,
    },
    /// A host whose kind is not known.
    #[error(
        "host {host} is not known: name its kind in case.toml, `publish.forge`: github, gitlab, forgejo, cgit or sourcehut"
    )]
    UnknownHost {
        /// The host.
        host: String,
    },
    /// Anything but a full commit id.
    #[error(
        "`{commit}` is not a full commit id, wanted 40 lower-case hex digits: a shorter name can move"
    )]
    Commit {
        /// What was given, escaped.
        commit: String,
    },
    /// A path outside of the grammar.
    #[error("path `{path}` {why}: publish under another name")]
    Path {
        /// The path, escaped.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Makes the permanent link of `path` in `commit`; `forge` overrides what the host says.
///
/// # Errors
///
/// When the remote is local or malformed, its kind is not known, or commit or path are not
/// full and plain.
pub fn permanent_link(
    remote_url: &str,
    forge: Option<Forge>,
    commit: &str,
    path: &str,
) -> Result<String, PermalinkError> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if commit.len() != 40 || !commit.bytes().all(is_hex) {
        return Err(PermalinkError::Commit {
            commit: shown(commit),
        });
    }
    if let Some(fault) = profile_fault(path) {
        return Err(PermalinkError::Path {
            path: shown(path),
            why: fault.why,
        });
    }
    let remote = Remote::parse(remote_url)?;
    let name = remote.host_name();
    let forge =
        forge
            .or_else(|| Forge::of_host(name))
            .ok_or_else(|| PermalinkError::UnknownHost {
                host: name.to_owned(),
            })?;
    let base = remote.base(forge);
    Ok(match forge {
        Forge::GitHub => format!("{base}/tree/{commit}/{path}"),
        Forge::GitLab => format!("{base}/-/tree/{commit}/{path}"),
        Forge::Forgejo => format!("{base}/src/commit/{commit}/{path}"),
        Forge::Cgit => format!("{base}/tree/{path}?id={commit}"),
        Forge::Sourcehut => format!("{base}/tree/{commit}/item/{path}"),
    })
}

/// The parts of a remote that readers can use.
struct Remote {
    scheme: &'static str,
    /// Host, with the port when it is a web server's.
    host: String,
    /// Path without outer slashes.
    path: String,
}

impl Remote {
    fn parse(url: &str) -> Result<Self, PermalinkError> {
        let (scheme, keeps_port, rest) = match url.split_once("://") {
            Some(("https", rest)) => ("https", true, rest),
            Some(("http", rest)) => ("http", true, rest),
            // A port of these is not the web server's.
            Some(("ssh" | "git+ssh" | "ssh+git" | "git", rest)) => ("https", false, rest),
            Some(_) => return Err(PermalinkError::Local),
            None => return Self::parse_scp(url),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let host = if keeps_port { host } else { without_port(host) };
        Self::new(scheme, host, path)
    }

    /// `[user@]host:path`, where no slash comes before the colon, as in git-fetch(1).
    fn parse_scp(url: &str) -> Result<Self, PermalinkError> {
        match url.split_once(':') {
            Some((authority, path)) if !authority.contains('/') && authority.len() > 1 => {
                let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                Self::new("https", host, path)
            }
            _ => Err(PermalinkError::Local),
        }
    }

    fn new(scheme: &'static str, host: &str, path: &str) -> Result<Self, PermalinkError> {
        let host = host.to_ascii_lowercase();
        if host.is_empty() {
            return Err(PermalinkError::Local);
        }
        let (name, port) = host.rsplit_once(':').unwrap_or((host.as_str(), "0"));
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if name.is_empty()
            || !name.bytes().all(in_name)
            || port.is_empty()
            || !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(PermalinkError::Malformed { part: "host" });
        }
        let path = path.trim_matches('/');
        let in_path = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'+' | b'-' | b'~')
        };
        let plain = |component: &str| {
            !matches!(component, "" | "." | "..") && component.bytes().all(in_path)
        };
        if !path.split('/').all(plain) {
            return Err(PermalinkError::Malformed { part: "path" });
        }
        // Hosts that only take pushes, and the host that shows what was pushed.
        let host = match host.as_str() {
            "ssh.github.com" | "www.github.com" => "github.com",
            "altssh.gitlab.com" => "gitlab.com",
            "gitolite.kernel.org" => "git.kernel.org",
            other => other,
        };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }

    fn host_name(&self) -> &str {
        without_port(&self.host)
    }

    /// The repository's own page.
    fn base(&self, forge: Forge) -> String {
        let bare = self.path.strip_suffix(".git").unwrap_or(&self.path);
        let path = match forge {
            // There `.git` is part of the repository's name, and its page is not found without.
            Forge::Cgit if self.host_name() == "git.kernel.org" => format!("{bare}.git"),
            Forge::Cgit => self.path.clone(),
            _ => bare.to_owned(),
        };
        format!("{}://{}/{path}", self.scheme, self.host)
    }
}

fn without_port(host: &str) -> &str {
    host.split_once(':').map_or(host, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn link(url: &str, forge: Option<Forge>) -> String {
        permanent_link(url, forge, ID, "case/data").unwrap()
    }

    #[test]
    fn every_kind_of_forge_has_its_own_shape() {
        for (url, wanted) in [
            (
                "https://github.com/o/r.git",
                format!("https://github.com/o/r/tree/{ID}/case/data"),
            ),
            (
                "https://gitlab.com/g/s/r",
                format!("https://gitlab.com/g/s/r/-/tree/{ID}/case/data"),
            ),
            (
                "https://gitlab.freedesktop.org/o/r.git/",
                format!("https://gitlab.freedesktop.org/o/r/-/tree/{ID}/case/data"),
            ),
            (
                "https://codeberg.org/o/r.git",
                format!("https://codeberg.org/o/r/src/commit/{ID}/case/data"),
            ),
            (
                "https://git.sr.ht/~u/r",
                format!("https://git.sr.ht/~u/r/tree/{ID}/item/case/data"),
            ),
            (
                "https://git.kernel.org/pub/scm/linux/kernel/git/u/r.git",
                format!(
                    "https://git.kernel.org/pub/scm/linux/kernel/git/u/r.git/tree/case/data?id={ID}"
                ),
            ),
        ] {
            assert_eq!(link(url, None), wanted);
        }
    }

    #[test]
    fn every_spelling_of_one_remote_gives_the_same_link() {
        let wanted = link("https://github.com/o/r", None);
        for url in [
            "https://github.com/o/r.git",
            "https://github.com/o/r/",
            "https://GitHub.com/o/r.git/",
            "https://www.github.com/o/r",
            "ssh://git@github.com/o/r.git",
            "ssh://git@ssh.github.com:443/o/r.git",
            "git+ssh://git@github.com/o/r",
            "git://github.com/o/r.git",
            "git@github.com:o/r.git",
            "git@github.com:/o/r.git",
            "github.com:o/r",
            "https://user:secret@github.com/o/r.git",
            "https://ghp_secret@github.com/o/r.git",
            "https://user:p@ss@github.com/o/r.git",
        ] {
            assert_eq!(link(url, None), wanted, "{url}");
        }
        let kernel = link("https://git.kernel.org/pub/scm/u/r.git", None);
        assert_eq!(
            link("git@gitolite.kernel.org:/pub/scm/u/r.git", None),
            kernel
        );
        assert_eq!(link("git://git.kernel.org/pub/scm/u/r", None), kernel);
    }

    #[test]
    fn an_unknown_host_needs_its_kind_named() {
        let url = "ssh://git@git.example.org:2222/o/r.git";
        let error = permanent_link(url, None, ID, "case").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("git.example.org") && text.contains("publish.forge"),
            "{text}"
        );
        for forge in Forge::ALL {
            assert!(text.contains(forge.word()));
            assert_eq!(Forge::from_word(forge.word()), Some(forge));
            assert!(link(url, Some(forge)).starts_with("https://git.example.org/o/r"));
        }
        assert_eq!(Forge::from_word("svn"), None);
        // Elsewhere the name in cgit is the remote's own; a web server's port stays.
        assert_eq!(
            link("https://git.example.org:8443/r.git", Some(Forge::Cgit)),
            format!("https://git.example.org:8443/r.git/tree/case/data?id={ID}")
        );
    }

    #[test]
    fn a_remote_that_nobody_else_can_reach_has_no_link() {
        for url in [
            "/srv/r.git",
            "../r.git",
            "file:///srv/r",
            "",
            "./a:b",
            "https:///x",
            "C:/r",
        ] {
            assert_eq!(
                permanent_link(url, Some(Forge::GitHub), ID, "case"),
                Err(PermalinkError::Local),
                "{url}"
            );
        }
    }

    #[test]
    fn nothing_but_host_and_path_reaches_the_link_or_a_message() {
        for url in [
            "https://u:secret@github.com/o/r?token=secret",
            "https://u:secret@github.com/o/r#secret",
            "https://u:secret@github.com/../r",
            "https://u:secret@git hub.com/o/r",
            "https://u:secret@github.com:port/o/r",
            "https://u:secret@github.com/o/<r>",
            "https://u:secret@github.com/",
        ] {
            let error = permanent_link(url, None, ID, "case").unwrap_err();
            assert!(matches!(error, PermalinkError::Malformed { .. }), "{url}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn only_a_full_id_and_a_plain_path_make_a_permanent_link() {
        let url = "https://github.com/o/r";
        for commit in ["main", "0123456", &ID.to_uppercase(), &format!("{ID}0")] {
            let error = permanent_link(url, None, commit, "case").unwrap_err();
            assert!(matches!(error, PermalinkError::Commit { .. }), "{commit}");
        }
        for path in ["", "../x", "a b", "/case", "a?b"] {
            let error = permanent_link(url, None, ID, path).unwrap_err();
            assert!(matches!(error, PermalinkError::Path { .. }), "{path}");
        }
    }
}
