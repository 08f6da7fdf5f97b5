// Writes each line of its input into a file, and says how many lines were written and dropped so far.
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { LineFile } from '../../dist/service/observe/logs/line-file.js';

const log = /** @type {import('pino').Logger} */ (/** @type {unknown} */ ({ error: () => undefined }));
const file = await LineFile.open(process.argv[2] ?? '', log);
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  file.write(line);
  count++;
  while (file.written + file.dropped < count) await pause(10);
  console.log(`${file.written} ${file.dropped}`);
}
await file.close();
