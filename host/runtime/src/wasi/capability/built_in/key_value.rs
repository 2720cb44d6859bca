//! `wasi:keyvalue`: the private store of the component, as one bucket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::capability::{
    BoundCapability, Capability, CapabilityCall, CapabilityContext, CapabilityDefinition, CapabilityError,
    CapabilitySession, HandleTable, Value,
};
use fumehood_core::key_value::{Key, MAX_PAGE_KEYS};
use fumehood_core::policy::permission::{Grant, KeyValueQuota, KeyValueUse, Power};
use fumehood_core::tool::ToolFlow;

use super::BuiltIn;
use crate::engine::deadline::Deadline;
use crate::wasi::{ComponentStore, GrantedStore, UseError};

pub(super) const BUILT_IN: BuiltIn =
    BuiltIn { power: Power::KeyValue, define: || CapabilityDefinition::new(KeyValue), bind };

/// The names of the only bucket.
const BUCKETS: [&str; 2] = ["default", ""];
/// The version of the store in which positions in lists of keys are numbers. In later ones they are keys.
const NUMBERED_STORE: &str = "wasi:keyvalue/store@0.2.0-draft";
/// Maximum number of handles for comparison of one call. Each has a value.
const MAX_CAS_HANDLES: usize = 16;
/// Maximum number of positions in lists of keys that are remembered.
const MAX_CURSORS: usize = 16;

/// The interfaces. Only [`bind`] opens sessions, because they belong to the store of a component.
struct KeyValue;

impl Capability for KeyValue {
    type Grant = ();

    fn name(&self) -> &str {
        "wasi-keyvalue"
    }

    fn description(&self) -> &str {
        "keep keys and values between its calls, in a private store"
    }

    fn wit(&self) -> &str {
        include_str!("keyvalue.wit")
    }

    fn flow(&self, _none: &()) -> ToolFlow {
        ToolFlow::NONE
    }

    fn open(&self, _none: Arc<()>) -> Box<dyn CapabilitySession> {
        Box::new(Session::new(None, None))
    }
}

fn bind(grant: &Grant, store: &Arc<ComponentStore>) -> BoundCapability {
    let quota = grant.key_value();
    let store = Arc::clone(store);
    BoundCapability::new(move || Box::new(Session::new(quota, Some(Arc::clone(&store)))))
}

struct Session {
    quota: Option<KeyValueQuota>,
    store: Option<Arc<ComponentStore>>,
    buckets: HandleTable<()>,
    cas: HandleTable<Cas>,
    /// The numbers of the positions that were given out last, with the last key before each.
    cursors: VecDeque<(u64, Key)>,
    next_cursor: u64,
}

/// A key, and the value that it must still have when it is set.
struct Cas {
    key: String,
    current: Option<Vec<u8>>,
}

/// What a function returns to the tool.
type Answer = Result<Option<Value>, Value>;

impl From<UseError> for Value {
    fn from(error: UseError) -> Self {
        other(error.to_string())
    }
}

impl CapabilitySession for Session {
    fn call<'a>(&'a mut self, call: CapabilityCall<'a>) -> BoxFuture<'a, Result<Option<Value>, CapabilityError>> {
        Box::pin(async move {
            let answer = match (call.function, call.arguments.as_slice()) {
                ("open", [Value::String(name)]) => self.open(call.context, name)?,
                ("[method]cas.current", [Value::Handle(cas)]) => {
                    Ok(Some(self.cas.get_mut(*cas)?.current.clone().map(Value::Bytes).into()))
                }
                ("swap", [Value::Handle(cas), Value::Bytes(value)]) => {
                    let cas = self.cas.remove(*cas)?;
                    self.swap(call.context, cas, value).await?
                }
                (_, [Value::Handle(bucket), arguments @ ..]) => {
                    self.buckets.get_mut(*bucket)?;
                    self.use_bucket(&call, arguments).await?
                }
                _ => return Err(CapabilityError::unknown_function(&call)),
            };
            let answer = answer.map(|value| value.map(Box::new)).map_err(|error| Some(Box::new(error)));
            Ok(Some(Value::Result(answer)))
        })
    }

    fn drop_resource(&mut self, resource: &str, handle: u32) {
        // The runtime has checked that the tool owned it.
        if resource == "cas" {
            let _cas = self.cas.remove(handle);
        } else {
            let _bucket = self.buckets.remove(handle);
        }
    }
}

