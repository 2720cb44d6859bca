import { writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [sourcePath, witPath, worldName, output, disabled, scratch] = process.argv.slice(1);
const disableFeatures = disabled.split(",").filter((feature) => feature !== "");
// The library names its working folder, which becomes part of the component, after a random number. Here it is in a
// folder of this build alone, so that the same name will do each time.
Math.random = () => 0.5;
const { component } = await componentize({ sourcePath, witPath, worldName, disableFeatures });
// The name of that folder is random as well: it is replaced by one of the same length.
const bytes = Buffer.from(component);
const name = Buffer.from(scratch);
for (let at = bytes.indexOf(name); at !== -1; at = bytes.indexOf(name, at)) {
  bytes.fill("-", at, at + name.length);
}
await writeFile(output, bytes);
