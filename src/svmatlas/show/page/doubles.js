// Sums and products of doubles with their exact rounding errors (engine/doubledouble.py; Dekker's product, for there is no fused one).

const SPLITTER = 2 ** 27 + 1;

export function productError(a, b, product) {
  let t = SPLITTER * a;
  const aHigh = t - (t - a);
  const aLow = a - aHigh;
  t = SPLITTER * b;
  const bHigh = t - (t - b);
  const bLow = b - bHigh;
  return aLow * bLow - (product - aHigh * bHigh - aLow * bHigh - aHigh * bLow);
}

// A sum of products with twice the precision, and a number subtracted from it.
export function dotMinus(a, b, number) {
  let sum = -number;
  let error = 0;
  for (let j = 0; j < a.length; j++) {
    const product = a[j] * b[j];
    const total = sum + product;
    const t = total - sum;
    error += sum - (total - t) + (product - t) + productError(a[j], b[j], product);
    sum = total;
  }
  return sum + error;
}

// a b - c d, rounded once: for short edges the products are almost equal.
export function differenceOfProducts(a, b, c, d) {
  const p = a * b;
  const q = c * d;
  return p - q + (productError(a, b, p) - productError(c, d, q));
}
