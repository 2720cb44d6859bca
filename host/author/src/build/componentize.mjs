import { writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [sourcePath, witPath, worldName, output, disabled] = process.argv.slice(1);
const disableFeatures = disabled.split(",").filter((feature) => feature !== "");
const { component } = await componentize({ sourcePath, witPath, worldName, disableFeatures });
await writeFile(output, component);
