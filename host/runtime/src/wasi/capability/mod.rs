//! Capabilities of the embedder: their interfaces, the grants of a component, and their use by calls.
//!
//! `wit` reads the interfaces, `link` connects them to components, `convert` translates values, and `sessions` runs the
//! functions of one call. A worker process has the same, with sessions that ask the host.

mod built_in;
mod convert;
mod link;
mod sessions;
mod wit;

use std::sync::Arc;

use fumehood_core::capability::{BoundCapability, CapabilityDefinition, CapabilitySetupError, Function, Interface};
use fumehood_core::policy::permission::Grant;

use super::ComponentStore;
pub(crate) use built_in::BuiltIn;
pub(crate) use link::{check_types, link};
pub(crate) use sessions::CallSessions;

/// The capabilities of a sandbox. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Capabilities(Arc<[LinkedCapability]>);

/// A capability with its interfaces.
pub(crate) struct LinkedCapability {
    pub(crate) definition: CapabilityDefinition,
    pub(crate) interfaces: Vec<Interface>,
    /// Set for a capability of the runtime itself, which needs no grant of its own.
    pub(crate) built_in: Option<&'static BuiltIn>,
    /// The number of its first resource among those of all capabilities.
    first_resource: u32,
}

/// The place of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FunctionIndex {
    capability: usize,
    interface: usize,
    function: usize,
}

impl Capabilities {
    /// Reads the interfaces of the runtime's capabilities, and of these.
    ///
    /// # Errors
    /// If the WIT of one cannot be used, or two have one name or one interface.
    pub(crate) fn new(definitions: Vec<CapabilityDefinition>) -> Result<Self, CapabilitySetupError> {
        let built_in = built_in::ALL.iter().map(|built_in| ((built_in.define)(), Some(built_in)));
        let added = definitions.into_iter().map(|definition| (definition, None));
        let mut all: Vec<LinkedCapability> = Vec::new();
        let mut first_resource = 0;
        for (definition, built_in) in built_in.chain(added) {
            let name = definition.name();
            let read = wit::read(definition.wit()).map_err(|reason| CapabilitySetupError::new(name, reason));
            let (interfaces, resources) = read?;
            if all.iter().any(|other| other.definition.name() == name) {
                return Err(CapabilitySetupError::new(name, "another capability has the same name"));
            }
            let known: Vec<&str> = all.iter().flat_map(LinkedCapability::interface_names).collect();
            if let Some(taken) = interfaces.iter().find(|interface| known.contains(&without_version(&interface.name))) {
                let reason = format!("another capability provides `{}`", taken.name);
                return Err(CapabilitySetupError::new(name, reason));
            }
            all.push(LinkedCapability { definition, interfaces, built_in, first_resource });
            first_resource = first_resource.saturating_add(resources);
        }
        Ok(Self(all.into()))
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, LinkedCapability> {
        self.0.iter()
    }

    /// Returns the capability that provides an imported interface, whatever its version.
    pub(crate) fn provider_of(&self, import: &str) -> Option<&LinkedCapability> {
        let interface = without_version(import);
        self.0.iter().find(|linked| linked.interface_names().any(|name| name == interface))
    }

    /// Returns the place of a function that is named by a worker.
    pub(crate) fn find(&self, capability: &str, interface: &str, function: &str) -> Option<FunctionIndex> {
        let at = self.0.iter().position(|linked| linked.definition.name() == capability)?;
        let interfaces = &self.0.get(at)?.interfaces;
        let in_capability = interfaces.iter().position(|found| found.name == interface)?;
        let functions = &interfaces.get(in_capability)?.functions;
        let in_interface = functions.iter().position(|found| found.name == function)?;
        Some(FunctionIndex { capability: at, interface: in_capability, function: in_interface })
    }

    /// Returns whether a worker names a resource that the capability has.
    pub(crate) fn find_resource(&self, capability: &str, resource: &str) -> Option<usize> {
        let at = self.0.iter().position(|linked| linked.definition.name() == capability)?;
        let mut resources = self.0.get(at)?.interfaces.iter().flat_map(|interface| &interface.resources);
        resources.any(|(name, _)| name == resource).then_some(at)
    }

    fn function(&self, at: FunctionIndex) -> Option<(&LinkedCapability, &Interface, &Function)> {
        let linked = self.0.get(at.capability)?;
        let interface = linked.interfaces.get(at.interface)?;
        Some((linked, interface, interface.functions.get(at.function)?))
    }

    /// Reads the grants of a component. Without a store, as for a worker process, those of the runtime are left out.
    ///
    /// # Errors
    /// If one is of a capability that this sandbox does not have, or does not fit it.
    pub(crate) fn bind(
        &self,
        grant: &Grant,
        store: Option<&Arc<ComponentStore>>,
    ) -> Result<GrantedCapabilities, CapabilitySetupError> {
        self.check_names(grant)?;
        let bound = self.0.iter().map(|linked| linked.bind(grant, store)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.granted(bound))
    }

    /// Checks that this sandbox has the capabilities of a grant.
    pub(crate) fn check_names(&self, grant: &Grant) -> Result<(), CapabilitySetupError> {
        for granted in grant.capabilities() {
            let mut added = self.0.iter().filter(|linked| linked.built_in.is_none());
            if !added.any(|linked| linked.definition.name() == granted.name()) {
                let reason = "this host does not have it; add it with `HostBuilder::capability`";
                return Err(CapabilitySetupError::new(granted.name(), reason));
            }
        }
        Ok(())
    }

    /// Returns grants with one entry for each capability; `None` if it is not granted.
    pub(crate) fn granted(&self, bound: Vec<Option<BoundCapability>>) -> GrantedCapabilities {
        GrantedCapabilities { all: self.clone(), bound: bound.into() }
    }
}

impl LinkedCapability {
    /// Reads the grant of this capability; `None` if there is none.
    fn bind(
        &self,
        grant: &Grant,
        store: Option<&Arc<ComponentStore>>,
    ) -> Result<Option<BoundCapability>, CapabilitySetupError> {
        if let Some(built_in) = self.built_in {
            return Ok(store.map(|store| (built_in.bind)(grant, store)));
        }
        let name = self.definition.name();
        let Some(granted) = grant.capability(name) else { return Ok(None) };
        match self.definition.bind(granted) {
            Ok(bound) => Ok(Some(bound)),
            Err(reason) => Err(CapabilitySetupError::new(name, format!("its grant is invalid: {reason}"))),
        }
    }

