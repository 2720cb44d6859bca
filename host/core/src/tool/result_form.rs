//! The form of a tool's results.

use crate::call::content::Content;

/// The relation between the texts of a tool's results and the JSON beside them.
///
/// Servers of MCP write many results twice: as content, and as `structuredContent`. The host keeps both, the JSON last.
/// Clients of MCP and the event log get both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultForm {
    /// Each part is content of its own.
    #[default]
    Parts,
    /// The texts and the JSON say the same. A model reads the texts, and the JSON where there are none.
    TextFirst,
    /// The texts and the JSON say the same. A model reads the JSON.
    StructuredFirst,
}

impl ResultForm {
    /// Returns the parts that a model reads; `None` if it reads all of them.
    #[must_use]
    pub fn for_model(self, parts: &[Content]) -> Option<Vec<Content>> {
        match self {
            Self::Parts => None,
            Self::TextFirst => without(parts, is_json, is_text),
            Self::StructuredFirst => without(parts, is_text, is_json),
        }
    }

    /// Returns the parts that a program gets: the JSON without the texts that repeat it; `None` if it gets all of them.
    #[must_use]
    pub fn for_program(self, parts: &[Content]) -> Option<Vec<Content>> {
        match self {
            Self::Parts => None,
            Self::TextFirst | Self::StructuredFirst => without(parts, is_text, is_json),
        }
    }

    /// Returns whether JSON beside these parts is `structuredContent`, which repeats them.
    #[must_use]
    pub fn repeats(self, parts: &[Content]) -> bool {
        self != Self::Parts && parts.iter().any(is_text)
    }
}

fn is_text(part: &Content) -> bool {
    matches!(part, Content::Text { .. })
}

fn is_json(part: &Content) -> bool {
    matches!(part, Content::Json { .. })
}

/// Returns the parts without some of them, if there are both those and what they repeat.
fn without(parts: &[Content], left_out: fn(&Content) -> bool, repeated: fn(&Content) -> bool) -> Option<Vec<Content>> {
    let is_repeated = parts.iter().any(left_out) && parts.iter().any(repeated);
    is_repeated.then(|| parts.iter().filter(|part| !left_out(part)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_is_left_out_where_there_are_both() {
        fn some(text: &str) -> Option<String> {
            Some(text.to_owned())
        }

        fn kinds(parts: Option<Vec<Content>>) -> Option<String> {
            parts.map(|parts| parts.iter().map(|part| part.mime().into_owned()).collect::<Vec<_>>().join(" "))
        }

        fn image() -> Content {
            Content::Blob { mime_type: "image/png".into(), data: vec![0] }
        }

        fn json() -> Content {
            Content::json("{}".to_owned()).unwrap()
        }

        fn text() -> Content {
            Content::text("sunny")
        }

        let both = [text(), image(), json()];
        let shown = |form: ResultForm| [kinds(form.for_model(&both)), kinds(form.for_program(&both))];
        assert_eq!(shown(ResultForm::Parts), [None, None]);
        assert_eq!(shown(ResultForm::TextFirst), [some("text/plain image/png"), some("image/png application/json")]);
        assert_eq!(
            shown(ResultForm::StructuredFirst),
            [some("image/png application/json"), some("image/png application/json")]
        );
        for one in [[text(), image()], [image(), json()]] {
            assert_eq!(kinds(ResultForm::TextFirst.for_model(&one)), None);
            assert_eq!(kinds(ResultForm::StructuredFirst.for_program(&one)), None);
        }
    }
}
