//! A provider without the tools that would let a model choose the actor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::result::CallResult;
use fumehood_core::tool::{Changes, PendingCall, ProviderKind, Stop, Tool, ToolProvider, ValidatedCall};

use super::identity::{ActorArguments, IdentityError};

/// The tools of a provider, except those with an argument that the operator forbids. Tools that are withheld stay,
/// because a model sees none of their arguments.
pub struct ActorFilter {
    provider: Arc<dyn ToolProvider>,
    forbidden: ActorArguments,
    changes: Changes,
    /// The tools that pass, with the revision of the set that they are from.
    passing: Mutex<Option<(u64, Arc<FilteredTools>)>>,
}

#[derive(Default)]
struct FilteredTools {
    tools: BTreeMap<String, Arc<Tool>>,
    left_out: Vec<IdentityError>,
}

impl fmt::Debug for ActorFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorFilter").field("forbidden", &self.forbidden).finish_non_exhaustive()
    }
}

impl ActorFilter {
    /// Creates a filter of these names of arguments.
    ///
    /// # Errors
    /// If a tool that the provider has now has such an argument. Tools that are added later are left out: see
    /// [`ActorFilter::left_out`].
    pub fn new(provider: Arc<dyn ToolProvider>, forbidden: ActorArguments) -> Result<Self, IdentityError> {
        let changes = provider.changes();
        let filter = Self { provider, forbidden, changes, passing: Mutex::default() };
        match filter.left_out().into_iter().next() {
            Some(error) => Err(error),
            None => Ok(filter),
        }
    }

    /// Like [`ActorFilter::new`], and returns the provider itself if no names are forbidden.
    ///
    /// # Errors
    /// As for [`ActorFilter::new`].
    pub fn wrap(
        provider: Arc<dyn ToolProvider>,
        forbidden: ActorArguments,
    ) -> Result<Arc<dyn ToolProvider>, IdentityError> {
        if forbidden == ActorArguments::none() {
            return Ok(provider);
        }
        Ok(Arc::new(Self::new(provider, forbidden)?))
    }

    /// Returns the reasons for tools that are left out now.
    #[must_use]
    pub fn left_out(&self) -> Vec<IdentityError> {
        self.passing().left_out.clone()
    }

    fn passing(&self) -> Arc<FilteredTools> {
        // The revision is read first: a change in between costs one more check, and never leaves an old set in place.
        let revision = self.changes.revision();
        let mut cached = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        match cached.as_ref() {
            Some((known, passing)) if *known == revision => Arc::clone(passing),
            _ => {
                let passing = Arc::new(self.check_all());
                *cached = Some((revision, Arc::clone(&passing)));
                passing
            }
        }
    }

    fn check_all(&self) -> FilteredTools {
        let mut passing = FilteredTools::default();
        for tool in self.provider.tools() {
            let checked =
                if tool.is_approved() { self.forbidden.check(tool.full_name(), tool.input_schema()) } else { Ok(()) };
            match checked {
                Ok(()) => drop(passing.tools.insert(tool.full_name().to_owned(), tool)),
                Err(error) => passing.left_out.push(error),
            }
        }
        passing
    }
}

impl ToolProvider for ActorFilter {
    fn kind(&self) -> ProviderKind {
        self.provider.kind()
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        self.passing().tools.values().cloned().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.passing().tools.get(name).cloned()
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        match self.forbidden.check_call(&call) {
            Ok(()) => self.provider.call(call, context),
            Err(error) => Box::pin(std::future::ready(Ok(PendingCall::Validated(call, context).refuse(error)))),
        }
    }

    fn changes(&self) -> Changes {
        self.changes.clone()
    }
}
