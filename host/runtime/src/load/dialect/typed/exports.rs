//! The exports of a component that can be tools, and the names of these tools.

use wasmtime::Engine;
use wasmtime::component::types::{self, ComponentFunc, ComponentInstance, ComponentItem};

/// Maximum number of exported functions of one component.
pub(super) const MAX_EXPORTS: usize = 1_024;

/// Packages whose interfaces a component exports for its host and not as tools, with the reason.
const HOST_PACKAGES: [(&str, &str); 3] = [
    ("wasi:http/", "it answers HTTP requests: the component is a server, and not a tool"),
    ("wasi:", "it belongs to WASI, and is called by hosts"),
    ("fumehood:", "it belongs to Fumehood's contract, and is not a typed function"),
];

/// An exported function.
pub(super) struct Export {
    /// The instance that exports it, if it is not at top level.
    pub(super) instance: Option<String>,
    /// The function's name in the instance.
    pub(super) name: String,
    /// The function's type.
    pub(super) ty: ComponentFunc,
}

/// An export of a component that is not offered as a tool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The export: `ns:pkg/interface@1.0.0#function`, `ns:pkg/interface@1.0.0` or `function`.
    pub export: String,
    /// The reason, as a clause that follows the name.
    pub why: String,
}

impl Skipped {
    /// Creates a skipped export. Both texts come from the component, so they are made printable, and truncated to 512
    /// bytes.
    pub(crate) fn new(export: &str, why: &str) -> Self {
        Self { export: to_readable(export), why: to_readable(why) }
    }
}

fn to_readable(text: &str) -> String {
    super::docs::truncate(&fumehood_core::text::sanitize::printable(text), 512)
}

impl Export {
    /// Returns its name in the component: `ns:pkg/interface@1.0.0#function` or `function`.
    pub(super) fn path(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{instance}#{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the name of its tool: `greet` at top level is `greet`; in the interface `ns:pkg/api@0.1.0` it is
    /// `api_greet`.
    ///
    /// Names in WIT have no `_`, so the two parts are unambiguous, and they differ in more than case.
    pub(super) fn tool_name(&self) -> String {
        let name = match &self.instance {
            Some(instance) => format!("{}_{}", interface_name(instance), self.name),
            None => self.name.clone(),
        };
        name.to_ascii_lowercase()
    }
}

/// The exports of a component.
#[derive(Default)]
pub(super) struct Exports {
    /// The functions that may be called.
    pub(super) functions: Vec<Export>,
    /// The exports that may not be called.
    pub(super) skipped: Vec<Skipped>,
}

/// Collects the exports of a component, and of the instances that it exports. Returns `None` if there are more than
/// [`MAX_EXPORTS`].
pub(super) fn collect(component: &types::Component, engine: &Engine) -> Option<Exports> {
    let mut found = Exports::default();
    for (name, export) in component.exports(engine) {
        match export.ty {
            ComponentItem::ComponentFunc(ty) => found.add(None, name, ty),
            ComponentItem::ComponentInstance(instance) => match reason_to_skip(name, &instance, engine) {
                Some(why) => found.skipped.push(Skipped::new(name, why)),
                None => found.add_instance(name, &instance, engine)?,
            },
            _ => {}
        }
        if found.functions.len() + found.skipped.len() > MAX_EXPORTS {
            return None;
        }
    }
    Some(found)
}

impl Exports {
    fn add(&mut self, instance: Option<&str>, name: &str, ty: ComponentFunc) {
        let export = Export { instance: instance.map(str::to_owned), name: name.to_owned(), ty };
        // Functions of a resource have names such as `[method]file.read`.
        if name.starts_with('[') {
            let why = "it belongs to a resource, which exists only during one call";
            self.skipped.push(Skipped::new(&export.path(), why));
        } else {
            self.functions.push(export);
        }
    }

    /// Collects the functions of one exported instance. Returns `None` if there is no such instance, or it has more than
    /// [`MAX_EXPORTS`] functions.
    pub(super) fn of_instance(name: &str, component: &types::Component, engine: &Engine) -> Option<Self> {
        let Some(ComponentItem::ComponentInstance(instance)) = component.get_export(engine, name).map(|item| item.ty)
        else {
            return None;
        };
        let mut found = Self::default();
        found.add_instance(name, &instance, engine)?;
        Some(found)
    }

    fn add_instance(&mut self, name: &str, instance: &ComponentInstance, engine: &Engine) -> Option<()> {
        for (function, export) in instance.exports(engine) {
            if let ComponentItem::ComponentFunc(ty) = export.ty {
                self.add(Some(name), function, ty);
            }
            if self.functions.len() + self.skipped.len() > MAX_EXPORTS {
                return None;
            }
        }
        Some(())
    }
}

/// Returns the name of an interface without package and version: `ns:pkg/api@0.1.0` → `api`, and `api` → `api`.
pub(super) fn interface_name(instance: &str) -> &str {
    let path = instance.split_once('@').map_or(instance, |(path, _)| path);
    path.rsplit(['/', ':']).next().unwrap_or(path)
}

/// Returns the reason for which no function of an instance is a tool; `None` if its functions can be.
fn reason_to_skip(name: &str, instance: &ComponentInstance, engine: &Engine) -> Option<&'static str> {
    if let Some((_, why)) = HOST_PACKAGES.iter().find(|(package, _)| name.starts_with(package)) {
        return Some(why);
    }
    is_python_setup(name, instance, engine).then_some("componentize-py calls it to initialize Python")
}

/// Returns whether an instance holds the function that componentize-py ran to take its snapshot, and left in the
/// component: `init` of an instance `exports`, recognised by a parameter that no author of a tool would choose.
fn is_python_setup(name: &str, instance: &ComponentInstance, engine: &Engine) -> bool {
    let mut exports =
        instance.exports(engine).filter(|(_, export)| matches!(export.ty, ComponentItem::ComponentFunc(_)));
    match (name, exports.next(), exports.next()) {
        ("exports", Some(("init", only)), None) => match only.ty {
            ComponentItem::ComponentFunc(ty) => ty.params().any(|(name, _)| name == "app-name"),
            _ => false,
        },
        _ => false,
    }
}
