//! The templates: built in, strict, without arithmetic or formatting.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use thiserror::Error;

use super::markdown::markdown;

/// Number of the template format; raised whenever the same figures give other text.
pub const TEMPLATE_FORMAT: u32 = 1;

const REPORT: &str = include_str!("../../templates/report.txt.j2");
const README: &str = include_str!("../../templates/readme.md.j2");
const REPRODUCER: &str = include_str!("../../templates/reproducer.md.j2");
const NEW_CASE: &str = include_str!("../../templates/case.toml.j2");

/// Why a template was not rendered.
#[derive(Debug, Error)]
#[error("template {name}: {message}")]
pub struct TemplateError {
    /// The template.
    pub name: String,
    /// What the engine says.
    pub message: String,
}

/// Which template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// Body of the mail.
    Report,
    /// README of a bundle.
    Readme,
    /// README of the reproducer folder.
    Reproducer,
    /// A new `case.toml`.
    NewCase,
}

impl Template {
    const fn name(self) -> &'static str {
        match self {
            Self::Report => "report.txt.j2",
            Self::Readme => "readme.md.j2",
            Self::Reproducer => "reproducer.md.j2",
            Self::NewCase => "case.toml.j2",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Report => REPORT,
            Self::Readme => README,
            Self::Reproducer => REPRODUCER,
            Self::NewCase => NEW_CASE,
        }
    }
}

/// Renders a template; an undefined variable is an error.
///
/// # Errors
///
/// When the template names what the context does not have.
pub fn render(template: Template, context: &impl Serialize) -> Result<String, TemplateError> {
    let error = |error: minijinja::Error| TemplateError {
        name: template.name().to_owned(),
        message: format!("{error:#}"),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .map_err(error)?;
    environment.set_syntax(syntax);
    // The one filter: what a text of others needs in Markdown. The mail is plain text.
    environment.add_filter("markdown", |text: String| markdown(&text));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment
        .render_named_str(template.name(), template.source(), Serde(context))
        .map_err(error)
}
