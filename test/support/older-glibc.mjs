// For tests alone: makes the binaries of uWebSockets.js for Node 22 and 24 loadable where glibc is older than 2.38 (Debian 12),
// so that what is deployed on Debian 13 is also tested here. They want that version for three functions, which read numbers.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';

// See elf(5).
const SHT_DYNSYM = 11;
const SHT_GNU_VERNEED = 0x6ffffffe;
const SYMBOL_BYTES = 24;
/** The three functions are strtol, strtoul and strtoull behind this prefix, which also read the 0b of C23. */
const PREFIX = '__isoc23_';

/**
 * Has a binary use the functions that every glibc for x86-64 has. The file is replaced, since it may be a link to another.
 *
 * @param {string} file a 64-bit ELF library
 */
export function useOlderGlibc(file) {
  const elf = readFileSync(file);
  const long = (/** @type {number} */ at) => Number(elf.readBigUInt64LE(at));
  const entryBytes = elf.readUInt16LE(0x3a);
  const sections = Array.from({ length: elf.readUInt16LE(0x3c) }, (_, index) => {
    const at = long(0x28) + index * entryBytes;
    const [type, link, entries] = [4, 40, 44].map((offset) => elf.readUInt32LE(at + offset));
    return { type, link, entries, offset: long(at + 24), bytes: long(at + 32) };
  });
  const symbols = sections.find(({ type }) => type === SHT_DYNSYM);
  const needed = sections.find(({ type }) => type === SHT_GNU_VERNEED);
  const strings = sections[symbols?.link ?? -1];
  if (!symbols || !needed || !strings) throw new Error(`${file} is no dynamic library`);
  const text = (/** @type {number} */ offset) => {
    const at = strings.offset + elf.readUInt32LE(offset);
    return elf.toString('latin1', at, elf.indexOf(0, at));
  };
  for (let at = symbols.offset; at < symbols.offset + symbols.bytes; at += SYMBOL_BYTES)
    if (text(at).startsWith(PREFIX)) elf.writeUInt32LE(elf.readUInt32LE(at) + PREFIX.length, at);

  /** Where the versions that are needed of libc.so.6 are described. @type {Map<string, number>} */
  const versions = new Map();
  let library = needed.offset;
  for (let index = 0; index < (needed.entries ?? 0); index++) {
    let at = library + elf.readUInt32LE(library + 8);
    for (let left = elf.readUInt16LE(library + 2); left > 0; left--) {
      if (text(library + 4) === 'libc.so.6') versions.set(text(at + 8), at);
      at += elf.readUInt32LE(at + 12);
    }
    library += elf.readUInt32LE(library + 12);
  }
  const [newer, older] = [versions.get('GLIBC_2.38'), versions.get('GLIBC_2.2.5')];
  if (newer === undefined || older === undefined) throw new Error(`${file} does not want glibc 2.38`);
  // The hash of the version, and its name.
  for (const member of [0, 8]) elf.copy(elf, newer + member, older + member, older + member + 4);
  rmSync(file);
  writeFileSync(file, elf);
}
