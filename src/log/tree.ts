import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';

// A leaf and a node begin with different bytes, so that none can be taken for the other: RFC 9162 §2.1.1, as in RFC 6962.
const LEAF = Buffer.of(0);
const node = Buffer.alloc(65, 1);
const sha256 = (bytes: Uint8Array): Buffer => hash('sha256', bytes, 'buffer');

/** The hash of a line, which stands for it in the tree. */
export const leafOf = (line: Uint8Array): Buffer => leafOfMarked(Buffer.concat([LEAF, line]));

/** The same of a line behind a zero byte: nothing is copied. */
export const leafOfMarked = (bytes: Uint8Array): Buffer => sha256(bytes);

const EMPTY = sha256(Buffer.alloc(0));
function join(left: Uint8Array, right: Uint8Array): Buffer {
  node.set(left, 1);
  node.set(right, 33);
  return sha256(node);
}

/**
 * The right edge of a Merkle tree: all that is needed to add to it. It has the roots of the complete subtrees, largest first: one
 * for each binary digit 1 of the size.
 */
export class Edge {
  #size: number;
  readonly #roots: Buffer[];

  /** @param roots of another edge with this size; none for an empty tree */
  constructor(size = 0, roots: readonly Buffer[] = []) {
    this.#size = size;
    this.#roots = [...roots];
  }

  get size(): number {
    return this.#size;
  }

  get roots(): readonly Buffer[] {
    return this.#roots;
  }

  add(leaf: Buffer): void {
    let added = leaf;
    // Sizes beyond 32 bits have no bitwise operators.
    for (let left = this.#size; left % 2 === 1; left = Math.floor(left / 2))
      added = join(this.#roots.pop() as Buffer, added);
    this.#roots.push(added);
    this.#size++;
  }

  /** The root of the whole tree. */
  root(): Buffer {
    const [last = EMPTY, ...before] = [...this.#roots].reverse();
    return before.reduce((right, left) => join(left, right), last);
  }
}

/**
 * The hashes that make the root of a tree out of a leaf, from the leaf up.
 *
 * @param index of the leaf
 * @param before the roots of the edge before it was added, which are all that is left of it
 * @param after the leaves that follow
 * @see RFC 9162 §2.1.3.1
 */
export function inclusionProof(
  index: number,
  before: readonly Buffer[],
  after: readonly Buffer[],
): readonly Buffer[] {
  const lefts = before.values();
  const proof: Buffer[] = [];
  let [from, to] = [0, index + 1 + after.length];
  while (to - from > 1) {
    let half = 1;
    while (2 * half < to - from) half *= 2;
    const middle = from + half;
    if (index < middle) {
      const right = new Edge();
      for (const leaf of after.slice(middle - index - 1, to - index - 1)) right.add(leaf);
      proof.push(right.root());
      to = middle;
    } else {
      proof.push(lefts.next().value as Buffer);
      from = middle;
    }
  }
  return proof.reverse();
}

/**
 * The root that a proof makes out of a leaf; `null` if it has another length than in a tree of this size.
 *
 * @see RFC 9162 §2.1.3.2
 */
export function rootByProof(
  leaf: Buffer,
  index: number,
  size: number,
  proof: readonly Uint8Array[],
): Buffer | null {
  let [at, last, root] = [index, size - 1, leaf];
  const up = () => ([at, last] = [Math.floor(at / 2), Math.floor(last / 2)]);
  for (const hash of proof) {
    if (last === 0) return null;
    if (at % 2 === 1 || at === last) {
      root = join(hash, root);
      while (at % 2 === 0 && at !== 0) up();
    } else root = join(root, hash);
    up();
  }
  return last === 0 && index < size ? root : null;
}
