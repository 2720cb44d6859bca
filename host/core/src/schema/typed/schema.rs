//! The JSON form of typed values, as JSON Schema 2020-12.
//!
//! | type | in JSON |
//! |---|---|
//! | `bool`, `string`, `list` | `true`, string, array |
//! | `u8`–`u32`, `s8`–`s32` | an integer within the bounds |
//! | `u64`, `s64` | an integer, or the same in decimal as a string; written as a string beyond [`MAX_SAFE_INTEGER`] |
//! | `f32`, `f64` | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `char` | string of one character |
//! | `record` | object with exactly the fields; a field of type `option` may be left out |
//! | `tuple` | array with exactly one item for each element |
//! | `variant` | `{"tag": case}`, with `"val"` if the case has a value |
//! | `enum`, `flags` | the name; array of the names that are set |
//! | `option` | `null`, or the value as it is; `{"some": value}` for an option within an option |
//! | `result` | `{"ok": value}` or `{"err": value}`, with `null` where there is no value |

use serde_json::{Map, Value, json};

use super::pattern;
use super::ty::{Ty, TypeDocs, TypedFunction};

/// The JSON form of a NaN, which no JSON number can express.
pub const NOT_A_NUMBER: &str = "NaN";
/// The JSON form of positive infinity.
pub const INFINITY: &str = "Infinity";
/// The JSON form of negative infinity.
pub const NEGATIVE_INFINITY: &str = "-Infinity";

/// Maximum absolute value of an integer that is written as a number, 2⁵³ − 1. Every JSON parser is exact up to here
/// (RFC 8259, section 6).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

impl TypedFunction {
    /// Returns the schema of the arguments: an object with one property for each parameter.
    #[must_use]
    pub fn input_schema(&self, docs: &TypeDocs) -> Value {
        let writer = Writer::new(self.params.iter().map(|(_, ty)| ty), docs);
        writer.finish(writer.write_fields(&self.params, None))
    }

    /// Returns the schema of the result of a successful call; `None` if there is no result, or it is plain text.
    #[must_use]
    pub fn output_schema(&self, docs: &TypeDocs) -> Option<Value> {
        let success = self.success().filter(|ty| **ty != Ty::String)?;
        let writer = Writer::new(std::iter::once(success), docs);
        Some(writer.finish(writer.write_schema(success)))
    }
}

/// Types whose schemas are long enough to be shared in `$defs`, with their names there.
const SHAREABLE: [(Ty, &str); 4] = [(Ty::S64, "s64"), (Ty::U64, "u64"), (Ty::F32, "f32"), (Ty::F64, "f64")];

/// A writer of schemas.
struct Writer<'a> {
    docs: &'a TypeDocs,
    shared: Vec<&'static (Ty, &'static str)>,
}

