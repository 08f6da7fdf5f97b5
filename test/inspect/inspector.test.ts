import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import sodium from 'libsodium-wrappers';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { digestOf } from '../../src/protocol/jwt.js';
import { inspectorPage } from '../../src/cli/commands/inspect.js';
import { MAIN } from '../cli/drs.js';
import { launchBrowser } from '../support/browser.js';
import { end, firstLine } from '../support/child.js';
import { eventually } from '../support/eventually.js';
import { startService, type RunningService } from '../support/service.js';
import { readToken } from '../../web/inspect/decode.js';
import { makeExample } from '../../web/inspect/example.js';
import { policyInForce } from '../../src/issue/plain-words.js';
import { axeSource, openInspector, PAGE, type OpenPage } from './browser.js';
import { needs } from '../support/programs.js';

/** `EDITS=10000 npx vitest run test/inspect/inspector.test.ts -t random` searches longer. */
const EDITS = Number(process.env['EDITS'] ?? 40);

/** Bytes. */
const MAX_PAGE = 600_000;

it('is one file, not too large, that names no other', () => {
  const page = readFileSync(PAGE, 'utf8');
  expect(statSync(PAGE).size).toBeLessThanOrEqual(MAX_PAGE);
  expect(page).toMatch(
    /content="default-src 'none'; script-src 'sha256-[\w+/=]+' 'wasm-unsafe-eval'; style-src 'sha256-/,
  );
  expect(page).not.toMatch(/<(?:script|link|img|iframe)[^>]+(?:src|href)="(?!data:)/);
  expect(page.match(/<script/g)).toHaveLength(2);
});

it('says in plain words what a receipt keeps from its parents, also where it does not repeat it', () => {
  const [root, child] = [
    { pii_access: false, max_delegations: 2, max_calls: 9 },
    { max_calls: 5, write_access: false },
  ];
  const denied = { pii_access: false, write_access: false, max_calls: 5 };
  expect(policyInForce([root])).toEqual(root);
  expect(policyInForce([root, child])).toEqual({ ...denied, max_delegations: 1 });
  expect(policyInForce([root, child, { max_delegations: 7 }])).toEqual({
    ...{ pii_access: false, write_access: false, max_delegations: 0 },
  });
  expect(policyInForce([{}, {}])).toEqual({});
});

it('opens with a text that cannot end the element that it is in', () => {
  const page = inspectorPage('</script><script>alert(1)</script>');
  expect(page.match(/<script/g)).toHaveLength(2);
  expect(page).toContain('\\u003c/script>\\u003cscript>');
});

describe('in Chromium', needs('chromium'), () => {
  let browser: Browser;
  let folder: string;
  let service: RunningService;
  let open: OpenPage;
  const decisions = () => path.join(folder, 'decisions.jsonl');
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'drs-inspector-'));
    [browser, service] = await Promise.all([
      launchBrowser(),
      startService({ DECISION_LOG: decisions(), DRS_ADMIN_TOKEN: 'inspector-token' }),
    ]);
    open = await openInspector(browser);
  });
  afterAll(async () => {
    await Promise.all([browser.close(), service.stop()]);
    rmSync(folder, { recursive: true });
  });
  const headline = () => open.page.textContent('.verdict h2');
  const code = () => open.page.textContent('.verdict .code code');
  const failedLight = () =>
    open.page
      .getAttribute('.lights li.failed', 'class')
      .then(() => open.page.textContent('.lights li.failed .block'));
  const marked = async () =>
    (await open.page.locator('.step.failed .claims mark').allTextContents()).join('');

  it('shows an example for each light, and marks its cause', async () => {
    const found: unknown[] = [];
    for (const name of ['A', 'B', 'C', 'D', 'E', 'F'] as const) {
      await open.show(name);
      found.push([await failedLight(), await code(), (await marked()).slice(0, 20)]);
    }
    expect(found).toEqual([
      ['A Structure', 'MALFORMED_RECEIPT', '"exp": "tomorrow"'],
      ['B Linkage', 'CHAIN_BREAK', '"prev_dr_hash": "sha'],
      ['C Signatures', 'INVALID_SIGNATURE', expect.any(String)],
      ['D Policy', 'POLICY_VIOLATION', expect.stringContaining('"allowed_tools"')],
      ['E Time', 'EXPIRED', expect.stringMatching(/^"exp": \d+$/)],
      ['F Revocation', 'RECEIPT_REVOKED', '"drs_status_list_ind'],
    ]);
    await open.show('binding');
    expect(await headline()).toBe('Valid, but not this body');
    expect(await open.page.textContent('.difference .differs th')).toBe('≠ query');
    await open.show('long');
    expect([await headline(), await open.page.locator('.step').count()]).toEqual(['Valid', 17]);
  });

  it('judges each edit, and restores', async () => {
    await open.show('valid');
    expect(await headline()).toBe('Valid');
    await open.page.click('text=Claims of receipt 2');
    const claims = open.page.getByLabel('Claims of receipt 2');
    await claims.fill((await claims.inputValue()).replace('"max_cost_usd": 1', '"max_cost_usd": 19'));
    await eventually(async () => expect(await headline()).toBe('Refused'));
    expect(await code()).toBe('CHAIN_REFERENCE_MISMATCH');
    await open.page.click('text=Restore the original');
    await eventually(async () => expect(await headline()).toBe('Valid'));
    const what = async (label: string, value: string, expected: string) => {
      const field = open.page.getByLabel(label);
      await field.fill(value);
      await eventually(async () => expect(await code()).toBe(expected));
      await field.fill('');
      await eventually(async () => expect(await headline()).toBe('Valid'));
    };
    await what('the tool server were', 'https://other.example', 'TOOL_SERVER_MISMATCH');
    await what(
      'only these principals were trusted',
      'did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp',
      'UNTRUSTED_ROOT',
    );
    const operator = open.page.getByLabel('the operator said of tools');
    await operator.fill('{"tool":"search","cost_usd":9}');
    await eventually(async () => expect(await code()).toBe('POLICY_VIOLATION'));
    expect(await open.page.textContent('.what-if')).toContain('This tool costs 9 US dollars.');
    await operator.fill('{"tool":"search","cost_used":9}');
    await eventually(async () => expect(await open.page.textContent('.what-if .bad')).toContain('cost_used'));
    await operator.fill('');
    await eventually(async () => expect(await headline()).toBe('Valid'));
    await open.page.getByLabel('it were checked at').fill('2020-01-01T00:00:00');
    await eventually(async () => expect(await code()).toBe('NOT_YET_VALID'));
    await open.page.click('.what-if button:has-text("Now")');
    await open.page.getByLabel('revoked (status list index 1042)').check();
    await eventually(async () => expect(await code()).toBe('RECEIPT_REVOKED'));
  });

  it(`shows whatever random edits make of it: ${EDITS}`, async () => {
    await open.show('valid');
    const made = await open.page.evaluate(`(async () => {
      let seed = 35;
      const random = (below) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
      const pieces = ['', '"', '{', '}', ',', '.', 'null', '-1', '1e999', '\\u0000', '</script>', 'a'];
      const seen = new Set();
      for (let left = ${EDITS}; left > 0; left--) {
        const areas = [...document.querySelectorAll('.editor textarea')];
        const area = areas[random(areas.length)];
        const at = random(area.value.length + 1);
        const cut = area.value.slice(0, at) + pieces[random(pieces.length)] + area.value.slice(at + random(3));
        area.value = cut;
        area.dispatchEvent(new Event('input', { bubbles: true }));
        // Effects run after the next frame.
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
        seen.add(document.querySelector('.verdict .code code')?.textContent ?? document.querySelector('.recognised').textContent);
        area.dispatchEvent(new Event('blur'));
        if (left % 7 === 0) document.querySelector('.foot button')?.click();
        if (document.querySelector('main.empty') !== null) {
          document.querySelector('.under button')?.click();
          await new Promise((done) => setTimeout(done));
          document.querySelector('.first button').click();
          await new Promise((done) => setTimeout(done, 20));
        }
      }
      return seen.size;
    })()`);
    expect(made).toBeGreaterThan(3);
    expect(open.errors).toEqual([]);
  });

  it('lets a call leave it only without its signature, unless one insists', async () => {
    await open.show('valid');
    const form = open.page.locator('.out .copy');
    const signature = /"invocation":"[\w-]+\.[\w-]+\.([\w-]+)"/;
    const signatureIn = async () => signature.exec(await form.inputValue())?.[1];
    await open.page.click('.out button:has-text("curl")');
    expect(await signatureIn()).toBe('A'.repeat(86));
    await open.page.click('.out button:has-text("Bug report")');
    expect(await form.inputValue()).toContain('A'.repeat(86));
    await open.page.click('.out button:has-text("curl")');
    await open.page.getByLabel('with the signature of the call').check();
    expect(await signatureIn()).not.toBe('A'.repeat(86));
  });

  it('shows the signature unasked only where no verifier accepts it: two hours after a signed `exp`', async () => {
    const [HOUR, DAY] = [3_600, 86_400];
    const now = Math.floor(Date.now() / 1000);
    await sodium.ready;
    const signatureOf = async (expired: number, edit: (bundle: string) => string = (text) => text) => {
      // The example ends in two days.
      const { input } = makeExample('valid', sodium, now - expired - 2 * DAY);
      await open.visit();
      await open.paste(edit(input));
      await open.page.waitForSelector('.out');
      const form = open.page.locator('.out .copy');
      return /"invocation":"[\w-]+\.[\w-]+\.([\w-]+)"/.exec(await form.inputValue())?.[1];
    };
    const NONE = 'A'.repeat(86);
    // A minute before and after: the clock goes on.
    expect(await signatureOf(60)).toBe(NONE);
    expect(await signatureOf(2 * HOUR - 60)).toBe(NONE);
    expect(await signatureOf(2 * HOUR + 60)).not.toBe(NONE);
    // Nobody has signed this `exp`: the receipt that somebody else has may be in force.
    const edited = (text: string) => {
      const bundle = JSON.parse(text) as { receipts: string[] };
      const [header, , signature] = (bundle.receipts[0] ?? '').split('.');
      const claims = { ...readToken(bundle.receipts[0] ?? '').claims, exp: now - 9 * DAY };
      const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
      return JSON.stringify({ ...bundle, receipts: [`${header}.${payload}.${signature}`] });
    };
    expect(await signatureOf(-3600, edited)).toBe(NONE);
  });

  it('gives a link only where others can open the page', async () => {
    await open.show('valid');
    const forms = () => open.page.locator('.out .tabs button').allTextContents();
    expect(await forms()).toEqual(['Bundle', 'curl', 'Test vector', 'Bug report']);
    const [local, shared] = ['http://127.0.0.1:8080/inspect', 'https://tools.example/inspect'];
    const body = readFileSync(PAGE, 'utf8');
    for (const url of [local, shared])
      await open.page.route(url, (route) => route.fulfill({ contentType: 'text/html', body }));
    await open.visit(local);
    await open.show('valid');
    expect(await forms()).not.toContain('Link');
    await open.visit(shared);
    await open.show('valid');
    await open.page.getByLabel('with the signature of the call').check();
    const link = await open.page.locator('.out .copy').inputValue();
    expect(link).toMatch(/^https:\/\/tools\.example\/inspect#bundle=[\w-]+$/);
    await open.visit(link);
    await open.page.waitForSelector('.verdict');
    expect([await headline(), open.page.url()]).toEqual(['Valid', shared]);
    for (const url of [local, shared]) await open.page.unroute(url);
    await open.visit();
  });

  it('uses a status list that is pasted beside a bundle', async () => {
    await open.show('valid');
    const bits = Buffer.alloc(16_384);
    // Bit 1042, the most significant one first.
    bits[130] = 0x20;
    const encodedList = `u${gzipSync(bits).toString('base64url')}`;
    const credentialSubject = { type: 'BitstringStatusList', statusPurpose: 'revocation', encodedList };
    await open.paste(
      JSON.stringify({ type: ['BitstringStatusListCredential'], issuer: 'did:key:z', credentialSubject }),
    );
    await eventually(async () => expect(await code()).toBe('RECEIPT_REVOKED'));
    expect(await open.page.textContent('.verdict .message')).toContain('the remote status list');
    await open.page.getByLabel('Take off: Status list').click();
    await eventually(async () => expect(await headline()).toBe('Valid'));
  });

  const receiptsHere = async () =>
    (JSON.parse(await open.page.inputValue('.input textarea')) as { receipts: string[] }).receipts;
  /** As `GET /admin/usage` answers of the last receipt, whose limit is 20. */
  const pasteUsage = async (calls: number) => {
    const receipt = digestOf((await receiptsHere()).at(-1) ?? '');
    const gate = { calls, total_cost_usd: 0 };
    await open.paste(JSON.stringify({ receipt, verify: { calls: 3, total_cost_usd: 0 }, gate }));
  };

  const admin = async (path: string, body?: object) => {
    const headers = { authorization: 'Bearer inspector-token' };
    const answer = await fetch(service.url + path, {
      headers,
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    });
    expect(answer.status).toBe(200);
    return answer.text();
  };
  /** Waits for a refusal, or for its end. */
  const refused = (expected: readonly string[]) =>
    eventually(async () =>
      expect(await open.page.locator('.verdict .code code, .verdict .message').allTextContents()).toEqual(
        expected,
      ),
    );

  it('decides with what only a service knows as that service does, until it is taken off', async () => {
    await open.show('valid');
    const input = await open.page.inputValue('.input textarea');
    const receipts = await receiptsHere();
    const paste = async (text: string, says: string) => {
      await open.paste(text);
      const notes = open.page.locator('.input .note');
      await eventually(async () => expect((await notes.allTextContents()).join()).toContain(says));
      expect(await open.page.inputValue('.input textarea')).toBe(input);
    };
    const takeOff = async (what: string) => {
      await open.page.getByLabel(`Take off: ${what}`).click();
      await refused([]);
    };
    const asService = async () => {
      const answer = await (await service.post('/verify', input)).json();
      const { error } = answer as { error: { code: string; message: string } };
      await refused([error.code, error.message]);
      return error.code;
    };

    // Limits used.
    const { body: sent, ...bundle } = JSON.parse(input) as Record<string, unknown>;
    const header = Buffer.from(JSON.stringify(bundle)).toString('base64url');
    const question = { protocol: 'http', method: 'POST', path: '/', headers: { 'x-drs-bundle': header } };
    const ask = async (more: object) => {
      const answer = await service.post('/v1/gate', JSON.stringify({ ...question, ...more }));
      return (await answer.json()) as { response: { error: { data: { code: string; detail: string } } } };
    };
    expect(await ask({ body: sent })).toMatchObject({ allow: true });
    // A request that a gate refuses although its bundle is valid.
    const params = { uri: 'file:///x' };
    const message = { jsonrpc: '2.0', id: 1, method: 'resources/read', params };
    const other = { protocol: 'mcp', body: message };
    const { data } = (await ask(other)).response.error;
    await open.paste(JSON.stringify({ ...question, ...other }));
    await refused([data.code, data.detail]);
    expect([data.code, await headline(), await marked()]).toEqual([
      'COMMAND_MISMATCH',
      'Valid, but a gate refuses it',
      '"cmd": "/mcp/tools/call"',
    ]);
    await open.paste(input);
    const used = receipts.map(async (receipt) => admin(`/admin/usage?receipt=${digestOf(receipt)}`));
    await paste((await Promise.all(used)).join('\n'), 'Recognised: what has been used of 3 receipts');
    expect(await open.page.locator('.used .value').allTextContents()).toEqual([
      '1 of 500',
      '1 of 100',
      '1 of 20',
    ]);
    // It judges later than it takes the text.
    await eventually(async () =>
      expect(await open.page.textContent('.lights li:last-child')).toContain('No counted limit is reached'),
    );
    await pasteUsage(20);
    await refused(['LIMIT_REACHED', expect.stringContaining('20 of 20 are used') as string]);
    expect(await marked()).toBe('"max_calls": 20');
    await takeOff('Limits used');

    // Local revocations: a receipt, then a key above it.
    const revoke = async (asked: object) => {
      await admin('/admin/revoke', { ...asked, reason: 'laptop stolen' });
      await paste(await admin('/admin/revocations'), 'local revocation');
    };
    await revoke({ receipt: digestOf(receipts[2] ?? '') });
    expect([await asService(), await failedLight()]).toEqual(['RECEIPT_REVOKED', 'F Revocation']);
    expect(await marked()).toBe(receipts[2]);
    await revoke({ did: readToken(receipts[1] ?? '').claims['aud'] });
    expect([await asService(), await failedLight()]).toEqual(['KEY_REVOKED', 'F Revocation']);
    expect(await marked()).toMatch(/^"aud": "did:key:/);
    expect(await open.page.locator('.withdrawn').allTextContents()).toEqual([
      expect.stringMatching(/^The key that gets it is revoked since .*: laptop stolen$/),
      expect.stringMatching(/^This receipt is revoked since /),
    ]);
    await takeOff('Local revocations');

    // Trusted roots.
    const did = readToken(receipts[0] ?? '').claims['iss'] as string;
    const roots = (one: string) => JSON.stringify({ did: one, name: 'alice@example.com' });
    await paste(roots(did), 'one trusted root');
    await eventually(async () => expect(await open.page.textContent('.called')).toBe('alice@example.com'));
    await paste(roots('did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp'), 'one trusted root');
    await eventually(async () => expect(await code()).toBe('UNTRUSTED_ROOT'));
    await takeOff('Trusted roots');
  });

  it('shows texts of a bundle as texts', async () => {
    await open.show('valid');
    const input = await open.page.inputValue('.input textarea');
    const bundle = JSON.parse(input) as { receipts: string[]; body: Record<string, unknown> };
    const evil = '<img src=x onerror="window.hacked=1">';
    const segments = (bundle.receipts[0] ?? '').split('.');
    const claims = JSON.parse(Buffer.from(segments[1] ?? '', 'base64url').toString()) as Record<
      string,
      unknown
    >;
    claims['policy'] = { allowed_tools: [evil], [evil]: evil };
    claims['cmd'] = `/${evil}`;
    claims['iss'] = evil;
    segments[1] = Buffer.from(JSON.stringify(claims)).toString('base64url');
    const text = JSON.stringify({
      ...bundle,
      receipts: [segments.join('.'), ...bundle.receipts.slice(1)],
      body: { [evil]: evil },
    });
    await open.paste(text);
    await eventually(async () => expect(await code()).toBe('CHAIN_BREAK'));
    expect(await open.page.locator('.chain img, .what-if img').count()).toBe(0);
    expect(await open.page.locator('.chip', { hasText: evil }).count()).toBe(2);
    expect(await open.page.evaluate('window.hacked')).toBe(undefined);
  });

  it('shows the cause of a refused call from its line in the decision log', async () => {
    await open.show('E');
    const bundle = await open.page.inputValue('.input textarea');
    const answer = await service.post('/verify', bundle);
    const refusal = (await answer.json()) as { error: { code: string } };
    const line = await eventually(() => {
      const found = /^.*"EXPIRED".*$/m.exec(readFileSync(decisions(), 'utf8'));
      expect(found).not.toBe(null);
      return found?.[0] ?? '';
    });
    await open.paste(line);
    await eventually(async () =>
      expect(await open.page.textContent('.recognised')).toBe('A line of the decision log'),
    );
    expect([await code(), await failedLight()]).toEqual([refusal.error.code, 'E Time']);
    await open.paste(JSON.stringify(refusal));
    await eventually(async () =>
      expect(await open.page.textContent('.recognised')).toBe('A refusal, as the caller got it'),
    );
    expect(await code()).toBe('EXPIRED');
  });

  it('speaks in plain words of no claim and no code, and calls people by their names', async () => {
    await open.show('D');
    const did = readToken((await receiptsHere())[0] ?? '').claims['iss'] as string;
    await open.paste(JSON.stringify({ did, name: 'alice@example.com' }));
    await open.page.click('text=In plain words');
    const said = await open.page.locator('.verdict, .words-card').allInnerTexts();
    expect(said.join()).toContain('alice@example.com gave authority');
    expect(said.join()).toContain('The call asks for something that was not allowed.');
    expect(said.join()).not.toMatch(/args\.|receipt \d|allowed_tools|[A-Z]_[A-Z]/i);
    expect(await open.page.locator('.words-card ul').count()).toBe(2);
    await open.page.click('text=In detail');
    await open.page.getByLabel('Take off: Trusted roots').click();
  });

  it('axe finds nothing, and nothing is wider than the window', async () => {
    await open.page.evaluate(axeSource());
    const look = async (what: string) => {
      const problems = `axe.run({ resultTypes: ['violations'], preload: false }).then(({ violations }) => violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html.slice(0, 160))]))`;
      const width = open.page.viewportSize()?.width;
      expect([
        what,
        await open.page.evaluate(problems),
        await open.page.evaluate('document.documentElement.scrollWidth'),
      ]).toEqual([what, [], width]);
    };
    await open.paste('');
    await open.page.waitForSelector('main.empty .first');
    await look('empty');
    await open.page.emulateMedia({ colorScheme: 'dark' });
    await open.show('valid');
    await pasteUsage(20);
    await look('limits used, dark');
    await open.page.click('text=In plain words');
    await look('plain words, dark');
    expect(await open.page.locator('.words-card').innerText()).toContain(
      'make a call that does not say what it costs, whether',
    );
    await open.page.click('text=In detail');
    await open.page.emulateMedia({ colorScheme: 'light' });
    await open.page.setViewportSize({ width: 390, height: 844 });
    await open.show('D');
    await look('a broken policy, 390');
    await open.page.setViewportSize({ width: 1280, height: 900 });
  });

  it('has asked for nothing but itself, and cannot', async () => {
    expect([open.errors, open.foreign]).toEqual([[], []]);
    const blocked = await open.page.evaluate(`(async () => {
      const blocked = [];
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => blocked.push(effectiveDirective));
      await fetch('${service.url}/healthz').catch(() => undefined);
      navigator.sendBeacon('${service.url}/verify', 'x');
      try { new WebSocket('ws://127.0.0.1:1/'); } catch {}
      try { new EventSource('${service.url}/'); } catch {}
      const image = new Image(); image.src = '${service.url}/x.png';
      const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script);
      const frame = document.createElement('iframe'); frame.src = '${service.url}/'; document.body.append(frame);
      for (let left = 3000; left > 0 && blocked.length < 7; left--) await new Promise((done) => setTimeout(done, 20));
      frame.remove();
      return [blocked.sort(), window.ran];
    })()`);
    expect(blocked).toEqual([
      ['connect-src', 'connect-src', 'connect-src', 'connect-src', 'frame-src', 'img-src', 'script-src-elem'],
      undefined,
    ]);
    // Nothing of it has reached the service.
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    expect(metrics).not.toMatch(/drs_http_requests_total\{endpoint="(healthz|other)"/);
    expect(open.foreign).toEqual([]);
  });

  it('is served by `drs-verify inspect` to whoever knows its address', async () => {
    await open.show('D');
    const bundle = await open.page.inputValue('.input textarea');
    const [file, opened, opener] = ['bundle.json', 'opened', 'xdg-open'].map((name) =>
      path.join(folder, name),
    ) as [string, string, string];
    writeFileSync(file, bundle);
    writeFileSync(opener, `#!/bin/sh\nprintf %s "$1" > '${opened}'\n`);
    chmodSync(opener, 0o755);
    const child = spawn(process.execPath, [MAIN, 'inspect', file], {
      env: { PATH: `${folder}:/usr/bin:/bin` },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const url = await firstLine(child.stdout);
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/$/);
      await eventually(() => expect(readFileSync(opened, 'utf8')).toBe(url));
      const statusOf = async (address: string, method = 'GET') => (await fetch(address, { method })).status;
      const { origin, port } = new URL(url);
      expect(
        await Promise.all([
          statusOf(`${origin}/x`),
          statusOf(url, 'POST'),
          statusOf(url.replace('127.0.0.1', 'localhost').replace(/:\d+/, `:${port}`)).catch(() => 404),
        ]),
      ).toEqual([404, 404, 404]);
      await open.visit(url);
      await open.page.waitForSelector('.verdict');
      expect([await code(), open.foreign]).toEqual(['POLICY_VIOLATION', []]);
      // Whoever is sent what the page or the browser's address bar shows does not get the bundle.
      const secret = new URL(url).pathname.slice(1, -1);
      expect(await open.page.locator('.out .copy').inputValue()).not.toContain(secret);
      expect(open.page.url()).toBe(`${origin}/`);
      expect(await (await fetch(open.page.url())).text()).toBe(inspectorPage());
    } finally {
      // Other tests use the page where it is, which ends with the program.
      await open.visit();
      await end(child);
    }
  });
});
