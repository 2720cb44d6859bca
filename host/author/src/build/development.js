// The module of an interpreter that reads its program from a granted folder in each call. `fumehood dev` builds it once.

import * as context from "fumehood:tool/context@0.1.0";
import * as keyValue from "fumehood:tool/key-value@0.1.0";
import * as log from "fumehood:tool/log@0.1.0";
import * as progress from "fumehood:tool/progress@0.1.0";
import * as secrets from "fumehood:tool/secrets@0.1.0";
import { getDirectories } from "wasi:filesystem/preopens@0.2.3";
import { framesOf, showFrames } from "./stack.js";

const PROGRAM_FOLDER = "/fumehood/program";
/** A script that leaves the exports of a component in `fumehoodProgram`. */
const PROGRAM_FILE = "modules";
/** The name of the only tool of a program that cannot be loaded. Its description is the error. */
const PROGRAM_ERROR = "program-error";
/** The module that the build puts before those of the project. */
const ENTRY = "fumehood-entry.js";
const MAX_READ_BYTES = 1n << 20n;
const MAX_DESCRIPTION_CHARACTERS = 2000;

// What the modules of a program import of the host.
globalThis.fumehoodHost = {
  "fumehood:tool/context@0.1.0": context,
  "fumehood:tool/key-value@0.1.0": keyValue,
  "fumehood:tool/log@0.1.0": log,
  "fumehood:tool/progress@0.1.0": progress,
  "fumehood:tool/secrets@0.1.0": secrets,
};

function readProgram() {
  const [folder] = getDirectories().find(([, path]) => path === PROGRAM_FOLDER);
  const file = folder.openAt({}, PROGRAM_FILE, {}, { read: true });
  const decoder = new TextDecoder();
  let text = "";
  let offset = 0n;
  for (let isEnd = false; !isEnd; ) {
    const [bytes, isLast] = file.read(MAX_READ_BYTES, offset);
    text += decoder.decode(bytes, { stream: true });
    offset += BigInt(bytes.length);
    isEnd = isLast || bytes.length === 0;
  }
  return text + decoder.decode();
}

/** Loads the program. A call begins in a fresh instance, so this happens once. */
async function load() {
  // Indirect, so that the program runs as a script of its own, and sees nothing of this module.
  await (0, eval)(readProgram());
  return globalThis.fumehoodProgram;
}

/** Returns the error of a program, with the place in its sources. */
function describeError(error) {
  const positions = globalThis.fumehoodBuild?.positions;
  const all = positions === undefined ? [] : framesOf(error?.stack, JSON.parse(positions));
  const frames = all.filter(({ file }) => file !== ENTRY);
  const place = frames.length === 0 ? "" : `${frames[0].file}:${frames[0].line}: `;
  return [place + String(error), ...showFrames(frames)].join("\n").slice(0, MAX_DESCRIPTION_CHARACTERS);
}

export const tools = {
  async describe() {
    let program;
    try {
      program = await load();
    } catch (error) {
      // A trap would have no words.
      return [{ name: PROGRAM_ERROR, description: describeError(error), inputSchema: '{"type": "object"}', annotations: {} }];
    }
    return program.describe();
  },

  async call(request) {
    let program;
    try {
      program = await load();
    } catch (error) {
      throw { kind: "failed", message: describeError(error) };
    }
    return program.call(request);
  },
};
