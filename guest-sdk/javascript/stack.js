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
export function framesOf(stack, positions) {
  const frames = [];
  for (const text of String(stack).split("\n")) {
    const [, name, line, column] = FRAME.exec(text.trim()) ?? [];
    const source = line && findSource(positions, Number(line), Number(column) - 1);
    if (source && !source.file.startsWith(SDK)) {
      frames.push({ name, ...source });
    }
  }
  return frames;
}

/** Returns frames as lines. */
export function showFrames(frames) {
  return frames.map(({ name, file, line }) => `    at ${name && `${name} `}(${file}:${line})`);
}

/** Returns what was thrown and where, as people read it. */
export function describe(error, positions) {
  const head = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const frames = showFrames(framesOf(error?.stack, positions));
  const cause = error?.cause === undefined ? [] : [`caused by: ${describe(error.cause, positions)}`];
  return [head, ...frames, ...cause].join("\n");
}
