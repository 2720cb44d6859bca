// Tests of what the SDK adds to the engine. The module changes globals, so that it has a process of its own.

import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.fumehoodBuild = { properties: { "pL": "\\u{41}-\\u{5a}\\u{c4}-\\u{c4}" } };
const native = { random: Math.random, setTimeout };
const { beginCalls, isInCall } = await import("../engine.js");

test("properties of Unicode become characters", () => {
  assert.equal(new RegExp("^\\p{L}+$", "u").source, "^[\\u{41}-\\u{5a}\\u{c4}-\\u{c4}]+$");
  assert.equal(RegExp("[^\\[\\p{L}0]", "u").source, "[^\\[\\u{41}-\\u{5a}\\u{c4}-\\u{c4}0]");
  assert.equal(new RegExp("[\\p{L}--[A]]", "v").test("A"), false);
  assert.equal(new RegExp("[\\p{L}--[A]]", "v").test("Ä"), true);
  assert.equal(new RegExp("\\p{L}").source, "\\p{L}", "without u it means something else");
  assert.ok(new RegExp("a", "g") instanceof RegExp && /a/ instanceof RegExp && /a/.constructor === RegExp);
});

test("functions of the system are there once calls begin", async () => {
  assert.equal(typeof Math.random(), "number");
  assert.throws(() => setTimeout(() => {}, 1), /setTimeout is only there during a call/);
  assert.equal(isInCall(), false);
  beginCalls();
  assert.equal(isInCall(), true);
  assert.equal(Math.random, native.random);
  assert.equal(setTimeout, native.setTimeout);
  await assert.rejects(fetch("https://a.example"), /built without HTTP; set `"http": true`/);
});
