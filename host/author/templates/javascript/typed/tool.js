// Tools for language models, as functions of `wit/world.wit`. Models read the comments there.

const MAX_GREETINGS = 10;

export function greet(name, times = 1) {
  if (times < 1 || times > MAX_GREETINGS) {
    throw `times is ${times}; expected a number from 1 to ${MAX_GREETINGS}`;
  }
  return Array(times).fill(`Hello, ${name}.`).join(" ");
}
