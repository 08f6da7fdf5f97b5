import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Project } from '../support/project.js';

const MAKE = `
const key = generateKey();
const verifier = createVerifier({ workerThreads: 0 });
verifier.verify({}).then(async (verdict) => {
  console.log(key.did.slice(0, 8), verdict.error?.code);
  await verifier.close();
});
`;

// `tsc --init` switches it on for ES modules; in CommonJS it forbids `import` altogether.
const NOT_VERBATIM = ['--verbatimModuleSyntax', 'false'];

// README.md, "As a library", says what is shown here.
describe('a CommonJS project', () => {
  let project: Project;
  beforeAll(() => {
    project = Project.create('commonjs');
    project.install('@types/node');
  });
  afterAll(() => project.remove());

  const expectRun = async (file: string) =>
    expect(await project.run('node', ['--no-warnings', file])).toEqual({
      code: 0,
      out: 'did:key: MALFORMED_BUNDLE\n',
      err: '',
    });

  it('requires the package in JavaScript, where this Node can', async () => {
    const names = ['issue', 'middleware', 'client', 'hono'];
    const all = names.map((name) => `require('drs-verify/${name}');`).join('\n');
    const code = `const { createVerifier } = require('drs-verify');\nconst { generateKey } = require('drs-verify/issue');\n`;
    project.write('use.cjs', code + all + MAKE);
    await expectRun('use.cjs');
  });

  it('imports it in TypeScript under `module: nodenext`', async () => {
    const code = `import { createVerifier } from 'drs-verify';\nimport { generateKey } from 'drs-verify/issue';\n`;
    project.write('use.ts', code + MAKE);
    expect(await project.compile(...NOT_VERBATIM)).toBe('');
    await expectRun('use.js');
  });

  it('takes `await import()` under `module: node16`, which has no other way', async () => {
    const lines = [
      `async function main() {`,
      `const { createVerifier } = await import('drs-verify');`,
      `const { generateKey } = await import('drs-verify/issue');`,
      MAKE,
      `}`,
      `void main();`,
    ];
    project.write('use.ts', lines.join('\n'));
    project.write(
      'static.ts',
      `import { createVerifier } from 'drs-verify';\nconsole.log(createVerifier);\n`,
    );
    const output = await project.compile('--module', 'node16', ...NOT_VERBATIM);
    expect(output).toMatch(/^static\.ts\S* error TS1479: [^]*$/);
    expect(output.match(/error TS/g)).toHaveLength(1);
    await expectRun('use.js');
  });
});
