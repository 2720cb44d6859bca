// Joins the module of a project, its packages and the SDK in one module, by esbuild. Errors of the sources go to stdout, with exit code 3.

import { writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join } from "node:path";
import { build } from "esbuild";

const [folder, module, http, output, positionsOutput, form] = process.argv.slice(1);
/** Whether the result is a script for the interpreter of `development.js`, and no module of a component. */
const isScript = form === "script";
/** Exit code after an error in the sources. */
const WRONG = 3;

const EXPORTS = isScript
  ? 'import { tools } from "fumehood-tool/component";\nglobalThis.fumehoodProgram = tools;'
  : 'export { tools } from "fumehood-tool/component";';
const ENTRY = `
import "fumehood-tool/engine";
import ${JSON.stringify(`./${module}`)};
${EXPORTS}
`;

/** What to use in place of modules of Node. */
const REMEDIES = {
  buffer: "use Uint8Array, or the package `buffer` of npm",
  crypto: "use the global `crypto`",
  events: "use EventTarget, or the package `events` of npm",
  http: "use `fetch`",
  https: "use `fetch`",
  path: "use the package `path-browserify` of npm",
  stream: "use ReadableStream",
  timers: "use setTimeout",
  url: "use the global `URL`",
  util: "use the package `util` of npm",
};
const NO_REMEDY = "leave it out, or use a package that is made for browsers";

/** Says what to do about a message of esbuild. */
function advise(text) {
  const name = /^Could not resolve "(.*)"$/.exec(text)?.[1];
  if (name === undefined) {
    return text;
  }
  if (isBuiltin(name)) {
    const plain = name.replace(/^node:/, "");
    const remedy = REMEDIES[plain.split("/")[0]] ?? NO_REMEDY;
    return `\`${name}\` is a module of Node, which components do not have; ${remedy}`;
  }
  if (name.startsWith(".") || name.startsWith("/")) {
    return `there is no file \`${name}\``;
  }
  const parts = name.split("/");
  const root = name.startsWith("@") ? parts.slice(0, 2).join("/") : parts[0];
  return `the package \`${root}\` is not installed; \`npm install ${root}\` gets it`;
}

/** Returns file, line and excerpt of an error. */
function describe({ text, location }) {
  if (location === null) {
    return advise(text);
  }
  const { file, line, column, lineText } = location;
  const before = Buffer.from(lineText).subarray(0, column).toString().replace(/[^\t]/g, " ");
  return `${file}:${line}: ${advise(text)}\n  ${lineText}\n  ${before}^`;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Returns the numbers of a segment of a source map. */
function decodeSegment(segment) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const character of segment) {
    const digit = DIGITS.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if ((digit & 32) === 0) {
      numbers.push(value & 1 ? -(value >> 1) : value >> 1);
      value = 0;
      shift = 0;
    }
  }
  return numbers;
}

/** Returns the positions of a source map as `stack.js` of the SDK reads them, `offset` lines further down. */
function findPositions({ sources, mappings }, offset) {
  const rows = [];
  let file = 0;
  let line = 0;
  for (const [index, segments] of mappings.split(";").entries()) {
    let column = 0;
    for (const segment of segments === "" ? [] : segments.split(",")) {
      const [columns, files = 0, lines = 0] = decodeSegment(segment);
      column += columns;
      file += files;
      line += lines;
      const row = [index + 1 + offset, column, file, line + 1];
      const last = rows.at(-1);
      const isFollowed = last !== undefined && last[2] === file && last[3] + row[0] - last[0] === row[3];
      if (!isFollowed) {
        rows.push(row);
      }
    }
  }
  return { files: sources, rows };
}

/** Returns the characters with a property of Unicode as a part of a class, such as `\u{41}-\u{5a}`. */
function findCharacters(property, everything) {
  const ranges = [];
  for (const { 0: run } of everything.matchAll(new RegExp(`${property}+`, "gu"))) {
    const isAstral = run.length > 1 && run.codePointAt(run.length - 2) > 0xffff;
    const last = isAstral ? run.codePointAt(run.length - 2) : run.charCodeAt(run.length - 1);
    ranges.push(`\\u{${run.codePointAt(0).toString(16)}}-\\u{${last.toString(16)}}`);
  }
  return ranges.join("");
}

/** Returns the characters of the properties of Unicode that patterns in a text may name. */
function findProperties(text) {
  const names = new Set(Array.from(text.matchAll(/\\([pP])\{(\w+(?:=\w+)?)\}/g), ([, letter, name]) => letter + name));
  const properties = {};
  let everything;
  for (const name of names) {
    everything ??= Array.from({ length: 0x110000 }, (_, point) =>
      point >= 0xd800 && point < 0xe000 ? "" : String.fromCodePoint(point),
    ).join("");
    try {
      properties[name] = findCharacters(`\\${name[0]}{${name.slice(1)}}`, everything);
    } catch {
      // No property: the engine says so where the pattern is used.
    }
  }
  return properties;
}

/** Takes the interfaces of the host from where the interpreter keeps them: a script has no imports. */
const hostOfInterpreter = {
  name: "host",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^fumehood:/ }, ({ path }) => ({ path, namespace: "host" }));
    onLoad({ filter: /.*/, namespace: "host" }, ({ path }) => ({
      contents: `module.exports = globalThis.fumehoodHost[${JSON.stringify(path)}];`,
    }));
  },
};

const options = {
  stdin: { contents: ENTRY, resolveDir: folder, sourcefile: "fumehood-entry.js" },
  absWorkingDir: folder,
  outfile: join(folder, "bundle.js"),
  bundle: true,
  write: false,
  format: "esm",
  platform: "browser",
  conditions: ["fumehood"],
  external: isScript ? [] : ["fumehood:*"],
  plugins: isScript ? [hostOfInterpreter] : [],
  loader: { ".txt": "text", ".md": "text", ".html": "text" },
  define: { "process.env.NODE_ENV": '"production"', ...(isScript && { "import.meta": "{}" }) },
  target: "es2024",
  // So that patterns with properties of Unicode are made by `RegExp`, which the SDK completes.
  supported: {
    "regexp-set-notation": false,
    "regexp-sticky-and-unicode-flags": false,
    "regexp-unicode-property-escapes": false,
  },
  sourcemap: "external",
  sourcesContent: false,
  logLevel: "silent",
};

try {
  const { outputFiles, warnings } = await build(options);
  const [map, bundle] = outputFiles.sort((one, other) => other.path.length - one.path.length);
  const positions = JSON.stringify(findPositions(JSON.parse(map.text), 1));
  const facts = { module, hasHttp: http === "http", properties: findProperties(bundle.text), positions };
  const begin = `globalThis.fumehoodBuild = ${JSON.stringify(facts)};`;
  // Positions count on one line before the modules. The name of the script is the one that `stack.js` looks for.
  const text = isScript
    ? `${begin} (async () => { "use strict";\n${bundle.text}\n})();\n//# sourceURL=bundle.js\n`
    : `${begin}\n${bundle.text}`;
  await writeFile(output, text);
  await writeFile(positionsOutput, positions);
  process.stderr.write(warnings.map(describe).join("\n"));
} catch (error) {
  if (error.errors === undefined) {
    throw error;
  }
  process.stdout.write(error.errors.map(describe).join("\n"));
  process.exitCode = WRONG;
}
