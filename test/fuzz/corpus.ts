import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Texts that reached something new, for each target: in the repository, and read by every run. */
const FOLDER = path.join(process.cwd(), 'test', 'fuzz', 'corpus');
// For each target: it is to be read, and a run begins with it.
const MAX_CHARACTERS = 8_000;

const fileOf = (target: string) => path.join(FOLDER, `${target}.json`);

export function readCorpus(target: string): string[] {
  const file = fileOf(target);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as string[]) : [];
}

/** Adds texts as far as there is room, short ones first. Lone surrogates survive in JSON. */
export function writeCorpus(target: string, texts: readonly string[]): void {
  let room = MAX_CHARACTERS;
  const kept = [...new Set(texts)]
    .sort((left, right) => left.length - right.length)
    .filter((text) => (room -= JSON.stringify(text).length) >= 0);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(fileOf(target), `${JSON.stringify(kept, null, 1)}\n`);
}
