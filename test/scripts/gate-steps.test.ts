import { spawn, spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { ended } from '../support/child.js';

const script = (...lines: string[]) => ['set -uo pipefail', '. .ci/steps.sh', ...lines].join('\n');
const run = (...lines: string[]) => spawnSync('bash', ['-c', script(...lines)], { encoding: 'utf8' });
/** The rows of the summary, with one space between words. */
const rowsOf = (output: string) =>
  output
    .slice(output.indexOf('== what became of each step'))
    .trim()
    .split('\n')
    .slice(1)
    // How long each takes is the machine's.
    .map((row) => row.replaceAll(/ +/g, ' ').replace(/ \d+s /, ' 0s '));

describe('the steps of the gate', () => {
  it('are told again at the end: name, result, seconds, reason', () => {
    const { status, stdout } = run(
      "step 'one that prints' shown printf 'first\\nlast\\n\\n'",
      "late() { left_out '3 s are left'; echo never; }",
      "step 'one that is left out' late",
      "broken() { why 'a reason'; false; echo never; }",
      "step 'one that fails' broken",
      "step 'one that says nothing' false",
      "step 'one after them' true",
    );
    expect(rowsOf(stdout)).toEqual([
      'ok 0s one that prints: last',
      'left out 0s one that is left out: 3 s are left',
      'failed 0s one that fails: a reason',
      'failed 0s one that says nothing: it ended with 1',
      'ok 0s one after them',
    ]);
    expect(stdout).not.toContain('never');
    expect(status).toBe(1);
  });

  it('have failed where what is shown has', () => {
    const { status, stdout } = run("step 'shown' shown bash -c 'echo the reason; exit 3'");
    expect(rowsOf(stdout)).toEqual(['failed 0s shown: the reason']);
    expect(status).toBe(1);
  });

  it('end the gate well where none failed, also with one that was left out', () => {
    const { status } = run("step 'all is well' true", "step 'late' left_out 'no time'");
    expect(status).toBe(0);
  });

  it('name the step in which the gate was ended', async () => {
    const gate = spawn('bash', ['-c', script("step 'one that hangs' sleep 60")], { detached: true });
    const output: string[] = [];
    for await (const chunk of gate.stdout) {
      output.push(String(chunk));
      if (output.length === 1) process.kill(-(gate.pid ?? 0), 'SIGTERM');
    }
    expect(rowsOf(output.join(''))).toEqual(['failed ?s one that hangs: ended in the middle']);
    await ended(gate);
    expect(gate.exitCode).not.toBe(0);
  });
});
