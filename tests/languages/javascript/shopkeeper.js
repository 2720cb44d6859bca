// The shop in JavaScript: what ComponentizeJS makes a component of.

// ComponentizeJS 0.23 crashes when the result is negative and nothing but an s64 (its issue 343).
export function add(a, b) {
  return a + b;
}

export function spin() {
  for (;;) {}
}

export function hoard() {
  const kept = [];
  for (;;) {
    kept.push(new Uint8Array(1 << 20).fill(1));
  }
}

export function reach(target) {
  const refuse = (error) => {
    throw String(error);
  };
  return fetch(target).then((answer) => answer.text(), refuse);
}

export const orders = {
  addUp(lines) {
    if (lines.length === 0) {
      throw "an order has at least one line";
    }
    const total = lines.reduce((sum, line) => sum + BigInt(line.quantity) * line.price, 0n);
    return { total, items: lines.map((line) => line.item) };
  },
};
