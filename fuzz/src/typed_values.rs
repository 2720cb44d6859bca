//! Schemas of typed values: every component model type within its limits has a schema that the gate accepts.

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::schema::typed::{Ty, TypeDocs, TypedFunction};

/// Maximum nesting depth of a type.
const MAX_DEPTH: usize = 6;
/// Maximum number of parts of one type.
const MAX_PARTS: usize = 4;

/// Parses a type from the first line, one byte for each part, and validates the rest against the schema of a function
/// with this type.
pub fn run(data: &[u8]) {
    let (ty, document) = split(data);
    let function = TypedFunction { params: vec![("value".to_owned(), ty.clone())], result: Some(ty) };
    let docs = TypeDocs::new();
    let schema = function.input_schema(&docs);
    let gate = match Gate::for_arguments(&schema, GateLimits::default()) {
        Ok(gate) => gate,
        Err(error) => panic!("{error}: {schema}"),
    };
    if let Some(schema) = function.output_schema(&docs) {
        assert!(Gate::for_results(&schema, GateLimits::default()).is_ok(), "{schema}");
    }
    let Some(document) = document else { return };
    if let Ok(value) = gate.parse(document) {
        assert!(gate.check(&value).is_ok(), "{schema} {document}");
    }
}

/// Splits the input into the type in its first line, and the rest if it is text.
pub(crate) fn split(data: &[u8]) -> (Ty, Option<&str>) {
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (ty, document) = data.split_at(line);
    (read(&mut ty.iter().copied(), MAX_DEPTH), std::str::from_utf8(document).ok())
}

fn read(bytes: &mut impl Iterator<Item = u8>, depth: usize) -> Ty {
    let byte = bytes.next().unwrap_or(0);
    let parts = usize::from(byte >> 5) % MAX_PARTS + 1;
    let name = |at: usize| format!("n{at}");
    match (byte & 31, depth) {
        (0, _) => Ty::Bool,
        (1, _) => Ty::S8,
        (2, _) => Ty::U16,
        (3, _) => Ty::S32,
        (4, _) => Ty::U64,
        (5, _) => Ty::S64,
        (6, _) => Ty::F32,
        (7, _) => Ty::F64,
        (8, _) => Ty::Char,
        (9, _) => Ty::Enum((0..parts).map(name).collect()),
        (10, _) => Ty::Flags((0..parts).map(name).collect()),
        (11, 1..) => Ty::List(Box::new(read(bytes, depth - 1))),
        (12, 1..) => Ty::Option(Box::new(read(bytes, depth - 1))),
        (13, 1..) => Ty::Tuple((0..parts).map(|_| read(bytes, depth - 1)).collect()),
        (14, 1..) => Ty::Record((0..parts).map(|at| (name(at), read(bytes, depth - 1))).collect()),
        (15, 1..) => Ty::Variant((0..parts).map(|at| (name(at), (at > 0).then(|| read(bytes, depth - 1)))).collect()),
        (16, 1..) => Ty::Result { ok: Some(Box::new(read(bytes, depth - 1))), err: Some(Box::new(Ty::String)) },
        _ => Ty::String,
    }
}