impl Session {
    fn new(quota: Option<KeyValueQuota>, store: Option<Arc<ComponentStore>>) -> Self {
        let buckets = HandleTable::new();
        let cas = HandleTable::new();
        Self { quota, store, buckets, cas, cursors: VecDeque::new(), next_cursor: 1 }
    }

    /// Runs a function on the bucket.
    async fn use_bucket(&mut self, call: &CapabilityCall<'_>, arguments: &[Value]) -> Result<Answer, CapabilityError> {
        let context = call.context;
        Ok(match (call.function, arguments) {
            ("[method]bucket.list-keys", [Value::Option(cursor)]) => {
                self.list_keys(context, cursor.as_deref(), call.interface).await
            }
            ("[method]bucket.get", [Value::String(key)]) => {
                self.get(context, key).await.map(|value| Some(value.map(Value::Bytes).into()))
            }
            ("[method]bucket.exists", [Value::String(key)]) => {
                self.get(context, key).await.map(|value| Some(value.is_some().into()))
            }
            ("[method]bucket.set", [Value::String(key), Value::Bytes(value)]) => {
                self.set(context, key, value).await.map(|()| None)
            }
            ("[method]bucket.delete", [Value::String(key)]) => self.delete(context, key).await.map(|()| None),
            ("get-many", [Value::List(keys)]) => self.get_many(context, keys).await,
            ("set-many", [Value::List(pairs)]) => self.set_many(context, pairs).await,
            ("delete-many", [Value::List(keys)]) => self.delete_many(context, keys).await,
            ("increment", [Value::String(key), delta]) => self.increment(context, key, delta).await,
            ("[static]cas.new", [Value::String(key)]) => self.new_cas(context, key).await?,
            _ => return Err(CapabilityError::unknown_function(call)),
        })
    }

    fn open(&mut self, context: &CapabilityContext, name: &str) -> Result<Answer, CapabilityError> {
        if let Err(denied) = self.granted(context, &KeyValueUse::List("")) {
            return Ok(Err(denied));
        }
        if !BUCKETS.contains(&name) {
            return Ok(Err(Value::Variant("no-such-store".to_owned(), None)));
        }
        Ok(Ok(Some(Value::Handle(self.buckets.insert(())?))))
    }

