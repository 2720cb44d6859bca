//! Plain values of capabilities as objects of Python, and back.

use fumehood::settings::PlainValue;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyMapping, PyMemoryView, PySet,
    PyString, PyTuple,
};

/// Maximum depth of an object. No type of WIT is deeper, and an object may contain itself.
const MAX_DEPTH: usize = 64;
/// Maximum number of objects in one. A function returns at most 2 MiB, of which a value takes 32 bytes, and bytes are one value.
const MAX_NODES: usize = 1 << 17;

/// Creates the object of a value.
///
/// # Errors
/// If memory is short.
pub(crate) fn to_object(py: Python<'_>, value: PlainValue) -> PyResult<Bound<'_, PyAny>> {
    match value {
        PlainValue::Bool(value) => value.into_bound_py_any(py),
        PlainValue::Int(number) => number.into_bound_py_any(py),
        PlainValue::BigInt(number) => number.into_bound_py_any(py),
        PlainValue::Float(number) => number.into_bound_py_any(py),
        PlainValue::Text(text) => text.into_bound_py_any(py),
        PlainValue::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        PlainValue::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_object(py, item)?)?;
            }
            Ok(list.into_any())
        }
        PlainValue::Dict(parts) => {
            let dict = PyDict::new(py);
            for (name, part) in parts {
                dict.set_item(name, to_object(py, part)?)?;
            }
            Ok(dict.into_any())
        }
        PlainValue::None | PlainValue::Other(_) => Ok(py.None().into_bound(py)),
    }
}

/// Reads an object. One of another type is [`PlainValue::Other`], which fits no type of WIT.
pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PlainValue {
    let mut reader = Reader { nodes: 0 };
    reader.read(object, 0).unwrap_or_else(|error| PlainValue::Other(format!("an object that raised {error}")))
}

struct Reader {
    nodes: usize,
}

impl Reader {
    fn read(&mut self, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<PlainValue> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Ok(PlainValue::Other("an object that is nested too deeply or too large".to_owned()));
        }
        if let Some(scalar) = read_scalar(object)? {
            return Ok(scalar);
        }
        if is_list(object) {
            let items = object.try_iter()?.map(|item| self.read(&item?, depth + 1));
            return Ok(PlainValue::List(items.collect::<PyResult<_>>()?));
        }
        if let Ok(mapping) = object.cast::<PyMapping>() {
            let items = mapping.items()?;
            let parts = items.iter().map(|item| {
                let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
                Ok((name.str()?.to_string(), self.read(&value, depth + 1)?))
            });
            return Ok(PlainValue::Dict(parts.collect::<PyResult<_>>()?));
        }
        let name = object.get_type().name()?;
        Ok(PlainValue::Other(format!("an object of the type {name}")))
    }
}

/// Reads an object without parts.
fn read_scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<PlainValue>> {
    let scalar = if object.is_none() {
        PlainValue::None
    } else if let Ok(value) = object.cast::<PyBool>() {
        // Before integers: a boolean of Python is one.
        PlainValue::Bool(value.is_true())
    } else if object.is_instance_of::<PyInt>() {
        let too_large = |_| PlainValue::Other("an integer of more than 64 bits".to_owned());
        object.extract::<i128>().map_or_else(too_large, PlainValue::BigInt)
    } else if object.is_instance_of::<PyFloat>() {
        PlainValue::Float(object.extract()?)
    } else if object.is_instance_of::<PyString>() {
        PlainValue::Text(object.extract()?)
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        PlainValue::Bytes(bytes.as_bytes().to_vec())
    } else if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        PlainValue::Bytes(object.py().get_type::<PyBytes>().call1((object,))?.extract()?)
    } else {
        return Ok(None);
    };
    Ok(Some(scalar))
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PySet>()
        || object.is_instance_of::<PyFrozenSet>()
}
