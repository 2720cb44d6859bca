// The definition of a tool, and the tools of a component.

import { ToolError } from "./errors.js";

const OPTIONS = [
  "name",
  "title",
  "description",
  "input",
  "output",
  "readOnly",
  "destructive",
  "idempotent",
  "openWorld",
  "run",
];
const DRAFT = "draft-2020-12";

/** The tools of the component, by name. */
export const tools = new Map();

export function tool(definition) {
  const { name, description, input = { type: "object", properties: {} }, output, run } = definition;
  if (typeof name !== "string" || !/^[a-z0-9_-]{1,64}$/.test(name)) {
    throw new TypeError(`a tool has a \`name\` of up to 64 of a-z, 0-9, _ and -, not ${JSON.stringify(name)}`);
  }
  if (tools.has(name)) {
    throw new TypeError(`two tools have the name \`${name}\``);
  }
  if (typeof description !== "string" || description === "") {
    throw new TypeError(`\`${name}\` has no \`description\`; a model reads it to choose the tool`);
  }
  if (typeof run !== "function") {
    throw new TypeError(`\`${name}\` has no function \`run\``);
  }
  const unknown = Object.keys(definition).find((option) => !OPTIONS.includes(option));
  if (unknown !== undefined) {
    throw new TypeError(`\`${name}\` has an unknown option \`${unknown}\`; known are ${OPTIONS.join(", ")}`);
  }
  const inputSchema = toJsonSchema(input, "input", name);
  if (inputSchema.type !== "object") {
    throw new TypeError(`\`input\` of \`${name}\` is no schema of an object; arguments have names`);
  }
  const outputSchema = output === undefined ? undefined : toJsonSchema(output, "output", name);
  tools.set(name, { ...definition, inputSchema, outputSchema });
  return definition;
}

/** Returns the JSON Schema of what the author wrote: one already, or an object of a library that can make one. */
function toJsonSchema(schema, side, name) {
  const standard = schema?.["~standard"];
  if (standard !== undefined) {
    if (standard.jsonSchema === undefined) {
      throw new TypeError(
        `\`${side}\` of \`${name}\` is a schema of ${standard.vendor} without \`~standard.jsonSchema\`; convert it, or use ` +
          "a version with Standard JSON Schema: zod 4.2, or `toStandardJsonSchema` of @valibot/to-json-schema",
      );
    }
    return standard.jsonSchema[side]({ target: DRAFT });
  }
  if (schema === null || typeof schema !== "object" || Array.isArray(schema)) {
    throw new TypeError(`\`${side}\` of \`${name}\` is no JSON Schema and no schema of a library such as zod`);
  }
  return schema;
}

/** Calls a tool with arguments that match its JSON Schema. */
export async function callTool({ input, output, run }, values) {
  const checked = await parse(input, values);
  if (checked.issues !== undefined) {
    throw new ToolError(describeIssues(checked.issues), "invalid_arguments");
  }
  const result = await run(checked.value);
  const made = await parse(output, result);
  if (made.issues !== undefined) {
    throw new TypeError(`the result does not match \`output\`: ${describeIssues(made.issues)}`);
  }
  return made.value;
}

/** Checks and converts a value as the library of its schema does. */
function parse(schema, value) {
  return schema?.["~standard"]?.validate(value) ?? { value };
}

function describeIssues(issues) {
  return issues.map(({ path = [], message }) => `/${path.map((part) => part?.key ?? part).join("/")}: ${message}`).join("; ");
}
