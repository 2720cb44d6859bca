//! Resources, their definitions and their contents.

use crate::ToolError;

/// The MIME type of pages.
const PAGE_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// A resource. `#[resource]` implements it for a type with the function's name; there is no need to implement it by hand.
pub trait Resource {
    /// The URI of the resource.
    const URI: &'static str;

    /// Returns the definition of the resource.
    fn definition() -> ResourceDefinition;

    /// Runs the function.
    ///
    /// # Errors
    ///
    /// Those of the function.
    fn read() -> Result<Contents, ToolError>;
}

/// The definition of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDefinition {
    /// The URI: a scheme, a colon and a rest of visible ASCII.
    pub uri: String,
    /// The name, for programs.
    pub name: String,
    /// A short name for people.
    pub title: Option<String>,
    /// A description of what it is, and when it is worth reading.
    pub description: Option<String>,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// The settings of a page; `None` for other resources.
    pub page: Option<Page>,
}

/// The settings of a page (MCP Apps), with the origins that it asks for, such as `https://api.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The names of the tools whose results it shows.
    pub tools: Vec<String>,
    /// The origins that it sends requests to.
    pub connect_domains: Vec<String>,
    /// The origins of its images, scripts, styles, fonts and media.
    pub resource_domains: Vec<String>,
    /// The origins of the frames in it.
    pub frame_domains: Vec<String>,
    /// The origins of its base URIs.
    pub base_uri_domains: Vec<String>,
    /// True if the client should draw a border around it.
    pub prefers_border: Option<bool>,
}

impl Page {
    /// Returns the MIME type of pages, `text/html;profile=mcp-app`.
    #[must_use]
    pub fn mime_type() -> String {
        PAGE_MIME_TYPE.to_owned()
    }
}

/// The contents of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Text.
    Text(String),
    /// Binary data.
    Blob(Vec<u8>),
}

/// A value that a function with `#[resource]` can return.
pub trait IntoContents {
    /// Converts the value.
    ///
    /// # Errors
    ///
    /// If it is an error.
    fn into_contents(self) -> Result<Contents, ToolError>;
}

impl IntoContents for Contents {
    fn into_contents(self) -> Result<Contents, ToolError> {
        Ok(self)
    }
}

impl IntoContents for String {
    fn into_contents(self) -> Result<Contents, ToolError> {
        Ok(Contents::Text(self))
    }
}

impl IntoContents for &str {
    fn into_contents(self) -> Result<Contents, ToolError> {
        Ok(Contents::Text(self.to_owned()))
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self) -> Result<Contents, ToolError> {
        Ok(Contents::Blob(self))
    }
}

impl IntoContents for &[u8] {
    fn into_contents(self) -> Result<Contents, ToolError> {
        Ok(Contents::Blob(self.to_vec()))
    }
}

impl<T: IntoContents, E: Into<ToolError>> IntoContents for Result<T, E> {
    fn into_contents(self) -> Result<Contents, ToolError> {
        self.map_err(Into::into)?.into_contents()
    }
}
