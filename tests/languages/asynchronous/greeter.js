export async function greet(name) {
  await Promise.all([Promise.resolve(), null]);
  return `Hello, ${name}`;
}

export async function fail() {
  throw "the reason";
}

export async function wait() {
  await new Promise(() => {});
}

export async function spin() {
  for (;;) await null;
}
