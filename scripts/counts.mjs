// Reads reports of vitest (`--reporter=json`), and tells what did not pass, and how many tests passed, failed and were skipped:
// `node scripts/counts.mjs report.json …`. A skip is a failure here: the gate has installed everything that a test needs.
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** @typedef {{ status: string, fullName: string, failureMessages?: string[] }} Test */
/** @typedef {{ name: string, status: string, message: string, assertionResults: Test[] }} File */
/** @typedef {{ success: boolean, numPassedTests: number, numFailedTests: number, numPendingTests: number, numTodoTests: number, testResults: File[] }} Report */
let [passed, failed, skipped] = [0, 0, 0];
for (const file of process.argv.slice(2)) {
  const report = /** @type {Report} */ (JSON.parse(readFileSync(file, 'utf8')));
  const run = path.basename(file, '.json');
  for (const { name, message, assertionResults } of report.testResults) {
    if (message) console.log(`${run}: ${name}: ${message}`);
    for (const { status, fullName, failureMessages = [] } of assertionResults)
      if (status !== 'passed')
        console.log(
          `${run}: ${name}: ${status}: ${fullName}\n${failureMessages.join('\n').slice(0, 2000)}`.trimEnd(),
        );
  }
  const hasBroken = !report.success || report.testResults.some(({ status }) => status === 'failed');
  passed += report.numPassedTests;
  failed += Math.max(report.numFailedTests, hasBroken ? 1 : 0);
  skipped += report.numPendingTests + report.numTodoTests;
}
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed > 0 || skipped > 0 || passed === 0 ? 1 : 0;
