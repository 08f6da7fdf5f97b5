import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';

// A leaf and a node begin with different bytes, so that none can be taken for the other: RFC 9162 §2.1.1, as in RFC 6962.
const LEAF = Buffer.of(0);
const NODE = Buffer.of(1);
const sha256 = (...parts: readonly Uint8Array[]) => hash('sha256', Buffer.concat(parts), 'buffer');

/** The hash of a line, which stands for it in the tree. */
export const leafOf = (line: Uint8Array): Buffer => sha256(LEAF, line);

const EMPTY = sha256();
const join = (left: Uint8Array, right: Uint8Array) => sha256(NODE, left, right);

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
    let node = leaf;
    // Sizes beyond 32 bits have no bitwise operators.
    for (let left = this.#size; left % 2 === 1; left = Math.floor(left / 2))
      node = join(this.#roots.pop() as Buffer, node);
    this.#roots.push(node);
    this.#size++;
  }

  /** The root of the whole tree. */
  root(): Buffer {
    const [last = EMPTY, ...before] = [...this.#roots].reverse();
    return before.reduce((right, left) => join(left, right), last);
  }
}
