// Tests of the package, by `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { toContent } from "../content.js";
import { failureOf } from "../errors.js";
import { context, kv, Link, secrets, tool, ToolError } from "../index.js";
import { describe, framesOf } from "../stack.js";
import { callTool, tools } from "../tool.js";

const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

/** A schema as libraries have them: it makes JSON Schema, and converts. */
const standard = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: ({ count = 1 }) => (count > 9 ? { issues: [{ message: "too many", path: ["count"] }] } : { value: { count } }),
    jsonSchema: {
      input: ({ target }) => ({ $schema: target, type: "object" }),
      output: () => ({ type: "object" }),
    },
  },
};

test("a tool is an ordinary function", async () => {
  const shout = tool({ name: "shout", description: "Shouts.", input: text, run: ({ text }) => text.toUpperCase() });
  assert.equal(shout.run({ text: "a" }), "A");
  assert.equal(await callTool(tools.get("shout"), { text: "b" }), "B");
  assert.deepEqual(tools.get("shout").inputSchema, text);
});

test("a library makes the schema, fills in defaults and refuses", async () => {
  tool({ name: "count", description: "Counts.", input: standard, output: standard, run: async ({ count }) => ({ count: count * 5 }) });
  const count = tools.get("count");
  assert.deepEqual(count.inputSchema, { $schema: "draft-2020-12", type: "object" });
  assert.deepEqual(await callTool(count, {}), { count: 5 });
  const refused = { kind: "invalid_arguments", message: "/count: too many" };
  await assert.rejects(callTool(count, { count: 10 }), refused);
  await assert.rejects(callTool(count, { count: 2 }), /the result does not match `output`: \/count: too many/);
});

test("a wrong definition is refused in words", () => {
  const define = (changes) => () => tool({ name: "fine", description: "Fine.", run() {}, ...changes });
  assert.throws(define({ name: "Not fine" }), /up to 64 of a-z, 0-9, _ and -, not "Not fine"/);
  assert.throws(define({ name: "shout" }), /two tools have the name `shout`/);
  assert.throws(define({ description: "" }), /`fine` has no `description`/);
  assert.throws(define({ run: undefined }), /`fine` has no function `run`/);
  assert.throws(define({ inputs: text }), /unknown option `inputs`; known are name, /);
  assert.throws(define({ input: { type: "string" } }), /is no schema of an object/);
  assert.throws(define({ input: "text" }), /is no JSON Schema and no schema of a library/);
  const old = { "~standard": { version: 1, vendor: "old", validate: (value) => ({ value }) } };
  assert.throws(define({ input: old }), /is a schema of old without `~standard.jsonSchema`/);
  assert.equal(tools.has("fine"), false);
});

test("results become parts", async () => {
  assert.deepEqual(await toContent(undefined), []);
  assert.deepEqual(await toContent("a"), [{ tag: "text", val: "a" }]);
  assert.deepEqual(await toContent({ a: [null] }), [{ tag: "json", val: '{"a":[null]}' }]);
  assert.deepEqual(await toContent(Uint8Array.of(1)), [
    { tag: "blob", val: { mimeType: "application/octet-stream", data: Uint8Array.of(1) } },
  ]);
  const parts = await toContent(["a", new Blob(["b"], { type: "text/css" }), new Link("https://c.example", { title: "C" })]);
  assert.deepEqual(parts.map(({ tag, val }) => [tag, val.mimeType ?? val.title ?? val]), [
    ["text", "a"],
    ["blob", "text/css"],
    ["link", "C"],
  ]);
  await assert.rejects(toContent(() => {}), /a result is data, not function/);
});

test("failures have a kind and a message", () => {
  const later = new ToolError("later", "unavailable", { retryAfter: 2 });
  assert.deepEqual(failureOf(later), { kind: "unavailable", message: "later", retryAfter: 2 });
  assert.deepEqual(failureOf(new RangeError("far")), { kind: "failed", message: "RangeError: far" });
  assert.deepEqual(failureOf("text"), { kind: "failed", message: "text" });
  assert.throws(() => new ToolError("a", "lost"), /`lost` is no kind of failure/);
});

test("values stay in memory outside a component", () => {
  kv.set("b", "ä");
  kv.set("a", Uint8Array.of(1));
  assert.deepEqual([...kv.keys()], ["a", "b"]);
  assert.deepEqual([kv.getText("b"), kv.get("a"), kv.get("c")], ["ä", Uint8Array.of(1), undefined]);
  assert.deepEqual([kv.delete("a"), kv.delete("a"), [...kv.keys("a")]], [true, false, []]);
  assert.deepEqual([context.remaining, context.state, secrets.exists("a")], [Infinity, undefined, false]);
});

test("frames have the lines of the sources", () => {
  const positions = {
    files: ["node_modules/fumehood-tool/tool.js", "tool.ts"],
    rows: [[2, 0, 0, 1], [10, 0, 1, 5], [12, 0, 1, 20], [12, 8, 1, 30]],
  };
  const stack = "run@bundle.js:11:3\nasync*call@bundle.js:3:1\n@bundle.js:12:7\nf@bundle.js:12:9\ncall@initializer.js:1:1\n";
  const found = framesOf(stack, positions).map(({ name, file, line }) => `${name}@${file}:${line}`);
  assert.deepEqual(found, ["run@tool.ts:6", "@tool.ts:20", "f@tool.ts:30"]);
  const error = Object.assign(new Error("outer", { cause: "inner" }), { stack: "run@bundle.js:10:1" });
  assert.equal(describe(error, positions), "Error: outer\n    at run (tool.ts:5)\ncaused by: inner");
});