impl<'a> Writer<'a> {
    /// Creates a writer for a schema of all of `types`. A type that occurs only once is written where it is used.
    fn new<'t>(types: impl Iterator<Item = &'t Ty>, docs: &'a TypeDocs) -> Self {
        let mut uses = [0_usize; SHAREABLE.len()];
        let mut pending: Vec<&Ty> = types.collect();
        while let Some(ty) = pending.pop() {
            for (count, (shareable, _)) in uses.iter_mut().zip(&SHAREABLE) {
                *count += usize::from(ty == shareable);
            }
            pending.extend(ty.parts());
        }
        let shared =
            uses.iter().zip(&SHAREABLE).filter(|(uses, _)| **uses > 1).map(|(_, shareable)| shareable).collect();
        Self { docs, shared }
    }

    /// Adds the definitions that the schema refers to.
    fn finish(&self, mut schema: Value) -> Value {
        let definitions: Map<_, _> =
            self.shared.iter().map(|(ty, name)| ((*name).to_owned(), scalar_schema(ty))).collect();
        if let (Value::Object(schema), false) = (&mut schema, definitions.is_empty()) {
            schema.insert("$defs".to_owned(), Value::Object(definitions));
        }
        schema
    }

    fn write_schema(&self, ty: &Ty) -> Value {
        let schema = match ty {
            Ty::List(item) => json!({"type": "array", "items": self.write_schema(item)}),
            Ty::Record(fields) => self.write_fields(fields, Some(ty)),
            Ty::Tuple(items) => {
                let each: Vec<_> = items.iter().map(|item| self.write_schema(item)).collect();
                let count = items.len();
                json!({"type": "array", "prefixItems": each, "items": false, "minItems": count, "maxItems": count})
            }
            Ty::Variant(cases) => self.write_variant(cases, ty),
            Ty::Enum(names) => json!({"type": "string", "enum": names}),
            Ty::Flags(names) => {
                let name = json!({"type": "string", "enum": names});
                json!({"type": "array", "items": name, "uniqueItems": true, "maxItems": names.len()})
            }
            Ty::Option(inner) => self.write_option(inner),
            Ty::Result { ok, err } => {
                json!({"oneOf": [self.write_side("ok", ok.as_deref()), self.write_side("err", err.as_deref())]})
            }
            _ => self.write_scalar(ty),
        };
        self.describe(schema, ty)
    }

    /// Writes one side of a result.
    fn write_side(&self, name: &str, ty: Option<&Ty>) -> Value {
        let value = ty.map_or_else(|| json!({"type": "null"}), |ty| self.write_schema(ty));
        object_schema([(name.to_owned(), value)].into_iter().collect(), &[name])
    }

    fn write_fields(&self, fields: &[(String, Ty)], record: Option<&Ty>) -> Value {
        let doc = record.and_then(|ty| self.docs.get(ty));
        let properties = fields.iter().map(|(name, ty)| {
            let text = doc.and_then(|doc| doc.items.get(name));
            (name.clone(), with_description(self.write_schema(ty), text))
        });
        let required: Vec<_> = fields.iter().filter(|(_, ty)| !ty.is_option()).map(|(name, _)| name.as_str()).collect();
        object_schema(properties.collect(), &required)
    }

    fn write_variant(&self, cases: &[(String, Option<Ty>)], variant: &Ty) -> Value {
        let doc = self.docs.get(variant);
        let each: Vec<_> = cases
            .iter()
            .map(|(name, value)| {
                let mut properties = Map::from_iter([("tag".to_owned(), json!({"const": name}))]);
                let mut required = vec!["tag"];
                if let Some(ty) = value {
                    properties.insert("val".to_owned(), self.write_schema(ty));
                    required.push("val");
                }
                with_description(object_schema(properties, &required), doc.and_then(|doc| doc.items.get(name)))
            })
            .collect();
        json!({"oneOf": each})
    }

    fn write_option(&self, inner: &Ty) -> Value {
        let some = if inner.is_option() {
            object_schema([("some".to_owned(), self.write_schema(inner))].into_iter().collect(), &["some"])
        } else {
            self.write_schema(inner)
        };
        json!({"anyOf": [some, {"type": "null"}]})
    }

    fn write_scalar(&self, ty: &Ty) -> Value {
        match self.shared.iter().find(|(shared, _)| shared == ty) {
            Some((_, name)) => json!({"$ref": format!("#/$defs/{name}")}),
            None => scalar_schema(ty),
        }
    }

    /// Adds the documentation of the type. For an enum or flags it includes that of the names, which have no schema.
    fn describe(&self, schema: Value, ty: &Ty) -> Value {
        let Some(doc) = self.docs.get(ty) else { return schema };
        let mut lines: Vec<String> = doc.text.iter().cloned().collect();
        if let Ty::Enum(names) | Ty::Flags(names) = ty {
            let about = |name: &String| doc.items.get(name).map(|text| format!("`{name}`: {text}"));
            lines.extend(names.iter().filter_map(about));
        }
        with_description(schema, (!lines.is_empty()).then(|| lines.join("\n")).as_ref())
    }
}

fn with_description(mut schema: Value, text: Option<&String>) -> Value {
    if let (Value::Object(schema), Some(text)) = (&mut schema, text) {
        schema.insert("description".to_owned(), Value::String(text.clone()));
    }
    schema
}

