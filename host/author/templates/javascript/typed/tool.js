// Tools for language models, as plain functions of `wit/world.wit`: its comments are what a model reads.

const MAX_GREETINGS = 10;

export function greet(name, times = 1) {
  if (times < 1 || times > MAX_GREETINGS) {
    throw `${times} is not a number of greetings; give one from 1 to ${MAX_GREETINGS}`;
  }
  return Array(times).fill(`Hello, ${name}.`).join(" ");
}