    fn interface_names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().map(|interface| without_version(&interface.name))
    }
}

/// The capabilities that a component was granted. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct GrantedCapabilities {
    all: Capabilities,
    /// One for each capability of the sandbox; none at all while a component describes itself.
    bound: Arc<[Option<BoundCapability>]>,
}

impl GrantedCapabilities {
    /// Returns the same capabilities without any grant.
    pub(crate) fn without_grant(&self) -> Self {
        Self { all: self.all.clone(), bound: Arc::default() }
    }

    /// Returns whether nothing is granted.
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.iter().all(Option::is_none)
    }

    pub(crate) fn all(&self) -> &Capabilities {
        &self.all
    }

    /// Returns all capabilities, each with its grant.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&LinkedCapability, Option<&BoundCapability>)> {
        self.all.iter().enumerate().map(|(at, linked)| (linked, self.get(at)))
    }

    fn get(&self, capability: usize) -> Option<&BoundCapability> {
        self.bound.get(capability)?.as_ref()
    }
}

/// Reads the WIT of a capability, and returns its interfaces.
///
/// # Errors
/// If it is not WIT, or uses types that capabilities cannot have. The text says what.
pub fn capability_interfaces(wit: &str) -> Result<Vec<Interface>, String> {
    wit::read(wit).map(|(interfaces, _resources)| interfaces)
}

/// Returns the name of an interface without its version.
fn without_version(interface: &str) -> &str {
    interface.split_once('@').map_or(interface, |(name, _)| name)
}
