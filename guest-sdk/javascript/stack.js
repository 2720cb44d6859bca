// The stack of an error, with the author's files and lines.

const FRAME = /^(?:async\*)?(.*)@(?:.*\/)?bundle\.js:(\d+):(\d+)$/;
/** The part of the path of a frame that belongs to the SDK. */
const SDK = "node_modules/fumehood-tool/";

/**
 * Returns the place in the sources of a place in the bundle. `positions` has the names of the files, and rows of numbers: line and column in
 * the bundle, index of the file, and its line. The lines after a row count on until the next one.
 */
export function findSource({ files, rows }, line, column) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const [rowLine, rowColumn] = rows[middle];
    if (rowLine < line || (rowLine === line && rowColumn <= column)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const row = rows[low - 1];
  return row && { file: files[row[2]], line: row[3] + line - row[0] };
}

/** Returns the frames of the author and of the libraries in a stack: functions, files and lines. */
export function framesOf(error, positions) {
  const frames = [];
  for (const text of String(error?.stack ?? "").split("\n")) {
    const found = FRAME.exec(text);
    const source = found && findSource(positions, Number(found[2]), Number(found[3]) - 1);
    if (source && !source.file.startsWith(SDK)) {
      frames.push({ name: found[1], ...source });
    }
  }
  return frames;
}

/** Returns what was thrown and where, as people read it. */
export function describe(error, positions) {
  const head = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const frames = framesOf(error, positions).map(({ name, file, line }) => `    at ${name && `${name} `}(${file}:${line})`);
  const cause = error?.cause === undefined ? [] : [`caused by: ${describe(error.cause, positions)}`];
  return [head, ...frames, ...cause].join("\n");
}
