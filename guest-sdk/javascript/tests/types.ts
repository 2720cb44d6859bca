// Types that follow from schemas: what has no comment has to compile, and what has one must not.

import { tool } from "fumehood-tool";

const text = { type: "object", properties: { text: { type: "string" }, count: { type: ["integer", "null"] } }, required: ["text"] } as const;

tool({ name: "none", description: "None.", run: () => "x" });

tool({
  name: "data",
  description: "Data.",
  input: text,
  output: { type: "object", properties: { sizes: { type: "array", items: { type: "number" } } }, required: ["sizes"] },
  async run({ text, count }) {
    const size: number = text.length;
    const times: number | null | undefined = count;
    return { sizes: [size, times ?? 1] };
  },
});

tool({ name: "bytes", description: "Bytes.", input: text, run: ({ text }) => new Blob([text]) });

tool({
  name: "wrong_argument",
  description: "Wrong.",
  input: text,
  // @ts-expect-error
  run: ({ test }) => test,
});

tool({
  name: "wrong_result",
  description: "Wrong.",
  output: { type: "string" },
  // @ts-expect-error
  run: () => 1,
});

// @ts-expect-error
tool({ name: "no_function", description: "Wrong." });
