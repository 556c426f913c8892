// Columns as they are sent: deltas from one value to the next, which are mostly 0.

export function summed(differences: number[]): Float64Array {
  const values = new Float64Array(differences.length);
  let sum = 0;
  for (let index = 0; index < values.length; index++) values[index] = sum += differences[index]!;
  return values;
}
