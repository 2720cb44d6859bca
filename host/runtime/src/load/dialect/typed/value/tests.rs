//! Round trips of values, and agreement of the generated schema with the conversion.

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::schema::typed::{Ty, TypeDocs, TypedFunction};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};
use wasmtime::component::Val;

use super::*;

fn to_json(val: &Val, ty: &Ty) -> Result<String, ValueError> {
    let shape = Shape::from(ty);
    let mut writer = JsonWriter::new(val, &shape, usize::MAX);
    while writer.advance(1)?.is_some() {}
    Ok(writer.into_text())
}

fn from_json(value: &Value, ty: &Ty) -> Result<Val, ValueError> {
    JsonReader::new(None).read(value, &Shape::from(ty))
}

fn check(ty: &Ty, val: &Val, expected: &str) {
    let text = to_json(val, ty).unwrap();
    assert_eq!(text, expected, "{ty}");
    assert_eq!(from_json(&serde_json::from_str(&text).unwrap(), ty).as_ref(), Ok(val), "{ty}");
}

fn some(val: Val) -> Val {
    Val::Option(Some(Box::new(val)))
}

#[test]
fn numbers_keep_their_value() {
    check(&Ty::U64, &Val::U64((1 << 53) - 1), "9007199254740991");
    check(&Ty::U64, &Val::U64(1 << 53), r#""9007199254740992""#);
    check(&Ty::U64, &Val::U64(u64::MAX), r#""18446744073709551615""#);
    check(&Ty::S64, &Val::S64(-(1 << 53) + 1), "-9007199254740991");
    check(&Ty::S64, &Val::S64(i64::MIN), r#""-9223372036854775808""#);
    check(&Ty::F32, &Val::Float32(0.1), "0.10000000149011612");
    check(&Ty::F32, &Val::Float32(f32::MAX), "3.4028234663852886e+38");
    check(&Ty::F64, &Val::Float64(-0.0), "-0.0");
    check(&Ty::F64, &Val::Float64(5e-324), "5e-324");
    check(&Ty::F64, &Val::Float64(f64::NAN), r#""NaN""#);
    check(&Ty::F32, &Val::Float32(f32::NEG_INFINITY), r#""-Infinity""#);
}

fn record_value(a: Val, n: Val) -> Val {
    let fields = [("z", Val::U8(1)), ("a", a), ("n", n)];
    Val::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[test]
fn compound_values_keep_their_form() {
    let nested = Ty::Option(Box::new(Ty::Option(Box::new(Ty::Bool))));
    check(&nested, &Val::Option(None), "null");
    check(&nested, &some(Val::Option(None)), r#"{"some":null}"#);
    check(&nested, &some(some(Val::Bool(true))), r#"{"some":true}"#);
    let fields = [("z", Ty::U8), ("a", Ty::Option(Box::new(Ty::Char))), ("n", nested)];
    let record = Ty::Record(fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect());
    check(&record, &record_value(Val::Option(None), Val::Option(None)), r#"{"z":1}"#);
    check(
        &record,
        &record_value(some(Val::Char('"')), some(Val::Option(None))),
        r#"{"z":1,"a":"\"","n":{"some":null}}"#,
    );
    let result = Ty::Result { ok: None, err: Some(Box::new(Ty::String)) };
    check(&result, &Val::Result(Ok(None)), r#"{"ok":null}"#);
    check(&result, &Val::Result(Err(Some(Box::new(Val::String("e".to_owned()))))), r#"{"err":"e"}"#);
    let variant = Ty::Variant(vec![("none".to_owned(), None), ("one".to_owned(), Some(Ty::U8))]);
    check(&variant, &Val::Variant("none".to_owned(), None), r#"{"tag":"none"}"#);
    check(&variant, &Val::Variant("one".to_owned(), Some(Box::new(Val::U8(1)))), r#"{"tag":"one","val":1}"#);
    let flags = Ty::Flags(vec!["r".to_owned(), "w".to_owned()]);
    check(&flags, &Val::Flags(vec!["r".to_owned(), "w".to_owned()]), r#"["r","w"]"#);
    assert_eq!(from_json(&json!(["w", "r"]), &flags), from_json(&json!(["r", "w"]), &flags));
}

#[test]
fn argument_errors_name_path_and_accepted_form() {
    let ty = Ty::Record(vec![("ages".to_owned(), Ty::List(Box::new(Ty::U8)))]);
    let refused = |value: Value| from_json(&value, &ty).unwrap_err().to_string();
    assert_eq!(refused(json!({"ages": [1, 256]})), "the argument at `/ages/1` must be a whole number that fits `u8`");
    assert_eq!(refused(json!({})), "the arguments must be an object with `ages`");
}

#[test]
fn rejects_returned_values_of_another_type() {
    for (ty, val) in [
        (Ty::U8, Val::U16(1)),
        (Ty::Tuple(vec![Ty::U8]), Val::Tuple(vec![])),
        (Ty::Record(vec![("a".to_owned(), Ty::U8)]), Val::Record(vec![("b".to_owned(), Val::U8(1))])),
        (Ty::Variant(vec![("a".to_owned(), None)]), Val::Variant("a".to_owned(), Some(Box::new(Val::U8(1))))),
        (Ty::Result { ok: None, err: None }, Val::Result(Ok(Some(Box::new(Val::U8(1)))))),
    ] {
        assert!(matches!(to_json(&val, &ty), Err(ValueError::Answer(_))), "{ty}");
    }
}

/// Names that also occur in the encoding itself, to make confusion likely.
const NAMES: [&str; 6] = ["ok", "err", "some", "tag", "val", "a-b"];

fn names() -> impl Strategy<Value = Vec<String>> {
    subsequence(NAMES.to_vec(), 1..=3).prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

fn ty() -> impl Strategy<Value = Ty> {
    let scalars = [
        Ty::Bool,
        Ty::S8,
        Ty::U8,
        Ty::S16,
        Ty::U16,
        Ty::S32,
        Ty::U32,
        Ty::S64,
        Ty::U64,
        Ty::F32,
        Ty::F64,
        Ty::Char,
        Ty::String,
    ];
    let leaf = prop_oneof![
        5 => select(scalars.to_vec()),
        1 => names().prop_map(Ty::Enum),
        1 => names().prop_map(Ty::Flags),
    ];
    leaf.prop_recursive(3, 12, 3, |part| {
        let boxed = part.clone().prop_map(Box::new);
        let parts = || vec(part.clone(), 3);
        prop_oneof![
            boxed.clone().prop_map(Ty::List),
            boxed.clone().prop_map(Ty::Option),
            vec(part.clone(), 1..=3).prop_map(Ty::Tuple),
            (names(), parts()).prop_map(|(names, parts)| Ty::Record(names.into_iter().zip(parts).collect())),
            (names(), vec(proptest::option::of(part.clone()), 3))
                .prop_map(|(names, parts)| Ty::Variant(names.into_iter().zip(parts).collect())),
            (proptest::option::of(boxed.clone()), proptest::option::of(boxed))
                .prop_map(|(ok, err)| Ty::Result { ok, err }),
        ]
    })
}

fn maybe(ty: Option<&Ty>) -> BoxedStrategy<Option<Box<Val>>> {
    ty.map_or_else(|| Just(None).boxed(), |ty| val(ty).prop_map(|val| Some(Box::new(val))).boxed())
}

fn val(ty: &Ty) -> BoxedStrategy<Val> {
    match ty.clone() {
        Ty::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        Ty::S8 => any::<i8>().prop_map(Val::S8).boxed(),
        Ty::U8 => any::<u8>().prop_map(Val::U8).boxed(),
        Ty::S16 => any::<i16>().prop_map(Val::S16).boxed(),
        Ty::U16 => any::<u16>().prop_map(Val::U16).boxed(),
        Ty::S32 => any::<i32>().prop_map(Val::S32).boxed(),
        Ty::U32 => any::<u32>().prop_map(Val::U32).boxed(),
        Ty::S64 => any::<i64>().prop_map(Val::S64).boxed(),
        Ty::U64 => any::<u64>().prop_map(Val::U64).boxed(),
        Ty::F32 => proptest::num::f32::ANY.prop_map(Val::Float32).boxed(),
        Ty::F64 => proptest::num::f64::ANY.prop_map(Val::Float64).boxed(),
        Ty::Char => any::<char>().prop_map(Val::Char).boxed(),
        Ty::String => any::<String>().prop_map(Val::String).boxed(),
        Ty::List(item) => vec(val(&item), 0..=3).prop_map(Val::List).boxed(),
        Ty::Tuple(items) => items.iter().map(val).collect::<Vec<_>>().prop_map(Val::Tuple).boxed(),
        Ty::Record(fields) => {
            let values: Vec<_> = fields.iter().map(|(_, ty)| val(ty)).collect();
            let names: Vec<_> = fields.into_iter().map(|(name, _)| name).collect();
            values.prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect())).boxed()
        }
        Ty::Variant(cases) => select(cases)
            .prop_flat_map(|(name, ty)| (Just(name), maybe(ty.as_ref())))
            .prop_map(|(name, payload)| Val::Variant(name, payload))
            .boxed(),
        Ty::Enum(names) => select(names).prop_map(Val::Enum).boxed(),
        Ty::Flags(names) => subsequence(names.clone(), 0..=names.len()).prop_map(Val::Flags).boxed(),
        Ty::Option(inner) => prop_oneof![Just(None).boxed(), maybe(Some(&inner))].prop_map(Val::Option).boxed(),
        Ty::Result { ok, err } => prop_oneof![
            maybe(ok.as_deref()).prop_map(|value| Val::Result(Ok(value))),
            maybe(err.as_deref()).prop_map(|value| Val::Result(Err(value))),
        ]
        .boxed(),
    }
}

fn typed_val() -> impl Strategy<Value = (Ty, Val)> {
    ty().prop_flat_map(|ty| (Just(ty.clone()), val(&ty)))
}

fn gate(ty: &Ty) -> Gate {
    let function = TypedFunction { params: vec![("p".to_owned(), ty.clone())], result: None };
    Gate::for_arguments(&function.input_schema(&TypeDocs::new()), GateLimits::default()).unwrap()
}

/// Texts at the edge of some type.
const ODD_TEXTS: &[&str] = &[
    "",
    "a",
    "ab",
    "𝄞",
    "e\u{301}",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "0",
    "-0",
    "01",
    "+1",
    "1 ",
    "1\n",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "ok",
    "tag",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
];

/// Values at the edge of some type.
fn odd_json() -> impl Strategy<Value = Value> {
    let mut odd = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-0.0),
        json!(-1),
        json!(1.0),
        json!(1.5),
        json!(127),
        json!(128),
        json!(255),
        json!(256),
        json!(1e3),
        json!(65536),
        json!(1_u64 << 32),
        json!(1_u64 << 53),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(9_223_372_036_854_775_808.0),
        json!(18_446_744_073_709_551_616.0),
        json!(-9_223_372_036_854_775_808.0),
        json!(1e39),
        json!(-1e39),
        json!(f64::from(f32::MAX)),
        json!(1e308),
        json!([]),
        json!({}),
        json!([null]),
        json!(["ok", "ok"]),
        json!(["tag", "ok"]),
        json!({"ok": null}),
        json!({"err": null}),
        json!({"some": null}),
        json!({"tag": "ok"}),
        json!({"tag": "ok", "val": 0}),
        json!({"tag": "ok", "val": null}),
        json!({"tag": "a-b", "x": 1}),
        json!({"ok": 0, "err": 0}),
    ];
    for text in ODD_TEXTS {
        odd.push(json!(text));
    }
    select(odd)
}

/// Changes one place of a value: replaces it, removes an item, or inserts one.
fn change(value: &mut Value, path: &[Index], with: &Value) {
    let step = path.first().copied().zip(path.get(1..));
    match (value, step) {
        (Value::Array(items), Some((at, rest))) if !items.is_empty() => {
            let at = at.index(items.len());
            change(&mut items[at], rest, with);
        }
        (Value::Object(fields), Some((at, rest))) if !fields.is_empty() => {
            let at = at.index(fields.len());
            change(fields.values_mut().nth(at).unwrap(), rest, with);
        }
        (Value::Array(items), None) if with.is_null() => drop(items.pop()),
        (Value::Array(items), None) if with.is_boolean() => items.extend(items.first().cloned()),
        (Value::Object(fields), None) if with.is_null() => {
            let first = fields.keys().next().cloned();
            first.map(|name| fields.remove(&name));
        }
        (Value::Object(fields), None) if with.is_string() => {
            fields.insert(with.as_str().unwrap().to_owned(), json!(null));
        }
        (value, _) => *value = with.clone(),
    }
}

/// Returns whether a value is an integer that no 64-bit float has. A schema of numbers accepts it, and the conversion to a float
/// refuses it.
fn loses_digits(value: &Value) -> bool {
    let digits = value.to_string();
    digits.parse::<i128>().is_ok_and(|integer| integer as f64 as i128 != integer)
}

proptest! {
    #[test]
    fn values_fit_the_schema_and_round_trip((ty, val) in typed_val()) {
        let text = to_json(&val, &ty).unwrap();
        let arguments = gate(&ty).parse(&format!(r#"{{"p":{text}}}"#));
        prop_assert!(arguments.is_ok(), "{ty:?} {text} {arguments:?}");
        let json = arguments.unwrap()["p"].clone();
        let back = from_json(&json, &ty);
        prop_assert_eq!(back.as_ref(), Ok(&val));
        prop_assert_eq!(to_json(&back.unwrap(), &ty).unwrap(), text);
    }

    #[test]
    fn schema_and_conversion_agree(
        (ty, val) in typed_val(), path in vec(any::<Index>(), 0..4), odd in odd_json(),
    ) {
        let mut json: Value = serde_json::from_str(&to_json(&val, &ty).unwrap()).unwrap();
        change(&mut json, &path, &odd);
        prop_assume!(!loses_digits(&odd));
        let fits = gate(&ty).check(&json!({ "p": json }));
        let read = from_json(&json, &ty);
        prop_assert_eq!(fits.is_ok(), read.is_ok(), "{:?} {} {:?} {:?}", ty, json, fits, read);
    }

    #[test]
    fn odd_values_are_accepted_by_both_or_neither(ty in ty(), odd in odd_json()) {
        prop_assume!(!loses_digits(&odd));
        prop_assert_eq!(gate(&ty).check(&json!({ "p": odd })).is_ok(), from_json(&odd, &ty).is_ok(), "{:?} {}", ty, odd);
    }
}
