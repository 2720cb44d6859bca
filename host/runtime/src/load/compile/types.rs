//! Types of modules and components: checks the proposals that they use, and how deep types of components nest.
//!
//! Types of components contain types of components. The parser reads them by recursion, and so does the engine, without
//! a limit: at three bytes for each level, a small component overflows the stack and ends the process. So they are read
//! here with an explicit stack.

use wasmparser::{
    BinaryReader, BinaryReaderError, ComponentType, ComponentTypeDeclaration, ModuleTypeDeclaration, RecGroup,
};

use super::proposals::{self, DisabledProposal, require};

/// An error in a section of types.
#[derive(Debug)]
pub(super) enum TypeError {
    Malformed(BinaryReaderError),
    Disabled(DisabledProposal),
    /// Types of components that nest at least this deep.
    TooDeep(u64),
}

impl From<BinaryReaderError> for TypeError {
    fn from(error: BinaryReaderError) -> Self {
        Self::Malformed(error)
    }
}

impl From<DisabledProposal> for TypeError {
    fn from(disabled: DisabledProposal) -> Self {
        Self::Disabled(disabled)
    }
}

/// The first bytes of types that hold declarations.
const MODULE: u8 = 0x50;
const COMPONENT: u8 = 0x41;
const INSTANCE: u8 = 0x42;
/// Prefix of a subtype that is not final among the core types of a component, where its first byte alone means
/// `MODULE`.
const SUBTYPE_PREFIX: u8 = 0x00;
/// The first bytes of declarations that are types.
const CORE_TYPE: u8 = 0x00;
const TYPE: u8 = 0x01;

/// Returns the next byte, or 0 at the end, where reading fails in any case.
fn peek(reader: &BinaryReader<'_>) -> u8 {
    reader.clone().read_u8().unwrap_or_default()
}

/// Reads the section of types of a core module.
pub(super) fn read_module_types(mut reader: BinaryReader<'_>) -> Result<(), TypeError> {
    for _ in 0..reader.read_var_u32()? {
        read_core_type(&mut reader)?;
    }
    Ok(())
}

/// Reads the section of core types of a component.
pub(super) fn read_core_types(mut reader: BinaryReader<'_>) -> Result<(), TypeError> {
    for _ in 0..reader.read_var_u32()? {
        read_component_core_type(&mut reader)?;
    }
    Ok(())
}

/// Reads the section of types of a component, and returns their depth: 0 without types of components or instances.
pub(super) fn read_component_types(mut reader: BinaryReader<'_>, max_depth: u64) -> Result<u64, TypeError> {
    let mut deepest = 0;
    for _ in 0..reader.read_var_u32()? {
        // The number of declarations that are left in each of the open types.
        let mut open: Vec<u32> = Vec::new();
        let mut opened = read_component_type(&mut reader)?;
        loop {
            open.extend(opened);
            deepest = deepest.max(open.len() as u64);
            if deepest > max_depth {
                return Err(TypeError::TooDeep(deepest));
            }
            while open.pop_if(|left| *left == 0).is_some() {}
            let Some(left) = open.last_mut() else { break };
            *left = left.saturating_sub(1);
            opened = read_declaration(&mut reader)?;
        }
    }
    Ok(deepest)
}

/// Reads a declaration. If it begins a type that contains declarations, reads no further and returns their number.
fn read_declaration(reader: &mut BinaryReader<'_>) -> Result<Option<u32>, TypeError> {
    let at = reader.original_position();
    match peek(reader) {
        CORE_TYPE => {
            reader.read_u8()?;
            read_component_core_type(reader)?;
        }
        TYPE => {
            reader.read_u8()?;
            return read_component_type(reader);
        }
        _ => require(proposals::check_component_declaration(&reader.read::<ComponentTypeDeclaration<'_>>()?), at)?,
    }
    Ok(None)
}

/// Like [`read_declaration`], for a type.
fn read_component_type(reader: &mut BinaryReader<'_>) -> Result<Option<u32>, TypeError> {
    let at = reader.original_position();
    if matches!(peek(reader), COMPONENT | INSTANCE) {
        reader.read_u8()?;
        return Ok(Some(reader.read_var_u32()?));
    }
    require(proposals::check_component_type(&reader.read::<ComponentType<'_>>()?), at)?;
    Ok(None)
}

fn read_component_core_type(reader: &mut BinaryReader<'_>) -> Result<(), TypeError> {
    let at = reader.original_position();
    match peek(reader) {
        MODULE => {
            reader.read_u8()?;
            for _ in 0..reader.read_var_u32()? {
                read_module_declaration(reader)?;
            }
            Ok(())
        }
        SUBTYPE_PREFIX => {
            reader.read_u8()?;
            require(proposals::check_core_type_form(peek(reader)), at)?;
            // Nothing but a subtype may follow.
            read_core_type(reader)
        }
        _ => read_core_type(reader),
    }
}

fn read_module_declaration(reader: &mut BinaryReader<'_>) -> Result<(), TypeError> {
    let at = reader.original_position();
    if peek(reader) == TYPE {
        reader.read_u8()?;
        return read_core_type(reader);
    }
    require(proposals::check_module_declaration(&reader.read::<ModuleTypeDeclaration<'_>>()?), at)?;
    Ok(())
}

fn read_core_type(reader: &mut BinaryReader<'_>) -> Result<(), TypeError> {
    let at = reader.original_position();
    require(proposals::check_core_type_form(peek(reader)), at)?;
    require(proposals::check_core_type(&reader.read::<RecGroup>()?), at)?;
    Ok(())
}
