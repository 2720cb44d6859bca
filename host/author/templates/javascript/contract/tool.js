// Tools for language models.

import { tool, ToolError } from "fumehood-tool";

const MAX_GREETINGS = 10;

export const greet = tool({
  name: "greet",
  title: "Greet",
  description: "Greets somebody by name.",
  input: {
    type: "object",
    properties: {
      name: { type: "string", description: "The name of the person." },
      times: { type: "integer", description: "The number of greetings, from 1 to 10.", default: 1 },
    },
    required: ["name"],
  },
  readOnly: true,
  destructive: false,
  idempotent: true,
  openWorld: false,
  run({ name, times = 1 }) {
    if (times < 1 || times > MAX_GREETINGS) {
      throw new ToolError(`times is ${times}; expected a number from 1 to ${MAX_GREETINGS}`, "invalid_arguments");
    }
    return Array(times).fill(`Hello, ${name}.`).join(" ");
  },
});
