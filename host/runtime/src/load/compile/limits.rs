//! Limits of compiling one component: on its content, and on the time and memory of the compiler.

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Maximum amounts of what a component contains. They are counted in one pass before anything is compiled, because the
/// cost of compiling does not follow from the size: 600 KB of one function can take seconds and a gigabyte.
///
/// The defaults fit whole language runtimes up to the size that is compiled without being allowed to be slow. A
/// JavaScript engine of 12 MB has 12,782 functions, the largest of 172 KB, 456 nested blocks, 118 local variables and a
/// flow of 435,184; CPython has one function of 427 KB and 15,805 jump targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Bytes of the body of one function.
    pub function_bytes: u64,
    /// Local variables of one function.
    pub locals: u64,
    /// Depth of nested blocks in one function.
    pub block_depth: u64,
    /// Branches of one function times its local variables, the size of the data flow that the compiler follows.
    pub flow: u64,
    /// Targets of all jump tables of one function.
    pub jump_targets: u64,
    /// Functions of all modules together.
    pub functions: u64,
    /// Types, of modules and of components together.
    pub types: u64,
    /// Bytes of types, of modules and of components together: a short encoding can expand to large types.
    pub type_bytes: u64,
    /// Imports, exports and aliases, of modules and of components together.
    pub names: u64,
    /// Bytes of imports, exports and aliases.
    pub name_bytes: u64,
    /// Bytes of data segments.
    pub data_bytes: u64,
    /// Segments of data and of tables.
    pub segments: u64,
    /// Modules, components and instances together.
    pub parts: u64,
    /// Depth of nested components.
    pub component_depth: u64,
    /// Depth of nested types of components and instances. Reading one takes stack for each level.
    pub type_depth: u64,
    /// Bytes of all `producers` sections, which stay in memory for as long as the component is loaded.
    pub producers_bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            function_bytes: MIB / 2,
            locals: 2_000,
            block_depth: 1_000,
            flow: 1_500_000,
            jump_targets: 20_000,
            functions: 60_000,
            types: 20_000,
            type_bytes: MIB,
            names: 60_000,
            name_bytes: 4 * MIB,
            data_bytes: 32 * MIB,
            segments: 60_000,
            parts: 1_000,
            component_depth: 16,
            type_depth: 64,
            producers_bytes: MIB / 4,
        }
    }
}

impl CompileLimits {
    /// Multiplies every limit by `factor`, except for the depth of types.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        let by = |limit: u64| limit.saturating_mul(factor);
        Self {
            function_bytes: by(self.function_bytes),
            locals: by(self.locals),
            block_depth: by(self.block_depth),
            flow: by(self.flow),
            jump_targets: by(self.jump_targets),
            functions: by(self.functions),
            types: by(self.types),
            type_bytes: by(self.type_bytes),
            names: by(self.names),
            name_bytes: by(self.name_bytes),
            data_bytes: by(self.data_bytes),
            segments: by(self.segments),
            parts: by(self.parts),
            component_depth: by(self.component_depth),
            // It protects the stack, whose size stays the same.
            type_depth: self.type_depth,
            producers_bytes: by(self.producers_bytes),
        }
    }
}

/// Resources that the compiler may use for one component. Time grows with the size of the component, so that a small
/// one cannot take what only a large one needs.
///
/// CPU time measures the cost of compiling, however busy the machine is, and stops components that were made to be
/// expensive. The limit on wall time is far higher, for a compiler that hangs for another reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileBudget {
    /// Base wall time of every component.
    pub time: Duration,
    /// Additional wall time for each MiB of the component.
    pub time_per_mib: Duration,
    /// Base CPU time of every component, over all threads. Rounded up to whole seconds.
    pub cpu: Duration,
    /// Additional CPU time for each MiB of the component.
    pub cpu_per_mib: Duration,
    /// Maximum writable memory of the compiler, in bytes, whatever the size of the component.
    pub memory: u64,
    /// Maximum length of the compiled code, in bytes.
    pub output: u64,
}

impl Default for CompileBudget {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            time_per_mib: Duration::from_secs(50),
            cpu: Duration::from_secs(5),
            // A JavaScript engine of 12 MB takes 0.6 s for each MiB on an idle core, and four times that on a small
            // machine beside other programs.
            cpu_per_mib: Duration::from_secs(5),
            memory: 1 << 30,
            output: 256 * MIB,
        }
    }
}

/// The limits of compiling a component of a certain size, computed from a [`CompileBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    pub(crate) memory: u64,
    pub(crate) output: u64,
}

impl CompileBudget {
    /// Multiplies the whole budget by `factor`.
    #[must_use]
    pub fn times(self, factor: u32) -> Self {
        Self {
            time: self.time.saturating_mul(factor),
            time_per_mib: self.time_per_mib.saturating_mul(factor),
            cpu: self.cpu.saturating_mul(factor),
            cpu_per_mib: self.cpu_per_mib.saturating_mul(factor),
            memory: self.memory.saturating_mul(factor.into()),
            output: self.output.saturating_mul(factor.into()),
        }
    }

    /// Computes the allowance of a component of `bytes` bytes. Time grows continuously, not in steps of a MiB.
    pub(crate) fn for_size(self, bytes: usize) -> Allowance {
        Allowance {
            time: grow(self.time, self.time_per_mib, bytes),
            cpu: grow(self.cpu, self.cpu_per_mib, bytes),
            memory: self.memory,
            output: self.output,
        }
    }
}

fn grow(base: Duration, per_mib: Duration, bytes: usize) -> Duration {
    let share = per_mib.as_secs_f64() * (bytes as f64 / MIB as f64);
    base.saturating_add(Duration::try_from_secs_f64(share).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_far_above_cpu_time() {
        for bytes in [0, 1 << 20, 12 << 20, 32 << 20] {
            let allowance = CompileBudget::default().for_size(bytes);
            assert!(allowance.time >= allowance.cpu * 9, "{allowance:?}");
        }
    }

    fn check_allowance(budget: &CompileBudget, bytes: usize, time: u64, cpu: u64) {
        let time = Duration::from_secs(time);
        let cpu = Duration::from_secs(cpu);
        assert_eq!(budget.for_size(bytes), Allowance { time, cpu, memory: 7, output: 8 });
    }

    #[test]
    fn allowance_grows_with_the_size_of_the_component() {
        let budget = CompileBudget {
            time: Duration::from_secs(2),
            time_per_mib: Duration::from_secs(4),
            cpu: Duration::from_secs(1),
            cpu_per_mib: Duration::from_secs(2),
            memory: 7,
            output: 8,
        };
        check_allowance(&budget, 0, 2, 1);
        check_allowance(&budget, 1 << 19, 4, 2);
        check_allowance(&budget, 3 << 20, 14, 7);
        assert_eq!(budget.times(3).for_size(0).cpu, Duration::from_secs(3));
        assert_eq!(budget.times(u32::MAX).times(u32::MAX).for_size(usize::MAX).memory, u64::MAX);
    }
}
