//! What to do when the system refuses a file: the last part of a message.

use std::io::{Error, ErrorKind};

/// Returns `; ` and what to do, or nothing where the cause does not tell.
#[must_use]
pub fn advice(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "; nothing is there: check the path, it is taken from this folder",
        ErrorKind::NotADirectory => "; a part of the path is a file: check the path",
        ErrorKind::IsADirectory => "; wanted a file: name one inside it",
        ErrorKind::PermissionDenied => {
            "; choose another place, or run as a user who may use this one"
        }
        ErrorKind::ReadOnlyFilesystem => "; choose a place that can be written to",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room or choose another place",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_that_a_user_can_mend_has_advice_and_others_have_none() {
        // ENOENT, EACCES, ENOTDIR, EISDIR, ENOSPC, EROFS, EDQUOT of errno(3) on Linux.
        for errno in [2, 13, 20, 21, 28, 30, 122] {
            let text = advice(&Error::from_raw_os_error(errno));
            assert!(text.starts_with("; "), "{errno}: {text}");
        }
        assert_eq!(advice(&Error::from_raw_os_error(5)), "", "EIO");
    }
}
