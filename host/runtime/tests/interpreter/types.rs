//! Programs in TypeScript.

use super::*;

#[tokio::test]
async fn types_are_removed() {
    let code = r#"
import type { Row } from "./rows";
interface Point { x: number; y?: number }
type Name = `p${string}` | null;
declare const nothing: unknown;
enumerable<string>("a");
function enumerable<T extends string>(value: T, other?: T): T[] { return [value, other!] }
class Box<T> implements Iterable<T> {
  private readonly items: T[] = []
  public ["size"]: number = 0;
  [key: string]: any;
  constructor(first: T) { super_(this, first); }
  add?(item: T): void { this.items.push(item) }
  *[Symbol.iterator](): Iterator<T> { yield* this.items }
}
function super_(box: Box<any>, first: unknown): asserts first { box.add(first) }
const points: Array<Point> = [{ x: 1 } satisfies Point, { x: 2, y: 3 } as const];
const add = async <T,>(a: number, b: number = 0): Promise<{
  sum: number;
}> => ({ sum: a + b });
const told = await tools.text_tools.echo_back<{ a: number }>({ a: 1 }) as { a: number }
const [first] = points as Point[]
let undecided: Name | undefined
[told.a].forEach((one: number): void => { undecided = `p${one}` as Name })
for (const point of points as Point[]) try { point.x! } catch (error: unknown) {}
const map = new Map<string, number>([["é" as string, 1]]);
return [(await add(told.a, first.x)).sum, undecided, [...new Box<string>("b")], map.get("é"), <any>points.length] as const
"#;
    assert_eq!(returned(code).await, r#"[2,"p1",["b"],1,2]"#);
}

#[tokio::test]
async fn positions_in_typed_programs_are_those_of_the_text() {
    let code =
        "const a: { é: string }[] = [];\nconst f = (x: number): never => { throw new Error('no') };\nf(1 as number);";
    let exception = thrown(code).await;
    assert_eq!((exception.message.as_str(), exception.line, exception.column), ("no", Some(2), Some(45)));
    for (code, line, column) in [
        ("const x: number = 1;\nreturn (x", 2, 10),
        ("let a: string;\nlet b: = 2;", 2, 8),
        ("```ts\nlet a: string = 'a';\nlet b = ;\n```", 3, 9),
    ] {
        let exception = thrown(code).await;
        assert_eq!(exception.name.as_str(), "SyntaxError", "{code}: {exception}");
        assert_eq!((exception.line, exception.column), (Some(line), Some(column)), "{code}: {exception}");
    }
}

#[tokio::test]
async fn typescript_that_has_to_be_compiled_is_refused_with_its_place() {
    for (code, what) in [
        ("let a: number;\nenum Color { Red }", "`enum`"),
        ("let a: number;\nnamespace N { export const a = 1 }", "`namespace`"),
        ("let a: number;\nclass A { constructor(private b: string) {} }", "a modifier"),
    ] {
        let exception = thrown(code).await;
        assert_eq!((exception.name.as_str(), exception.line), ("SyntaxError", Some(2)), "{code}: {exception}");
        assert!(exception.message.as_str().starts_with(what), "{code}: {exception}");
    }
}

#[tokio::test]
async fn valid_javascript_is_not_looked_at_for_types() {
    // Each means something else in TypeScript, or nothing.
    for (code, expected) in [
        ("const a = 1, b = 2, c = 0; return a < b > c", "true"),
        ("const type = 'type'; type\nreturn type", "\"type\""),
        ("let x = 1; const interface_ = x ? (x) : 2; return interface_", "1"),
        ("with ({a: 7}) { return a }", "7"),
        ("return 'a: number as string'", "\"a: number as string\""),
        ("const as = 1; return as", "1"),
        ("return /<T>(x: T)/.source", "\"<T>(x: T)\""),
    ] {
        assert_eq!(returned(code).await, expected, "{code}");
    }
    let exception = thrown("const x = ;").await;
    assert_eq!((exception.name.as_str(), exception.line), ("SyntaxError", Some(1)));
}

#[tokio::test]
async fn hostile_types_stay_in_the_sandbox() {
    for code in [
        format!("let a: {}", "(".repeat(60_000)),
        format!("let a: {}number{}", "Array<".repeat(10_000), ">".repeat(10_000)),
        format!("let a: number = {}", "[".repeat(60_000)),
        format!("let a: string;{}", "<T>".repeat(20_000)),
        "let a: '\u{2028}\u{feff}".to_owned(),
    ] {
        match run(program(&code)).await.outcome {
            Err(ProgramError::Exception(exception)) => {
                assert!(matches!(exception.name.as_str(), "SyntaxError" | "RangeError"), "{exception}");
            }
            Err(ProgramError::Failed(error)) => assert_eq!(error.kind, ErrorKind::Trap, "{error:?}"),
            other => panic!("{other:?}"),
        }
    }
    // The next program has an instance of its own.
    assert_eq!(returned("return 1 as number").await, "1");
}
