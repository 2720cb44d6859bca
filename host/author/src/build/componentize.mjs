// Makes a component of a module, by ComponentizeJS. An error of its top-level code goes to stdout, with exit code 3.

import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [sourcePath, witPath, worldName, output, disabled, scratch, positions] = process.argv.slice(1);
const disableFeatures = disabled.split(",").filter((feature) => feature !== "");
/** Exit code after an error in the sources. */
const WRONG = 3;

/** Returns the exception of the top-level code of a bundle, with the places of the sources. */
async function describe(message) {
  const [, rest] = message.split("Exception while evaluating top-level script\n");
  if (rest === undefined || positions === undefined) {
    return undefined;
  }
  const { framesOf, showFrames } = await import("fumehood-tool/stack");
  const [head] = rest.split("\n", 1);
  const [, first, text] = /^(.*?:\d+:\d+) (.*)$/.exec(head) ?? [];
  const stack = rest.split("\nStack:\n")[1] ?? `@${first}`;
  const frames = framesOf(stack, JSON.parse(await readFile(positions, "utf8")));
  const place = frames.length === 0 ? "" : `${frames[0].file}:${frames[0].line}: `;
  const remedy = /ReferenceError: (module|exports|require) is not defined/.test(text ?? head)
    ? "; the modules of a tool are ES modules: use `import` and `export`"
    : "";
  return [place + (text ?? head) + remedy, ...showFrames(frames)].join("\n");
}

// The library names its working folder, which becomes part of the component, after a random number. Here it is in a
// folder of this build alone, so that the same name will do each time.
Math.random = () => 0.5;
try {
  const { component } = await componentize({ sourcePath, witPath, worldName, disableFeatures });
  // The name of that folder is random as well: it is replaced by one of the same length.
  const bytes = Buffer.from(component);
  const name = Buffer.from(scratch);
  for (let at = bytes.indexOf(name); at !== -1; at = bytes.indexOf(name, at)) {
    bytes.fill("-", at, at + name.length);
  }
  await writeFile(output, bytes);
} catch (error) {
  const described = await describe(error.message);
  if (described === undefined) {
    throw error;
  }
  process.stdout.write(described);
  process.exitCode = WRONG;
}
