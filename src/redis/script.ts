import { createHash } from 'node:crypto';
import type { RedisLink } from './link.js';

/** A script in Lua, and the digest by which Redis knows it. */
export const scriptOf = (text: string) => ({ text, sha1: createHash('sha1').update(text).digest('hex') });

/** Runs a script, by its digest if Redis knows it. @param keys of one slot, the first not empty */
export async function runScript(
  link: Pick<RedisLink, 'send'>,
  script: ReturnType<typeof scriptOf>,
  keys: readonly string[],
  values: readonly (string | number)[],
): Promise<unknown> {
  const [first = ''] = keys;
  const rest = [String(keys.length), ...keys, ...values.map(String)];
  try {
    return await link.send(first, ['EVALSHA', script.sha1, ...rest]);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return link.send(first, ['EVAL', script.text, ...rest]);
  }
}
