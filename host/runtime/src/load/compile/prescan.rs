//! A cheap pass over a component before anything is compiled, which counts its contents and refuses proposals that are
//! off.
//!
//! It stores nothing but counts and the declarations of one module, which are counted before they are read. It does not
//! recurse and trusts no length that the component claims, so its time is linear in the number of bytes. That is why
//! bodies of functions and types of components are not validated here: the time of the parser's validator grows faster.
//! Malformed components are refused here already; validation beyond the declarations of modules is left to the engine.

use wasmparser::{
    BinaryReader, BinaryReaderError, Encoding, FromReader, FunctionBody, ImportSectionReader, Imports, Operator,
    OperatorsReader, OperatorsReaderAllocations, Parser, Payload, SectionLimited, TypeRef, Validator, WasmFeatures,
};

use super::limits::CompileLimits;
use super::proposals::{self, DisabledProposal, require};
use super::types::{self, TypeError};
use crate::engine::features::ENABLED;
use crate::load::statements::PRODUCERS_SECTION;

/// A reason for not compiling a component.
#[derive(Debug)]
pub(crate) enum ScanError {
    Malformed(BinaryReaderError),
    LimitExceeded(LimitExceeded),
    Disabled(DisabledProposal),
}

/// A limit that a component exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitExceeded {
    pub(crate) what: &'static str,
    pub(crate) found: u64,
    pub(crate) limit: u64,
}

impl From<BinaryReaderError> for ScanError {
    fn from(error: BinaryReaderError) -> Self {
        DisabledProposal::from_parser_error(&error).map_or(Self::Malformed(error), Self::Disabled)
    }
}

impl From<DisabledProposal> for ScanError {
    fn from(disabled: DisabledProposal) -> Self {
        Self::Disabled(disabled)
    }
}

/// Counts the contents of a component, and stops at the first limit that is exceeded.
pub(crate) fn scan(bytes: &[u8], limits: &CompileLimits) -> Result<Counts, ScanError> {
    let mut scan = Scan {
        bytes,
        limits,
        counts: Counts::default(),
        depth: 0,
        module: None,
        memories: 0,
        frames: OperatorsReaderAllocations::default(),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        scan.visit(&payload?)?;
    }
    Ok(scan.counts)
}

/// The contents of a component: maxima for limits per function and for depths, sums for all others.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) function_bytes: u64,
    pub(crate) locals: u64,
    pub(crate) block_depth: u64,
    pub(crate) flow: u64,
    pub(crate) jump_targets: u64,
    pub(crate) functions: u64,
    pub(crate) types: u64,
    pub(crate) type_bytes: u64,
    pub(crate) names: u64,
    pub(crate) name_bytes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) segments: u64,
    pub(crate) parts: u64,
    pub(crate) component_depth: u64,
    pub(crate) type_depth: u64,
    pub(crate) producers_bytes: u64,
}

struct Scan<'l> {
    bytes: &'l [u8],
    limits: &'l CompileLimits,
    counts: Counts,
    /// The number of components and modules that are open.
    depth: u64,
    /// The validator of the declarations of the open module.
    module: Option<Validator>,
    /// The number of memories of that module.
    memories: u64,
    /// Allocations that are reused for every function.
    frames: OperatorsReaderAllocations,
}

/// Adds to a sum and compares it with its limit.
fn add_to_sum(sum: &mut u64, more: u64, limit: u64, what: &'static str) -> Result<(), LimitExceeded> {
    *sum = sum.saturating_add(more);
    if *sum > limit { Err(LimitExceeded { what, found: *sum, limit }) } else { Ok(()) }
}

/// Updates a maximum and compares it with its limit.
fn update_max(max: &mut u64, found: u64, limit: u64, what: &'static str) -> Result<(), LimitExceeded> {
    *max = (*max).max(found);
    if found > limit { Err(LimitExceeded { what, found, limit }) } else { Ok(()) }
}

fn length<T>(section: &SectionLimited<'_, T>) -> u64 {
    let range = section.range();
    range.end.saturating_sub(range.start) as u64
}

/// Checks each item of a section.
fn check_each<'b, T: FromReader<'b>>(
    section: &SectionLimited<'b, T>,
    check: impl Fn(T) -> Result<(), WasmFeatures>,
) -> Result<(), ScanError> {
    for item in section.clone().into_iter_with_offsets() {
        let (offset, item) = item?;
        require(check(item), offset)?;
    }
    Ok(())
}

impl From<LimitExceeded> for ScanError {
    fn from(exceeded: LimitExceeded) -> Self {
        Self::LimitExceeded(exceeded)
    }
}

