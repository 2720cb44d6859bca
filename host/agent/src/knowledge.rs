//! Knowledge: texts that belong to a skill, as tools. Nothing of a text is in a prompt until the model calls for it.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::content::Content;
use fumehood_core::definition::Annotations;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::GateLimits;
use fumehood_core::result::{CallError, CallResult, Metadata};
use serde_json::json;

use crate::registry::{Contract, ContractError, Invocation, Policy, Purpose, Spec, Stop, Tool};

/// Bytes of an entry that the model is shown: more than of other results, because an entry is there to be read.
const SHOWN_BYTES: usize = 32 << 10;

type Load = dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// One entry.
pub struct Knowledge {
    contract: Contract,
    load: Box<Load>,
}

impl Knowledge {
    /// An entry whose text `load` gives, each time that it is called for. An error is told to the model.
    ///
    /// # Errors
    /// If the name is not one that a tool can have.
    pub fn new(
        name: &str,
        description: &str,
        load: impl Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync + 'static,
    ) -> Result<Self, ContractError> {
        let spec = Spec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
            annotations: Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() },
            digest: None,
        };
        Ok(Self { contract: Contract::new(spec, GateLimits::default())?, load: Box::new(load) })
    }

    /// An entry whose text is in memory.
    ///
    /// # Errors
    /// As for [`Knowledge::new`].
    pub fn text(name: &str, description: &str, text: impl Into<Arc<str>>) -> Result<Self, ContractError> {
        let text = text.into();
        Self::new(name, description, move || Box::pin(std::future::ready(Ok(text.to_string()))))
    }
}

impl Tool for Knowledge {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn purpose(&self) -> Purpose {
        Purpose::Knowledge
    }

    fn policy(&self) -> Policy {
        Policy { result_bytes: Some(SHOWN_BYTES), ..Policy::default() }
    }

    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>> {
        Box::pin(async move {
            let outcome = match (self.load)().await {
                Ok(text) => Ok(vec![Content::text(text)]),
                Err(wrong) => Err(CallError::new(ErrorKind::Unavailable, wrong)),
            };
            let (id, tool) = (invocation.id.clone(), invocation.tool.clone());
            Ok(CallResult { id, tool, outcome, metadata: Metadata::default() })
        })
    }
}
