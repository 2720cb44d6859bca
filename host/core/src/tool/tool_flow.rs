//! The flows of data of a tool, as they follow from its powers or its claim.

/// The flows of a tool without labels: the reasons for which it counts as a private source or a public sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolFlow {
    /// The reason for which it returns private data, such as `it reads granted folders`.
    pub source: Option<&'static str>,
    /// The reason for which its arguments may become public, such as `it sends HTTP requests`.
    pub sink: Option<&'static str>,
}

impl ToolFlow {
    /// A tool that neither returns private data nor sends any.
    pub const NONE: Self = Self { source: None, sink: None };

    /// A tool of a server that nobody approved, whose claims do not count.
    pub const UNAPPROVED: Self =
        Self { source: None, sink: Some("its server needs no approval, so its annotations do not count") };

    /// Returns the flows of a tool of which only its own claim is known. Without one, it reaches an open world, which is
    /// the default of the MCP specification. One that says that it stays in a closed world works with what is kept there.
    #[must_use]
    pub fn from_claim(open_world: Option<bool>) -> Self {
        match open_world {
            Some(false) => Self { source: Some("it declares a closed world"), sink: None },
            Some(true) => Self { source: None, sink: Some("it declares an open world") },
            None => Self { source: None, sink: Some("it does not declare a closed world") },
        }
    }

    /// Like [`ToolFlow::from_claim`]. A function of the host is no source by default: its author knows what it returns, and labels it.
    pub(super) fn of_claim(open_world: Option<bool>, is_host_function: bool) -> Self {
        let claim = Self::from_claim(open_world);
        Self { source: claim.source.filter(|_| !is_host_function), ..claim }
    }

    /// Adds the tool's own claim, which can only add a sink.
    pub(super) fn with_claim(self, open_world: Option<bool>) -> Self {
        let claimed = Self::from_claim(open_world).sink.filter(|_| open_world == Some(true));
        Self { sink: self.sink.or(claimed), ..self }
    }
}