    /// Returns the store, or the error that the tool gets. Must precede every other check.
    fn granted(&self, context: &CapabilityContext, wants: &KeyValueUse<'_>) -> Result<GrantedStore<'_>, Value> {
        let deadline = Deadline::after(Instant::now(), (context.time_left)());
        self.store.as_ref().and_then(|store| store.granted(self.quota, deadline)).ok_or_else(|| {
            (context.refusals)(KeyValueQuota::refusal(wants));
            Value::Variant("access-denied".to_owned(), None)
        })
    }

    async fn get(&self, context: &CapabilityContext, key: &str) -> Result<Option<Vec<u8>>, Value> {
        Ok(self.granted(context, &KeyValueUse::Get(key))?.get(key).await?)
    }

    async fn set(&self, context: &CapabilityContext, key: &str, value: &[u8]) -> Result<(), Value> {
        Ok(self.granted(context, &KeyValueUse::Set(key))?.set(key, value.to_vec()).await?)
    }

    async fn delete(&self, context: &CapabilityContext, key: &str) -> Result<(), Value> {
        let _existed = self.granted(context, &KeyValueUse::Delete(key))?.delete(key).await?;
        Ok(())
    }

    async fn list_keys(&mut self, context: &CapabilityContext, cursor: Option<&Value>, interface: &str) -> Answer {
        let granted = self.granted(context, &KeyValueUse::List(""))?;
        let after = match cursor {
            None => None,
            Some(Value::U64(number)) => {
                let found = self.cursors.iter().find(|(known, _)| known == number);
                Some(found.map(|(_, key)| key.as_str()).ok_or_else(|| other("unknown cursor".to_owned()))?)
            }
            Some(Value::String(key)) => Some(key.as_str()),
            Some(_) => return Err(other("unknown cursor".to_owned())),
        };
        let page = granted.list("", after, MAX_PAGE_KEYS).await?;
        let last = page.keys.last().filter(|_| page.more).cloned();
        let keys = page.keys.into_iter().map(|key| Value::from(String::from(key))).collect();
        let cursor = if interface == NUMBERED_STORE {
            last.map(|key| self.remember(key)).into()
        } else {
            last.map(String::from).into()
        };
        Ok(Some(Value::record([("keys", keys), ("cursor", cursor)])))
    }

    /// Returns the number of a position in the list of keys. The oldest ones are forgotten.
    fn remember(&mut self, key: Key) -> u64 {
        let number = self.next_cursor;
        self.next_cursor = number.saturating_add(1);
        self.cursors.push_back((number, key));
        if self.cursors.len() > MAX_CURSORS {
            self.cursors.pop_front();
        }
        number
    }

    async fn get_many(&self, context: &CapabilityContext, keys: &[Value]) -> Answer {
        let mut pairs = Vec::with_capacity(keys.len());
        for key in keys.iter().filter_map(Value::as_str) {
            let value = self.get(context, key).await?;
            pairs.push(Value::from(value.map(|value| Value::Tuple(vec![key.into(), Value::Bytes(value)]))));
        }
        Ok(Some(Value::List(pairs)))
    }

    async fn set_many(&self, context: &CapabilityContext, pairs: &[Value]) -> Answer {
        for pair in pairs {
            if let Value::Tuple(parts) = pair
                && let [Value::String(key), Value::Bytes(value)] = parts.as_slice()
            {
                self.set(context, key, value).await?;
            }
        }
        Ok(None)
    }

    async fn delete_many(&self, context: &CapabilityContext, keys: &[Value]) -> Answer {
        for key in keys.iter().filter_map(Value::as_str) {
            self.delete(context, key).await?;
        }
        Ok(None)
    }

    async fn compare_and_set(
        &self,
        context: &CapabilityContext,
        key: &str,
        expected: Option<Vec<u8>>,
        value: &[u8],
    ) -> Result<bool, Value> {
        let granted = self.granted(context, &KeyValueUse::Set(key))?;
        Ok(granted.compare_and_set(key, expected, value.to_vec()).await?)
    }

    /// Adds to a number, which is kept as decimal text. Tries again while others are faster, until the call ends.
    async fn increment(&self, context: &CapabilityContext, key: &str, delta: &Value) -> Answer {
        self.granted(context, &KeyValueUse::Set(key))?;
        loop {
            let found = self.get(context, key).await?;
            let sum = add(found.as_deref(), delta)?;
            let text = match sum {
                Value::U64(sum) => sum.to_string(),
                Value::S64(sum) => sum.to_string(),
                _ => return Err(other("the number has another type".to_owned())),
            };
            if self.compare_and_set(context, key, found, text.as_bytes()).await? {
                return Ok(Some(sum));
            }
        }
    }

    async fn new_cas(&mut self, context: &CapabilityContext, key: &str) -> Result<Answer, CapabilityError> {
        let current = match self.get(context, key).await {
            Ok(current) => current,
            Err(error) => return Ok(Err(error)),
        };
        if self.cas.len() >= MAX_CAS_HANDLES {
            return Ok(Err(other(format!("at most {MAX_CAS_HANDLES} handles for comparison may be open"))));
        }
        let cas = Cas { key: key.to_owned(), current };
        Ok(Ok(Some(Value::Handle(self.cas.insert(cas)?))))
    }

    /// Sets the value of a key, unless it has changed. The tool gets a handle with the present value then.
    async fn swap(&mut self, context: &CapabilityContext, cas: Cas, value: &[u8]) -> Result<Answer, CapabilityError> {
        let Cas { key, current } = cas;
        let error = match self.compare_and_set(context, &key, current, value).await {
            Ok(true) => return Ok(Ok(None)),
            Ok(false) => match self.new_cas(context, &key).await? {
                Ok(Some(handle)) => return Ok(Err(Value::case("cas-failed", handle))),
                Ok(None) => other("the key cannot be read".to_owned()),
                Err(error) => error,
            },
            Err(error) => error,
        };
        Ok(Err(Value::case("store-error", error)))
    }
}

/// Adds to a number that is kept as decimal text; a missing one is zero. The sum has the type of `delta`.
fn add(found: Option<&[u8]>, delta: &Value) -> Result<Value, Value> {
    let text = found.map_or(Ok("0"), str::from_utf8).map_err(|_| not_a_number())?;
    let number: i128 = text.parse().map_err(|_| not_a_number())?;
    let sum = match delta {
        Value::U64(delta) => u64::try_from(number.saturating_add((*delta).into())).map(Value::U64),
        Value::S64(delta) => i64::try_from(number.saturating_add((*delta).into())).map(Value::S64),
        _ => return Err(not_a_number()),
    };
    sum.map_err(|_| other("the sum does not fit its type".to_owned()))
}

fn not_a_number() -> Value {
    other("the value is not a whole number in decimal text".to_owned())
}

fn other(reason: String) -> Value {
    Value::case("other", reason)
}
