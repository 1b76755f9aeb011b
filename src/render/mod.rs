//! The model becomes text: numbers, tables, TSV, report, mail, README. Pure.

pub mod analysis;
pub mod catalogue;
pub mod context;
pub mod facts;
pub mod mail;
pub mod mail_kind;
pub mod markdown;
pub mod number;
pub mod sentence;
pub mod table;
pub mod template;
pub mod trace;
pub mod tsv;
pub mod wrap;