fn object_schema(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn scalar_schema(ty: &Ty) -> Value {
    match ty {
        Ty::Bool => json!({"type": "boolean"}),
        Ty::S8 => integer_schema(i8::MIN, i8::MAX),
        Ty::U8 => integer_schema(0, u8::MAX),
        Ty::S16 => integer_schema(i16::MIN, i16::MAX),
        Ty::U16 => integer_schema(0, u16::MAX),
        Ty::S32 => integer_schema(i32::MIN, i32::MAX),
        Ty::U32 => integer_schema(0, u32::MAX),
        Ty::S64 => wide_integer_schema(integer_schema(i64::MIN, i64::MAX), pattern::signed_patterns()),
        Ty::U64 => wide_integer_schema(integer_schema(0, u64::MAX), pattern::unsigned_patterns()),
        Ty::F32 => {
            float_schema(json!({"type": "number", "minimum": f64::from(f32::MIN), "maximum": f64::from(f32::MAX)}))
        }
        Ty::F64 => float_schema(json!({"type": "number"})),
        Ty::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        _ => json!({"type": "string"}),
    }
}

fn integer_schema(min: impl Into<Value>, max: impl Into<Value>) -> Value {
    json!({"type": "integer", "minimum": min.into(), "maximum": max.into()})
}

fn wide_integer_schema(number: Value, pieces: [String; 2]) -> Value {
    let [first, second] = pieces.map(|pattern| json!({"type": "string", "pattern": pattern}));
    json!({"anyOf": [number, first, second], "description": "An integer, or a string of digits."})
}

fn float_schema(number: Value) -> Value {
    json!({"anyOf": [number, {"enum": [NOT_A_NUMBER, INFINITY, NEGATIVE_INFINITY]}]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::typed::TypeDoc;
    use expect_test::{Expect, expect};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn record(fields: &[(&str, Ty)]) -> Ty {
        Ty::Record(fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect())
    }

    fn option(inner: Ty) -> Ty {
        Ty::Option(Box::new(inner))
    }

    fn result(ok: Option<Ty>, err: Option<Ty>) -> Ty {
        Ty::Result { ok: ok.map(Box::new), err: err.map(Box::new) }
    }

    /// Checks the values that the schema of a parameter `p` accepts and rejects.
    fn check(ty: &Ty, accepted: &[Value], refused: &[Value]) {
        let function = TypedFunction { params: vec![("p".to_owned(), ty.clone())], result: None };
        let schema = function.input_schema(&TypeDocs::new());
        jsonschema::meta::validate(&schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (values, expected) in [(accepted, true), (refused, false)] {
            for value in values {
                assert_eq!(validator.is_valid(&json!({ "p": value })), expected, "{ty}: {value}");
            }
        }
        assert_eq!(validator.is_valid(&json!({})), ty.is_option(), "{ty}: left out");
        assert!(!validator.is_valid(&json!({"p": accepted.first(), "q": 1})), "{ty}: unknown argument");
    }

    #[test]
    fn accepts_scalars_in_range() {
        check(&Ty::Bool, &[json!(true)], &[json!(0), json!("true"), json!(null)]);
        check(&Ty::U8, &[json!(0), json!(255), json!(7.0)], &[json!(-1), json!(256), json!(1.5), json!("1")]);
        check(&Ty::S8, &[json!(-128), json!(127)], &[json!(-129), json!(128)]);
        check(&Ty::U32, &[json!(4_294_967_295_u32)], &[json!(4_294_967_296_u64), json!(-1)]);
        check(&Ty::S32, &[json!(i32::MIN)], &[json!(i64::from(i32::MIN) - 1)]);
        check(
            &Ty::U64,
            &[json!(0), json!(u64::MAX), json!("18446744073709551615"), json!(1e3)],
            &[json!(-1), json!(18_446_744_073_709_551_616.0), json!("18446744073709551616"), json!("01"), json!("")],
        );
        check(
            &Ty::S64,
            &[json!(i64::MIN), json!(i64::MAX), json!("-9223372036854775808"), json!(-9.0e18)],
            // The shortest text of the least number as a float is `-9.223372036854776e+18`, which is less than that.
            &[
                json!(u64::MAX),
                json!(-9_223_372_036_854_775_808.0),
                json!(9_223_372_036_854_775_808.0),
                json!("9223372036854775808"),
                json!("-0"),
            ],
        );
        check(&Ty::F64, &[json!(1), json!(0.1), json!("NaN"), json!("-Infinity")], &[json!("1"), json!("nan")]);
        check(&Ty::F32, &[json!(f64::from(f32::MAX)), json!(0.1), json!("Infinity")], &[json!(1e39), json!(-1e39)]);
        check(&Ty::Char, &[json!("a"), json!("𝄞")], &[json!(""), json!("ab"), json!("e\u{301}")]);
        check(&Ty::String, &[json!(""), json!("text")], &[json!(1), json!(null)]);
    }

    #[test]
    fn accepts_compound_types_in_exact_form() {
        let list = Ty::List(Box::new(Ty::U8));
        check(&list, &[json!([]), json!([1, 2])], &[json!([256]), json!("AQI="), json!({})]);
        let tuple = Ty::Tuple(vec![Ty::String, Ty::Bool]);
        check(&tuple, &[json!(["a", true])], &[json!(["a"]), json!(["a", true, 1]), json!([true, "a"])]);
        let person = record(&[("name", Ty::String), ("age", option(Ty::U8))]);
        check(
            &person,
            &[json!({"name": "a"}), json!({"name": "a", "age": 3}), json!({"name": "a", "age": null})],
            &[json!({"age": 3}), json!({"name": "a", "years": 3}), json!({"name": null})],
        );
        let shape = Ty::Variant(vec![("dot".to_owned(), None), ("circle".to_owned(), Some(Ty::F64))]);
        check(
            &shape,
            &[json!({"tag": "dot"}), json!({"tag": "circle", "val": 1.5})],
            &[json!("dot"), json!({"tag": "dot", "val": null}), json!({"tag": "circle"}), json!({"tag": "square"})],
        );
        check(&Ty::Enum(names(&["a", "b"])), &[json!("a")], &[json!("c"), json!(0)]);
        let flags = Ty::Flags(names(&["r", "w"]));
        check(&flags, &[json!([]), json!(["w", "r"])], &[json!(["r", "r"]), json!(["x"]), json!({"r": true})]);
    }

    #[test]
    fn distinguishes_absent_from_present_values() {
        check(&option(Ty::String), &[json!(null), json!("a")], &[json!(1), json!({"some": "a"})]);
        let nested = option(option(Ty::Bool));
        check(
            &nested,
            &[json!(null), json!({"some": null}), json!({"some": true})],
            &[json!(true), json!({}), json!({"some": {"some": true}})],
        );
        let list = Ty::List(Box::new(option(Ty::Bool)));
        check(&list, &[json!([null, true])], &[json!([1])]);
        check(
            &result(None, None),
            &[json!({"ok": null}), json!({"err": null})],
            &[json!({}), json!({"ok": 1}), json!(null)],
        );
        check(
            &result(Some(Ty::U8), Some(Ty::String)),
            &[json!({"ok": 1}), json!({"err": "e"})],
            &[json!({"ok": "e"}), json!({"ok": 1, "err": "e"}), json!({"err": null})],
        );
    }

    fn check_text(value: &Value, expected: &Expect) {
        expected.assert_eq(&value.to_string());
    }

    #[test]
    fn writes_readable_schemas() {
        let person = record(&[("name", Ty::String), ("age", option(Ty::U8))]);
        let mood = Ty::Enum(names(&["glad", "sad"]));
        let mut docs = TypeDocs::new();
        let items = [("name".to_owned(), "As spoken.".to_owned())].into_iter().collect();
        docs.add(person.clone(), TypeDoc { text: Some("Who.".to_owned()), items });
        let items = [("glad".to_owned(), "Not sad.".to_owned())].into_iter().collect();
        docs.add(mood.clone(), TypeDoc { text: None, items });
        docs.add(Ty::F64, TypeDoc { text: Some("Not for every f64.".to_owned()), ..TypeDoc::default() });
        let params = [("who", person), ("mood", mood), ("height", Ty::F64), ("width", Ty::F64)];
        let function = TypedFunction {
            params: params.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect(),
            result: Some(result(Some(Ty::F32), None)),
        };
        check_text(
            &function.input_schema(&docs),
            &expect![[
                r##"{"type":"object","properties":{"who":{"type":"object","properties":{"name":{"type":"string","description":"As spoken."},"age":{"anyOf":[{"type":"integer","minimum":0,"maximum":255},{"type":"null"}]}},"required":["name"],"additionalProperties":false,"description":"Who."},"mood":{"type":"string","enum":["glad","sad"],"description":"`glad`: Not sad."},"height":{"$ref":"#/$defs/f64"},"width":{"$ref":"#/$defs/f64"}},"required":["who","mood","height","width"],"additionalProperties":false,"$defs":{"f64":{"anyOf":[{"type":"number"},{"enum":["NaN","Infinity","-Infinity"]}]}}}"##
            ]],
        );
        check_text(
            &function.output_schema(&docs).unwrap(),
            &expect![[
                r#"{"anyOf":[{"type":"number","minimum":-3.4028234663852886e+38,"maximum":3.4028234663852886e+38},{"enum":["NaN","Infinity","-Infinity"]}]}"#
            ]],
        );
    }

    #[test]
    fn omits_output_schema_of_text_and_unit() {
        fn check(result: Option<Ty>, expected: bool) {
            let function = TypedFunction { params: vec![], result };
            assert_eq!(function.output_schema(&TypeDocs::new()).is_some(), expected, "{function}");
        }

        check(None, false);
        check(Some(Ty::String), false);
        check(Some(result(None, Some(Ty::U8))), false);
        check(Some(result(Some(Ty::String), None)), false);
        check(Some(Ty::Char), true);
        check(Some(option(Ty::String)), true);
        check(Some(result(Some(result(None, None)), None)), true);
    }

    #[test]
    fn shares_pattern_of_many_wide_integers() {
        let fields: Vec<_> = (0..200).map(|at| (format!("f{at}"), Ty::U64)).collect();
        let function = TypedFunction { params: vec![("all".to_owned(), Ty::Record(fields))], result: None };
        let text = function.input_schema(&TypeDocs::new()).to_string();
        assert_eq!(text.matches("pattern").count(), 2);
        assert!(text.len() < 16 << 10, "{}", text.len());
    }
}
