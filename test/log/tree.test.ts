import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { Edge, inclusionProof, leafOf, rootByProof } from '../../src/log/tree.js';

// The test vectors of RFC 6962's reference implementation (certificate-transparency, merkle_tree_test): leaves and roots by size.
const LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((hex) => Buffer.from(hex, 'hex'));
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];

test('trees have the roots of published vectors', () => {
  const edge = new Edge();
  expect(edge.root().toString('hex')).toBe(ROOTS[0]);
  for (const [at, leaf] of LEAVES.entries()) {
    edge.add(leafOf(leaf));
    expect(edge.root().toString('hex')).toBe(ROOTS[at + 1]);
    expect(new Edge(edge.size, edge.roots).root().toString('hex')).toBe(ROOTS[at + 1]);
  }
});

test('each leaf of each tree up to 70 leaves is proved, and no other leaf, place or size by the same hashes', () => {
  const leaves = Array.from({ length: 71 }, (_, at) => leafOf(Buffer.from(String(at))));
  for (let size = 1; size <= 70; size++) {
    const whole = new Edge();
    const befores = leaves.slice(0, size).map((leaf) => {
      const before = [...whole.roots];
      whole.add(leaf);
      return before;
    });
    // An oracle in other words: the definition in RFC 9162 §2.1.1.
    expect(whole.root().equals(rootOf(leaves.slice(0, size)))).toBe(true);
    for (let index = 0; index < size; index++) {
      const leaf = leaves[index] as Buffer;
      const proof = inclusionProof(index, befores[index] ?? [], leaves.slice(index + 1, size));
      const proves = (one: Buffer, at: number, of: number, hashes = proof) =>
        rootByProof(one, at, of, hashes)?.equals(whole.root()) === true;
      expect(proves(leaf, index, size), `${index} of ${size}`).toBe(true);
      expect(proves(leaves[index + 1] as Buffer, index, size)).toBe(false);
      for (const other of [index - 1, index + 1, size])
        if (other >= 0) expect(proves(leaf, other, size), `${index} as ${other} of ${size}`).toBe(false);
      expect(proves(leaf, index, size, proof.slice(1))).toBe(size === 1);
      expect(proves(leaf, index, size, [...proof, leaf])).toBe(false);
    }
  }
});

function rootOf(leaves: readonly Buffer[]): Buffer {
  const [only] = leaves;
  if (only !== undefined && leaves.length === 1) return only;
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  const [left, right] = [rootOf(leaves.slice(0, half)), rootOf(leaves.slice(half))];
  return createHash('sha256').update(Buffer.of(1)).update(left).update(right).digest();
}