impl Scan<'_> {
    fn visit(&mut self, payload: &Payload<'_>) -> Result<(), ScanError> {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } => {
                self.module = Some(Validator::new_with_features(ENABLED));
                self.memories = 0;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => self.enter()?,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::CustomSection(section) if section.name() == PRODUCERS_SECTION => {
                let sum = &mut self.counts.producers_bytes;
                let limit = self.limits.producers_bytes;
                add_to_sum(sum, section.data().len() as u64, limit, "bytes of `producers` sections")?;
            }
            Payload::CodeSectionEntry(body) => self.visit_function(body)?,
            _ if self.module.is_some() => self.visit_module_section(payload)?,
            _ => self.visit_component_section(payload)?,
        }
        if let Some(module) = &mut self.module {
            module.payload(payload)?;
            if matches!(payload, Payload::End(_)) {
                self.module = None;
            }
        }
        Ok(())
    }

    /// Counts the items of a section of a module. The validator checks the section afterwards.
    fn visit_module_section(&mut self, payload: &Payload<'_>) -> Result<(), ScanError> {
        match payload {
            Payload::TypeSection(section) => {
                self.count_types(section.count(), length(section))?;
                types::read_module_types(self.reader(section)).map_err(|error| self.to_scan_error(error))?;
            }
            Payload::ImportSection(section) => {
                self.count_names(section.count(), length(section))?;
                self.check_imports(section)?;
            }
            Payload::MemorySection(section) => self.check_memories(section.count().into(), section.range().start)?,
            Payload::ExportSection(section) => {
                self.count_names(section.count(), length(section))?;
                check_each(section, |export| proposals::check_core_kind(export.kind))?;
            }
            Payload::FunctionSection(section) => self.count_functions(section.count())?,
            Payload::ElementSection(section) => self.count_segments(section.count())?,
            Payload::DataSection(section) => {
                self.count_segments(section.count())?;
                let sum = &mut self.counts.data_bytes;
                let limit = self.limits.data_bytes;
                add_to_sum(sum, length(section), limit, "bytes of data")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts and checks the items of a section of a component.
    fn visit_component_section(&mut self, payload: &Payload<'_>) -> Result<(), ScanError> {
        match payload {
            Payload::InstanceSection(section) => {
                self.count_parts(section.count())?;
                check_each(section, |instance| proposals::check_core_instance(&instance))?;
            }
            Payload::ComponentInstanceSection(section) => self.count_parts(section.count())?,
            Payload::CoreTypeSection(section) => {
                self.count_types(section.count(), length(section))?;
                types::read_core_types(self.reader(section)).map_err(|error| self.to_scan_error(error))?;
            }
            Payload::ComponentTypeSection(section) => {
                self.count_types(section.count(), length(section))?;
                let deepest = types::read_component_types(self.reader(section), self.limits.type_depth);
                let deepest = deepest.map_err(|error| self.to_scan_error(error))?;
                self.counts.type_depth = self.counts.type_depth.max(deepest);
            }
            Payload::ComponentAliasSection(section) => {
                self.count_names(section.count(), length(section))?;
                check_each(section, |alias| proposals::check_alias(&alias))?;
            }
            Payload::ComponentImportSection(section) => {
                self.count_names(section.count(), length(section))?;
                check_each(section, |import| proposals::check_extern_item(&import.name, Some(&import.ty)))?;
            }
            Payload::ComponentExportSection(section) => {
                self.count_names(section.count(), length(section))?;
                check_each(section, |export| {
                    proposals::check_extern_item(&export.name, export.ty.as_ref())?;
                    proposals::check_component_kind(export.kind)
                })?;
            }
            Payload::ComponentCanonicalSection(section) => {
                self.count_functions(section.count())?;
                check_each(section, |function| proposals::check_canonical(&function))?;
            }
            Payload::ComponentStartSection { range, .. } => require(Err(WasmFeatures::CM_VALUES), range.start)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns a reader of a section that begins at its count.
    fn reader<'b, T>(&self, section: &SectionLimited<'b, T>) -> BinaryReader<'b>
    where
        Self: 'b,
    {
        let range = section.range();
        BinaryReader::new(self.bytes.get(range.clone()).unwrap_or_default(), range.start)
    }

    fn to_scan_error(&self, error: TypeError) -> ScanError {
        match error {
            TypeError::Malformed(error) => error.into(),
            TypeError::Disabled(disabled) => disabled.into(),
            TypeError::TooDeep(found) => {
                let what = "types of components inside of each other";
                LimitExceeded { what, found, limit: self.limits.type_depth }.into()
            }
        }
    }

    fn check_imports(&mut self, section: &ImportSectionReader<'_>) -> Result<(), ScanError> {
        for imports in section.clone().into_iter_with_offsets() {
            let (offset, imports) = imports?;
            let Imports::Single(_, import) = imports else {
                return Ok(require(Err(WasmFeatures::COMPACT_IMPORTS), offset)?);
            };
            // The validator accepts some kinds of imports that the engine refuses.
            require(proposals::check_entity(&import.ty), offset)?;
            if matches!(import.ty, TypeRef::Memory(_)) {
                self.check_memories(1, offset)?;
            }
        }
        Ok(())
    }

    /// Checks the number of memories, because the error of the validator does not name the proposal.
    fn check_memories(&mut self, count: u64, offset: usize) -> Result<(), ScanError> {
        self.memories = self.memories.saturating_add(count);
        Ok(require(proposals::check_memories(self.memories), offset)?)
    }

    fn enter(&mut self) -> Result<(), LimitExceeded> {
        self.depth = self.depth.saturating_add(1);
        update_max(
            &mut self.counts.component_depth,
            self.depth,
            self.limits.component_depth,
            "components inside of each other",
        )?;
        self.count_parts(1)
    }

    fn count_parts(&mut self, count: u32) -> Result<(), LimitExceeded> {
        add_to_sum(&mut self.counts.parts, count.into(), self.limits.parts, "modules, components and instances")
    }

    fn count_types(&mut self, count: u32, bytes: u64) -> Result<(), LimitExceeded> {
        add_to_sum(&mut self.counts.types, count.into(), self.limits.types, "types")?;
        add_to_sum(&mut self.counts.type_bytes, bytes, self.limits.type_bytes, "bytes of types")
    }

    fn count_names(&mut self, count: u32, bytes: u64) -> Result<(), LimitExceeded> {
        add_to_sum(&mut self.counts.names, count.into(), self.limits.names, "imports, exports and aliases")?;
        add_to_sum(&mut self.counts.name_bytes, bytes, self.limits.name_bytes, "bytes of imports, exports and aliases")
    }

    fn count_functions(&mut self, count: u32) -> Result<(), LimitExceeded> {
        add_to_sum(&mut self.counts.functions, count.into(), self.limits.functions, "functions")
    }

    fn count_segments(&mut self, count: u32) -> Result<(), LimitExceeded> {
        add_to_sum(&mut self.counts.segments, count.into(), self.limits.segments, "segments of data and tables")
    }

    fn visit_function(&mut self, body: &FunctionBody<'_>) -> Result<(), ScanError> {
        let size = body.as_bytes().len() as u64;
        update_max(&mut self.counts.function_bytes, size, self.limits.function_bytes, "bytes in one function")?;
        let locals = self.count_locals(body)?;
        let reader = body.get_binary_reader_for_operators()?;
        let mut operators = OperatorsReader::new_with_allocs(reader, std::mem::take(&mut self.frames));
        let mut flow = Flow { locals, ..Flow::default() };
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset()?;
            require(proposals::check_operator(&operator), offset)?;
            flow.visit(&operator, &mut self.counts, self.limits)?;
        }
        self.frames = operators.into_allocations();
        Ok(())
    }

    fn count_locals(&mut self, body: &FunctionBody<'_>) -> Result<u64, ScanError> {
        let mut locals = 0;
        for declared in body.get_locals_reader()? {
            let (count, ty) = declared?;
            require(proposals::check_value_type(ty), body.range().start)?;
            add_to_sum(&mut locals, count.into(), self.limits.locals, "local variables in one function")?;
        }
        self.counts.locals = self.counts.locals.max(locals);
        Ok(locals)
    }
}

/// The control flow of one function.
#[derive(Default)]
struct Flow {
    locals: u64,
    depth: u64,
    branches: u64,
    targets: u64,
}

impl Flow {
    fn visit(
        &mut self,
        operator: &Operator<'_>,
        counts: &mut Counts,
        limits: &CompileLimits,
    ) -> Result<(), LimitExceeded> {
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                self.depth = self.depth.saturating_add(1);
                update_max(&mut counts.block_depth, self.depth, limits.block_depth, "blocks inside of each other")?;
            }
            Operator::End => {
                self.depth = self.depth.saturating_sub(1);
                return Ok(());
            }
            Operator::BrTable { targets } => {
                let found = u64::from(targets.len());
                self.branches = self.branches.saturating_add(found);
                add_to_sum(&mut self.targets, found, limits.jump_targets, "targets of jump tables in one function")?;
                counts.jump_targets = counts.jump_targets.max(self.targets);
            }
            Operator::Else | Operator::Br { .. } | Operator::BrIf { .. } => {}
            _ => return Ok(()),
        }
        self.branches = self.branches.saturating_add(1);
        let flow = self.branches.saturating_mul(self.locals);
        update_max(&mut counts.flow, flow, limits.flow, "branches times local variables in one function")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        scan(&wat::parse_str(text).unwrap(), &CompileLimits::default()).unwrap()
    }

    #[test]
    fn counts_every_kind_of_content() {
        let found = counts(
            r#"(component
                (core module $m
                    (type (func)) (import "a" "b" (func)) (export "f" (func 1))
                    (memory 1) (data "1234") (data "56")
                    (func (param i32) (local i64 i64 i32) local.get 0 (if (then (loop (br_if 0 (local.get 0)))))
                        (block (block (br_table 0 1 0 1 (i32.const 1)))))
                    (func))
                (core module)
                (core type (func))
                (type (list string))
                (component (component))
                (import "n" (func))
                (core instance (instantiate $m (with "a" (instance (export "b" (func $g))))))
                (core func $g (canon lower (func 0)))
            )"#,
        );
        let expected = Counts {
            function_bytes: 32,
            locals: 3,
            block_depth: 2,
            // A jump table counts as one branch for each target besides the default, and one for itself.
            flow: 3 * (2 + 1 + 2 + 4),
            jump_targets: 3,
            functions: 3,
            types: 5,
            type_bytes: found.type_bytes,
            names: 3,
            name_bytes: found.name_bytes,
            data_bytes: 11,
            segments: 2,
            parts: 6,
            component_depth: 2,
            type_depth: 0,
            producers_bytes: 0,
        };
        assert_eq!(found, expected);
        assert_eq!(counts("(component)"), Counts::default());
    }

    fn core_module(text: &str) -> String {
        format!("(core module {text})")
    }

    fn check_limit(text: &str, what: &str, lower: fn(&mut CompileLimits), found: u64) {
        let bytes = wat::parse_str(format!("(component {text})")).unwrap();
        assert!(scan(&bytes, &CompileLimits::default()).is_ok(), "{text}");
        let mut limits = CompileLimits::default();
        lower(&mut limits);
        match scan(&bytes, &limits) {
            Err(ScanError::LimitExceeded(refused)) => {
                assert_eq!((refused.what, refused.found, refused.limit), (what, found, found - 1), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn enforces_and_names_every_limit() {
        check_limit(&core_module("(func nop nop)"), "bytes in one function", |limits| limits.function_bytes = 3, 4);
        check_limit(
            &core_module("(func (local i32 i32))"),
            "local variables in one function",
            |limits| limits.locals = 1,
            2,
        );
        check_limit(
            &core_module("(func (block (block)))"),
            "blocks inside of each other",
            |limits| limits.block_depth = 1,
            2,
        );
        let text = core_module("(func (local i32) (block) (block))");
        check_limit(&text, "branches times local variables in one function", |limits| limits.flow = 1, 2);
        let text = core_module("(func (block (br_table 0 0 (i32.const 0))) (block (br_table 0 0 (i32.const 0))))");
        check_limit(&text, "targets of jump tables in one function", |limits| limits.jump_targets = 1, 2);
        check_limit(&format!("{0} {0}", core_module("(func)")), "functions", |limits| limits.functions = 1, 2);
        check_limit("(type string) (type string)", "types", |limits| limits.types = 1, 2);
        check_limit("(type (list string))", "bytes of types", |limits| limits.type_bytes = 2, 3);
        let nested = "(type (component (type (instance))))";
        check_limit(nested, "types of components inside of each other", |limits| limits.type_depth = 1, 2);
        let producers = r#"(@custom "producers" "12345")"#;
        check_limit(producers, "bytes of `producers` sections", |limits| limits.producers_bytes = 4, 5);
        let text = core_module(r#"(func) (export "a" (func 0)) (export "b" (func 0))"#);
        check_limit(&text, "imports, exports and aliases", |limits| limits.names = 1, 2);
        check_limit(&text, "bytes of imports, exports and aliases", |limits| limits.name_bytes = 8, 9);
        check_limit(
            &core_module(r#"(memory 1) (data "12") (data "3")"#),
            "segments of data and tables",
            |limits| limits.segments = 1,
            2,
        );
        check_limit(&core_module(r#"(memory 1) (data "12")"#), "bytes of data", |limits| limits.data_bytes = 4, 5);
        check_limit("(component) (component)", "modules, components and instances", |limits| limits.parts = 1, 2);
        check_limit(
            "(component (component))",
            "components inside of each other",
            |limits| limits.component_depth = 1,
            2,
        );
    }

    #[test]
    fn truncated_components_are_malformed_or_left_to_the_engine() {
        let bytes = wat::parse_str("(component (core module (func nop nop nop)))").unwrap();
        let scanned = |end: usize| scan(&bytes[..end], &CompileLimits::default());
        let refused = (9..bytes.len()).filter(|end| match scanned(*end) {
            Err(ScanError::LimitExceeded(exceeded)) => panic!("{end}: {exceeded:?}"),
            Err(ScanError::Disabled(disabled)) => panic!("{end}: {disabled:?}"),
            Err(ScanError::Malformed(_)) => true,
            // A cut between two sections is not noticed.
            Ok(_) => false,
        });
        assert!(refused.count() > bytes.len() / 2);
        assert!(scanned(bytes.len()).is_ok());
    }
}
