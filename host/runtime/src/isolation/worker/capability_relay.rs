//! Relays the uses of capabilities from a guest to the host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::capability::{
    BoundCapability, Capability, CapabilityCall, CapabilityDefinition, CapabilityError, CapabilitySession, Value,
};
use fumehood_core::policy::permission::Grant;
use tokio::sync::oneshot;

use super::channel::Channel;
use crate::isolation::message::{CapabilitySetup, FromWorker, UseAnswer};
use crate::isolation::values::Values;
use crate::wasi::{ComponentStore, GrantedCapabilities};

/// The capabilities of the host. Clones share it.
#[derive(Clone)]
pub(super) struct CapabilityRelay(Arc<Uses>);

struct Uses {
    channel: Channel,
    number: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<UseAnswer>>>,
}

impl CapabilityRelay {
    pub(super) fn new(channel: Channel) -> Self {
        Self(Arc::new(Uses { channel, number: AtomicU64::new(0), waiting: Mutex::default() }))
    }

    /// Delivers the host's answer to a use.
    pub(super) fn deliver_answer(&self, step: u64, answer: UseAnswer) {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&step);
        if let Some(waiting) = waiting {
            let _nobody_waits = waiting.send(answer);
        }
    }

    /// Returns the capabilities for one call. The host decides about every use, except of those of the runtime, which
    /// `own` has, and which use the store of the call.
    pub(super) fn grant(
        &self,
        own: &GrantedCapabilities,
        grant: &Grant,
        store: Option<&Arc<ComponentStore>>,
        call: u64,
    ) -> GrantedCapabilities {
        let bound = own.iter().map(|(linked, bound)| match (linked.built_in, store) {
            (Some(_), None) => bound.cloned(),
            (Some(built_in), Some(store)) => Some((built_in.bind)(grant, store)),
            (None, _) => Some(self.bind(linked.definition.name(), call)),
        });
        own.all().granted(bound.collect())
    }

    fn bind(&self, capability: &str, call: u64) -> BoundCapability {
        let relay = self.clone();
        let capability: Arc<str> = Arc::from(capability);
        BoundCapability::new(move || {
            Box::new(RelaySession { relay: relay.clone(), call, capability: Arc::clone(&capability) })
        })
    }
}

/// The interfaces of a capability of the host.
struct RelayedCapability(CapabilitySetup);

/// Creates the definitions with which a worker links the interfaces of the host's capabilities.
pub(super) fn define(capabilities: &[CapabilitySetup]) -> Vec<CapabilityDefinition> {
    capabilities.iter().map(|setup| CapabilityDefinition::new(RelayedCapability(setup.clone()))).collect()
}

impl Capability for RelayedCapability {
    type Grant = ();

    fn name(&self) -> &str {
        &self.0.name
    }

    fn description(&self) -> &str {
        &self.0.description
    }

    fn wit(&self) -> &str {
        &self.0.wit
    }

    /// Only [`CapabilityRelay::grant`] opens sessions, because they belong to a call.
    fn open(&self, _grant: Arc<()>) -> Box<dyn CapabilitySession> {
        Box::new(NoSession)
    }
}

struct NoSession;

impl CapabilitySession for NoSession {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        let error = CapabilityError::unknown_function(&call);
        Box::pin(std::future::ready(Err(error)))
    }
}

/// A capability that one call uses, which the host runs.
struct RelaySession {
    relay: CapabilityRelay,
    call: u64,
    capability: Arc<str>,
}

/// Forgets a use whose call has ended.
struct Waiting<'u> {
    uses: &'u Uses,
    step: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.uses.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.step);
    }
}

impl CapabilitySession for RelaySession {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        Box::pin(async move {
            let uses = &*self.relay.0;
            let arguments = Values::new(call.arguments).map_err(|error| CapabilityError::Quota(error.to_string()))?;
            let step = uses.number.fetch_add(1, Ordering::Relaxed);
            let (sender, answer) = oneshot::channel();
            uses.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(step, sender);
            let _waiting = Waiting { uses, step };
            let message = FromWorker::Use {
                call: self.call,
                step,
                capability: self.capability.to_string(),
                interface: call.interface.to_owned(),
                function: call.function.to_owned(),
                arguments,
            };
            uses.channel.send(&message, &[]);
            let gone = |_| CapabilityError::Unavailable("the host does not answer".to_owned());
            let values = answer.await.map_err(gone)??.into_list();
            let malformed = || CapabilityError::Failed("the host sent a malformed value".to_owned());
            Ok(values.ok_or_else(malformed)?.pop())
        })
    }

    fn drop_resource(&mut self, resource: &str, handle: u32) {
        let message = FromWorker::DropHandle {
            call: self.call,
            capability: self.capability.to_string(),
            resource: resource.to_owned(),
            handle,
        };
        self.relay.0.channel.send(&message, &[]);
    }
}
